//! `cmwq scenario` from outside.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn cmwq(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cmwq"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the command runs")
}

#[track_caller]
fn stdout(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    String::from_utf8(output.stdout.clone()).expect("the output is text")
}

#[track_caller]
fn check_refused(args: &[&str], expected: &str) {
    let output = cmwq(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(expected), "{error}");
    assert!(output.stdout.is_empty());
}

fn file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("scenario.toml");
    std::fs::write(&path, text).expect("a temporary file");
    path
}

/// When `work` did `event`, in milliseconds.
#[track_caller]
fn at(document: &Value, work: &str, event: &str) -> f64 {
    let events = document["events"].as_array().expect("events");
    let found = events.iter().find(|e| e["work"] == work && e["event"] == event);
    found.and_then(|e| e["t_ms"].as_f64()).unwrap_or_else(|| panic!("{work} {event}: {document}"))
}

fn run(name: &str, on: &str) -> Value {
    let output = cmwq(&["scenario", name, "--on", on, "--json"]);
    serde_json::from_str(&stdout(&output)).expect("a JSON document")
}

const NAMES: [&str; 4] = ["doc-max3", "doc-max2", "doc-max1", "doc-intensive"];

#[test]
fn the_simulated_timelines_are_the_documented_ones() {
    for (name, w2_starts, makespan) in
        [("doc-max3", 10.0, 25.0), ("doc-max2", 20.0, 35.0), ("doc-max1", 35.0, 50.0)]
    {
        let document = run(name, "sim");
        assert_eq!(at(&document, "w2", "start"), w2_starts, "{name}");
        assert_eq!(document["makespan_ms"], makespan, "{name}");
    }
}

#[test]
fn threads_do_what_the_simulator_does() {
    for name in NAMES {
        let (real, virtual_) = (run(name, "threads"), run(name, "sim"));
        let moments = |document: &Value| {
            let events = document["events"].as_array().expect("events").iter();
            let mut moments: Vec<_> =
                events.map(|e| (e["work"].to_string(), e["event"].to_string())).collect();
            moments.sort();
            moments
        };
        assert_eq!(moments(&real), moments(&virtual_), "{name}");
        assert!(at(&real, "w0", "start") <= at(&real, "w1", "start"), "{name}: {real}");
        // Sleeping and burning cannot be faster than asked for.
        let spent = at(&real, "w0", "finish") - at(&real, "w0", "start");
        assert!(spent >= 20.0, "{name}: {real}");
    }
}

#[test]
fn with_one_slot_real_works_never_overlap() {
    let real = run("doc-max1", "threads");
    assert!(at(&real, "w0", "finish") <= at(&real, "w1", "start"), "{real}");
    assert!(at(&real, "w1", "finish") <= at(&real, "w2", "start"), "{real}");
}

#[test]
fn with_two_slots_the_third_work_waits_for_one() {
    let real = run("doc-max2", "threads");
    let first = at(&real, "w0", "finish").min(at(&real, "w1", "finish"));
    assert!(first <= at(&real, "w2", "start"), "{real}");
}

/// The promise itself, with a margin that no busy machine eats up: w1 starts while w0 sleeps, not
/// before.
#[test]
fn a_real_work_starts_when_another_one_sleeps() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = file(
        folder.path(),
        r#"
            [[workqueue]]
            name = "q"
            [[work]]
            name = "w0"
            workqueue = "q"
            cpu = 0
            script = ["burn 2ms", "sleep 1s"]
            [[work]]
            name = "w1"
            workqueue = "q"
            cpu = 0
            script = ["burn 2ms"]
        "#,
    );
    let real = run(path.to_str().expect("a plain name"), "threads");
    assert!(at(&real, "w1", "start") >= at(&real, "w0", "sleep"), "{real}");
    assert!(at(&real, "w1", "finish") < at(&real, "w0", "wake"), "{real}");
}

#[test]
fn text_and_list() {
    let text = stdout(&cmwq(&["scenario", "doc-max3", "--on", "sim"]));
    assert!(text.contains("makespan 25.000 ms"), "{text}");
    let list = stdout(&cmwq(&["scenario", "--list"]));
    assert!(NAMES.iter().all(|name| list.contains(name)), "{list}");
}

#[test]
fn a_scenario_from_standard_input() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cmwq"))
        .args(["scenario", "-", "--on", "sim", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(
            b"[[workqueue]]\nname='q'\n[[work]]\nname='w'\nworkqueue='q'\nscript=['burn 3ms']\n",
        )
        .unwrap();
    drop(stdin);
    let document: Value =
        serde_json::from_str(&stdout(&child.wait_with_output().unwrap())).expect("a document");
    assert_eq!(document["makespan_ms"], 3.0);
}

#[test]
fn pictures_and_traces_are_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (svg, trace) = (folder.path().join("a.svg"), folder.path().join("a.json"));
    let names = [svg.to_str().unwrap(), trace.to_str().unwrap()];
    stdout(&cmwq(&["scenario", "doc-max3", "--on", "sim", "--svg", names[0], "--trace", names[1]]));
    let svg = std::fs::read_to_string(svg).expect("a picture");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 10));
}

#[test]
fn what_cannot_be_run_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = file(folder.path(), "cpus = 4096\n");
    let path = path.to_str().expect("a plain name");
    check_refused(&["scenario", path, "--on", "threads"], "--on sim");
    check_refused(&["scenario", "no-such-scenario"], "cmwq scenario --list");
    std::fs::write(path, "cpus = 1\nspeed = 3\n").unwrap();
    check_refused(&["scenario", path, "--on", "sim"], "scenario.toml:2: unknown field");
    check_refused(
        &["scenario", "doc-max3", "--on", "sim", "--svg", "/nowhere/at-all.svg"],
        "/nowhere/at-all.svg",
    );
}

#[test]
fn usage_errors_have_code_2() {
    assert_eq!(cmwq(&["scenario"]).status.code(), Some(2));
    assert_eq!(cmwq(&["scenario", "doc-max3", "--on", "paper"]).status.code(), Some(2));
}
