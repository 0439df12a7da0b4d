//! Pictures, compared with those that were looked at: `CMWQ_BLESS=1` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support;

fn cmwq(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).env("CMWQ_QUIET", "1");
    command.output().unwrap()
}

/// Compares with `tests/golden/NAME`.
#[track_caller]
fn check_golden(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("CMWQ_BLESS").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        found, expected,
        "{name} is another picture; look at it, and if it is right: CMWQ_BLESS=1"
    );
}

/// A trace file, made by hand: the format of version 1 as docs and `cmwq::trace::file` have it.
struct Trace(Vec<u8>);

/// Kinds of records.
const START: u64 = 2;
const END: u64 = 3;
const BLOCKED: u64 = 4;
const RESUMED: u64 = 5;
const THREAD: u64 = 10;
const QUEUE_NAME: u64 = 11;
const FUNCTION_NAME: u64 = 12;

const US: u64 = 1_000;

impl Trace {
    fn of(name: &str) -> Self {
        let mut trace = Self(b"cmwq trace\0\x01".to_vec());
        trace.block(1, &[&42_u32.to_le_bytes()[..], name.as_bytes()].concat());
        // A tick is a nanosecond.
        trace.round(0);
        trace
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        self.0.extend(kind.to_le_bytes());
        self.0.extend((body.len() as u32).to_le_bytes());
        self.0.extend(body);
    }

    fn round(&mut self, ns: u64) {
        self.block(4, &[ns, ns, 0].map(u64::to_le_bytes).concat());
    }

    /// Records of one thread.
    fn ring(&mut self, ring: u32, records: &[[u64; 6]]) {
        let words = records.iter().flatten().flat_map(|word| word.to_le_bytes());
        let body: Vec<u8> = ring.to_le_bytes().into_iter().chain(words).collect();
        self.block(3, &body);
    }

    /// Closes the file in `folder`.
    fn write(mut self, folder: &Path, end: u64) {
        self.round(end);
        fs::write(folder.join("trace"), self.0).unwrap();
    }
}

fn word(text: &str, at: usize) -> u64 {
    let mut bytes = [0; 8];
    let part = text.as_bytes().get(at * 8..).unwrap_or_default();
    let len = part.len().min(8);
    bytes[..len].copy_from_slice(&part[..len]);
    u64::from_le_bytes(bytes)
}

fn words(text: &str) -> [u64; 3] {
    assert!(text.len() <= 24, "it takes one record");
    [word(text, 0), word(text, 1), word(text, 2)]
}

fn thread(tid: u64, name: &str) -> [u64; 6] {
    let [a, b, c] = words(name);
    [0, THREAD, tid | (name.len() as u64) << 32, a, b, c]
}

fn queue_name(wq: u64, name: &str) -> [u64; 6] {
    let [a, b, c] = words(name);
    [1, QUEUE_NAME, wq | (name.len() as u64) << 32, a, b, c]
}

fn function_name(func: u64, name: &str) -> [u64; 6] {
    assert!(name.len() <= 16, "it takes one record");
    [1, FUNCTION_NAME, name.len() as u64, func, word(name, 0), word(name, 1)]
}

/// An event of a thread on a CPU about item `work` of queue `wq`.
fn event(ns: u64, kind: u64, cpu: u64, (wq, work, func): (u64, u64, u64)) -> [u64; 6] {
    [ns, kind | cpu << 16, wq | u64::from(u32::MAX) << 32, work, func, u64::from(u32::MAX) << 32]
}

/// An event about worker `tid`.
fn about(ns: u64, kind: u64, tid: u64) -> [u64; 6] {
    [ns, kind, u64::MAX, 0, 0, tid | u64::from(u32::MAX) << 32]
}

/// Three items on two CPUs: one sleeps for a while, and another one takes its CPU meanwhile; one
/// still runs at the end.
fn small(folder: &Path) {
    let [fetch, parse, store] = [(1, 0x100, 0xf0), (1, 0x200, 0xf1), (2, 0x300, 0xf2)];
    let mut trace = Trace::of("a <program> & more");
    trace.ring(
        0,
        &[
            thread(100, "kworker/0:0"),
            queue_name(1, "net"),
            queue_name(2, "disk"),
            function_name(0xf0, "app::fetch"),
            function_name(0xf1, "app::parse"),
            function_name(0xf2, "app::store"),
            event(1_000 * US, START, 0, fetch),
            event(9_000 * US, END, 0, fetch),
        ],
    );
    trace.ring(
        1,
        &[
            thread(101, "kworker/0:1"),
            about(2_000 * US, BLOCKED, 100),
            event(2_500 * US, START, 0, parse),
            event(6_000 * US, END, 0, parse),
            about(6_500 * US, RESUMED, 100),
        ],
    );
    trace.ring(
        2,
        &[
            thread(102, "kworker/1:0"),
            event(3_000 * US, START, 1, store),
            event(5_000 * US, END, 1, store),
            event(8_000 * US, START, 1, store),
        ],
    );
    trace.write(folder, 20_000 * US);
}

#[test]
fn a_small_trace_is_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    small(folder.path());
    let output = cmwq(folder.path(), &["trace", "trace", "--svg", "-"]);
    support::check_code(&output, 0);
    check_golden("trace-small.svg", std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else was asked for");
}

#[test]
fn a_window_of_a_trace_is_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    small(folder.path());
    let window = ["--from", "1.5", "--to", "4.5", "--svg", "picture", "-o", "json"];
    let output = cmwq(folder.path(), &[&["trace", "trace"], &window[..]].concat());
    support::check_code(&output, 0);
    check_golden("trace-window.svg", &fs::read_to_string(folder.path().join("picture")).unwrap());
    assert!(fs::read_to_string(folder.path().join("json")).unwrap().contains("traceEvents"));
    let refused =
        cmwq(folder.path(), &["trace", "trace", "--svg", "-", "--from", "2", "--to", "2"]);
    support::check_code(&refused, 2);
    assert!(support::stderr(&refused).contains("--from must be less than --to"));
    support::check_code(&cmwq(folder.path(), &["trace", "trace", "--from", "1"]), 2);
    let late = cmwq(folder.path(), &["trace", "trace", "--svg", "-", "--from", "900"]);
    support::check_code(&late, 0);
    assert!(support::stderr(&late).contains("nothing ran in this window; the trace is 19 ms long"));
}

/// 20,000 runs of 300 items, each shorter than can be seen, by three workers: lanes are workers,
/// and the picture is small.
#[test]
fn a_long_trace_is_a_small_picture() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Trace::of("long");
    for ring in 0..3 {
        let mut records = vec![
            thread(100 + ring, "kworker/u4:0"),
            queue_name(1, "even"),
            queue_name(2, "odd"),
            function_name(0xf0, "work"),
        ];
        for run in (ring..20_000).step_by(3) {
            // A pause in the middle, which can be seen.
            let begin = (run + if run < 10_000 { 0 } else { 5_000 }) * 10 * US;
            let item = (1 + run % 2, 0x1000 + run % 300, 0xf0);
            records.push(event(begin + US, START, ring, item));
            records.push(event(begin + 8 * US, END, ring, item));
        }
        trace.ring(ring as u32, &records);
    }
    trace.write(folder.path(), 1_000_000 * US);
    let output = cmwq(folder.path(), &["trace", "trace", "--svg", "-"]);
    support::check_code(&output, 0);
    let says = support::stderr(&output);
    assert!(says.contains("300 items, so each lane is a worker"), "{says}");
    assert!(says.contains("is drawn together; --from and --to to look closer"), "{says}");
    check_golden("trace-long.svg", std::str::from_utf8(&output.stdout).unwrap());
    assert!(output.stdout.len() < 10_000, "{} bytes", output.stdout.len());
}

fn spans(folder: &Path, arguments: &[&str]) -> Value {
    let format = ["trace", "trace", "--format", "spans", "-o", "-"];
    let output = cmwq(folder, &[&format, arguments].concat());
    support::check_code(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Where the spans of that item begin and end, in microseconds.
fn lengths(document: &Value, address: u64) -> Vec<(u64, u64)> {
    let works = document["works"].as_array().unwrap();
    let work = works.iter().position(|work| work["address"] == address);
    let spans = document["spans"].as_array().unwrap().iter();
    let spans = spans.filter(|span| work.is_some_and(|work| span["work"] == work));
    let at = |span: &Value, end: &str| span[end].as_u64().unwrap() / US;
    spans.map(|span| (at(span, "from"), at(span, "to"))).collect()
}

#[test]
fn a_run_within_a_run_leaves_the_outer_one_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let [outer, inner] = [(1, 0x100, 0xf0), (1, 0x200, 0xf1)];
    let mut trace = Trace::of("nested");
    trace.ring(
        0,
        &[
            thread(100, "main"),
            queue_name(1, "net"),
            event(10 * US, START, 0, outer),
            event(20 * US, START, 0, inner),
            event(30 * US, END, 0, inner),
            event(40 * US, END, 0, outer),
        ],
    );
    trace.write(folder.path(), 50 * US);
    let document = spans(folder.path(), &[]);
    assert_eq!(lengths(&document, outer.1), [(0, 30)], "{document}");
    assert_eq!(lengths(&document, inner.1), [(10, 20)], "{document}");
    support::check_code(&cmwq(folder.path(), &["trace", "trace", "-o", "json"]), 0);
    let json = fs::read_to_string(folder.path().join("json")).unwrap();
    let document: Value = serde_json::from_str(&json).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let of_thread = events.iter().filter(|event| event["ph"] == "X" && event["tid"] == 100);
    let durations: Vec<_> = of_thread.map(|event| event["dur"].as_f64().unwrap()).collect();
    assert_eq!(durations, [10.0, 30.0], "{json}");
    let counters = events.iter().rfind(|event| event["ph"] == "C").unwrap();
    assert_eq!(counters["args"]["value"], 0, "{json}");
}

/// The rest of a pair comes along where it is needed.
#[test]
fn what_was_asked_for_by_its_start_alone_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    small(folder.path());
    for events in ["execute_start", "execute_end", "execute_start,worker_blocked"] {
        let document = spans(folder.path(), &["--events", events]);
        assert_eq!(lengths(&document, 0x200), [(1_500, 5_000)], "{events}: {document}");
        let fetch: &[_] = match events.ends_with("blocked") {
            true => &[(0, 1_000), (1_000, 5_500), (5_500, 8_000)],
            false => &[(0, 8_000)],
        };
        assert_eq!(lengths(&document, 0x100), fetch, "{events}: {document}");
    }
    let text = ["--format", "text", "-o", "-", "--events", "execute_start", "--svg", "picture"];
    let output = cmwq(folder.path(), &[&["trace", "trace"], &text[..]].concat());
    support::check_code(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(!text.contains("execute_end"), "that was not asked for: {text}");
}

#[test]
fn the_recording_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    small(folder.path());
    let recording = folder.path().join("trace");
    let before = fs::read(&recording).unwrap();
    std::os::unix::fs::symlink("trace", folder.path().join("link")).unwrap();
    fs::hard_link(&recording, folder.path().join("other")).unwrap();
    for output in ["-otrace", "-olink", "-oother", "--svg=trace", "--svg=./link"] {
        let refused = cmwq(folder.path(), &["trace", "trace", output]);
        support::check_code(&refused, 2);
        let says = support::stderr(&refused);
        assert!(says.contains("the file to be written is the one that is read"), "{says}");
        assert_eq!(fs::read(&recording).unwrap(), before, "{output}");
    }
    for both in [["-onew", "--svg=./new"], ["-oold", "--svg=old"], ["-o-", "--svg=-"]] {
        fs::write(folder.path().join("old"), "kept").unwrap();
        let refused = cmwq(folder.path(), &[&["trace", "trace"], &both[..]].concat());
        support::check_code(&refused, 2);
        assert_eq!(fs::read(folder.path().join("old")).unwrap(), b"kept", "{both:?}");
        assert!(!folder.path().join("new").exists(), "{both:?}");
    }
    // A program is not started for that.
    let program = ["trace", "-onew", "--svg=new", "--", "touch", "started"];
    support::check_code(&cmwq(folder.path(), &program), 2);
    assert!(!folder.path().join("started").exists());
    let nowhere = ["trace", "trace", "-o/dev/null", "--svg=/dev/null"];
    support::check_code(&cmwq(folder.path(), &nowhere), 0);
}

#[test]
fn scenarios_are_pictures() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["doc-max1", "doc-max2", "doc-max3", "doc-intensive"] {
        let output = cmwq(folder.path(), &["scenario", name, "--on", "sim", "--svg", "picture"]);
        support::check_code(&output, 0);
        let picture = fs::read_to_string(folder.path().join("picture")).unwrap();
        check_golden(&format!("scenario-{name}.svg"), &picture);
    }
}

#[test]
fn the_scenario_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let (mine, link) = (folder.path().join("mine.toml"), folder.path().join("link"));
    let scenario = include_str!("../../scenarios/doc-max1.toml");
    fs::write(&mine, scenario).unwrap();
    fs::hard_link(&mine, &link).unwrap();
    for file in ["--svg=mine.toml", "--trace=./mine.toml", "--svg=link"] {
        let refused = cmwq(folder.path(), &["scenario", "mine.toml", "--on=sim", file]);
        support::check_code(&refused, 2);
        let says = support::stderr(&refused);
        assert!(says.contains("the file to be written is the one that is read"), "{says}");
        assert_eq!(fs::read_to_string(&mine).unwrap(), scenario, "{file}");
    }
    let both = [
        ["--svg=new", "--trace=./new"],
        ["--svg=-", "--trace=-"],
        ["--svg=-", "--json"],
        ["--svg=new", "--trace=nowhere/new"],
    ];
    for (both, code) in both.into_iter().zip([2, 2, 2, 1]) {
        let arguments = [&["scenario", "doc-max1", "--on=sim"], &both[..]].concat();
        let refused = cmwq(folder.path(), &arguments);
        support::check_code(&refused, code);
        assert!(refused.stdout.is_empty() && !folder.path().join("new").exists(), "{both:?}");
    }
    // A name of the command's own is no file.
    fs::write(folder.path().join("doc-max1"), "kept until it is written").unwrap();
    for (option, begins) in [("--svg", "<svg"), ("--trace", "{")] {
        for file in ["doc-max1", "-"] {
            let output = cmwq(folder.path(), &["scenario", "doc-max1", "--on=sim", option, file]);
            support::check_code(&output, 0);
            let written = match file {
                "-" => String::from_utf8(output.stdout).unwrap(),
                file => fs::read_to_string(folder.path().join(file)).unwrap(),
            };
            assert!(written.starts_with(begins), "{option} {file}: {written}");
        }
    }
    assert!(!folder.path().join("-").exists());
}
