//! `cmwq trace`, on this test's own process and on files.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cmwq::Workqueue;
use cmwq_observe::inspect::{Snapshot, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::fcntl_setpipe_size;
use serde_json::Value;

use crate::support;

fn cmwq() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.stdin(Stdio::null()).env("CMWQ_QUIET", "1");
    command
}

/// One tool at a time can trace this process.
static TRACED: Mutex<()> = Mutex::new(());

/// A trace of this process, as text, under way.
struct Tracing {
    _alone: MutexGuard<'static, ()>,
    tool: Child,
    reader: JoinHandle<Vec<String>>,
}

impl Tracing {
    /// Begins, and returns when it has. The lines are read all the time, so that the tool never
    /// waits.
    fn begin(wq: &Workqueue, arguments: &[&str]) -> Self {
        let alone = TRACED.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = std::process::id().to_string();
        let mut tool = cmwq()
            .args(["trace", &pid, "--format", "text", "-o", "-"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(tool.stdout.take().unwrap()).lines();
        let (tell, told) = mpsc::channel();
        let reader = thread::spawn(move || {
            let tell_once = |_: &String| {
                let _ = tell.send(());
            };
            lines.map(Result::unwrap).inspect(tell_once).collect()
        });
        // Something has to happen for the first line.
        let patience = Instant::now() + Duration::from_secs(200);
        while told.recv_timeout(Duration::from_millis(5)).is_err() {
            assert!(Instant::now() < patience, "nothing is traced");
            wq.queue(|| ()).join().unwrap();
        }
        Self { _alone: alone, tool, reader }
    }

    /// Ends it as Ctrl-C does; its lines.
    fn end(mut self) -> Vec<String> {
        // SAFETY: a process that we have not waited for.
        unsafe { libc::kill(self.tool.id() as libc::pid_t, libc::SIGINT) };
        let lines = self.reader.join().unwrap();
        assert!(self.tool.wait().unwrap().success());
        lines
    }
}

#[test]
fn a_running_process_is_traced_until_ctrl_c() {
    let warm = Workqueue::new("warming").unwrap();
    warm.queue(|| ()).join().unwrap();
    let wq = Workqueue::builder("counted").ordered().build().unwrap();
    let tracing = Tracing::begin(&warm, &["--events", "execute_start,execute_end"]);
    for _ in 0..100 {
        wq.queue(|| ()).join().unwrap();
    }
    wq.flush();
    let lines = tracing.end();
    let count = |what: &str| {
        lines
            .iter()
            .filter(|line| line.contains("workqueue=counted") && line.contains(what))
            .count()
    };
    let of_closures = |line: &&String| {
        line.contains("workqueue=counted")
            && line.contains("workqueue_execute_start")
            && line.contains("a_running_process_is_traced_until_ctrl_c::{{closure}}")
    };
    assert_eq!(lines.iter().filter(of_closures).count(), 100);
    assert_eq!(count("workqueue_execute_start"), count("workqueue_execute_end"));
    assert_eq!(count("workqueue_queue_work"), 0, "that was not asked for");
}

/// Of a process that hangs, it is all there is.
#[test]
fn what_runs_already_is_told_and_so_is_its_end() {
    let warm = Workqueue::new("warming").unwrap();
    warm.queue(|| ()).join().unwrap();
    let wq = Workqueue::builder("held").ordered().build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    let item = wq.queue(move || released.recv());
    let target = Target::open(std::process::id()).unwrap();
    let patience = Instant::now() + Duration::from_secs(200);
    // Long enough to be told; the item may take its time to start.
    let old = Duration::from_millis(50).as_nanos() as u64;
    let is_old = |shown: &Snapshot| {
        let key = shown.queues.iter().find(|queue| queue.name == "held").map(|queue| queue.key);
        let mut running = shown.workers.iter().filter_map(|worker| worker.activity.as_ref());
        running.any(|now| Some(now.queue) == key && shown.taken_ns - now.since_ns > old)
    };
    while !target.snapshot().is_ok_and(|shown| is_old(&shown)) {
        assert!(Instant::now() < patience, "it does not run");
        thread::sleep(Duration::from_millis(5));
    }
    let tracing = Tracing::begin(&warm, &["--events", "execute_start,execute_end", "^held$"]);
    release.send(()).unwrap();
    item.join().unwrap().unwrap();
    wq.flush();
    let lines = tracing.end();
    let is_of_item =
        |line: &&String| line.contains("what_runs_already_is_told_and_so_is_its_end::{{closure}}");
    let of_item: Vec<_> = lines.iter().filter(is_of_item).collect();
    let [start, end] = of_item[..] else { panic!("a start and an end: {lines:?}") };
    assert!(start.contains("workqueue_execute_start") && start.ends_with(" s before)"), "{start}");
    assert!(end.contains("workqueue_execute_end") && end.ends_with("workqueue=held"), "{end}");
    let thread = |line: &str| line.split_whitespace().next().map(str::to_owned);
    assert_eq!(thread(start), thread(end));
}

/// What happens to a worker names no queue.
#[test]
fn what_happens_to_workers_of_other_queues_is_left_out() {
    let warm = Workqueue::new("warming").unwrap();
    // Its workers serve nobody else.
    let other = Workqueue::builder("other").nice(5).build().unwrap();
    let tracing = Tracing::begin(&warm, &["^warming$"]);
    let (told, tell) = mpsc::channel();
    // More than may run at once: each that is found to block lets another one begin.
    let count = 2 * thread::available_parallelism().unwrap().get() + 1;
    let all = Arc::new(Barrier::new(count));
    let items: Vec<_> = (0..count)
        .map(|_| {
            let (told, all) = (told.clone(), Arc::clone(&all));
            other.queue(move || {
                told.send(rustix::thread::gettid().as_raw_pid()).unwrap();
                all.wait();
            })
        })
        .collect();
    items.into_iter().for_each(|item| item.join().unwrap());
    let lines = tracing.end();
    for tid in tell.try_iter() {
        let of_other = format!("worker={tid} ");
        assert!(!lines.iter().any(|line| line.contains(&of_other)), "{tid}: {lines:#?}");
    }
}

/// The documented format, of a file that a process wrote about itself.
#[test]
fn a_file_becomes_tracks_slices_and_arrows() {
    let folder = tempfile::tempdir().unwrap();
    let [raw, json] = ["raw", "json"].map(|name| folder.path().join(name));
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..20 {
        fs::write(tree.join(number.to_string()), "text").unwrap();
    }
    assert!(
        cmwq().arg("sum").arg(&tree).env("CMWQ_TRACE", &raw).output().unwrap().status.success()
    );
    convert(&raw, &json);
    let document: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let mut groups = HashMap::new();
    for event in events.iter().filter(|event| event["name"] == "process_name") {
        groups.insert(event["pid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap());
    }
    let slices = |group: &str| {
        let is_it =
            |event: &&Value| event["ph"] == "X" && groups[&event["pid"].as_u64().unwrap()] == group;
        events.iter().filter(is_it).collect::<Vec<_>>()
    };
    let of_queue = |slice: &&&Value| slice["args"]["queue"] == "sum";
    let in_queue = slices("queues").iter().filter(of_queue).count();
    assert!(in_queue > 0, "{document}");
    let arrows = |end: &str| {
        let of_process = slices("cmwq");
        let ids =
            of_process.iter().filter(|slice| slice["args"]["queue"] == "sum" && slice[end] == true);
        let mut ids: Vec<_> = ids.map(|slice| slice["bind_id"].to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(arrows("flow_in").len(), in_queue, "every run has an arrow");
    assert_eq!(arrows("flow_in"), arrows("flow_out"));
    assert!(!slices("CPUs").is_empty());
    assert_eq!(document["otherData"]["lost_events"], 0);
    let spans =
        cmwq().arg("trace").arg(&raw).args(["--format", "spans", "-o", "-"]).output().unwrap();
    let spans: Value = serde_json::from_slice(&spans.stdout).unwrap();
    assert!(spans["works"].as_array().is_some_and(|works| !works.is_empty()), "{spans}");
    assert!(spans["spans"].as_array().is_some_and(|spans| !spans.is_empty()));
}

fn convert(raw: &Path, json: &Path) {
    let output = cmwq().arg("trace").arg(raw).arg("-o").arg(json).output().unwrap();
    support::check_code(&output, 0);
    assert!(support::stderr(&output).contains(" events in "), "{output:?}");
}

#[test]
fn only_the_queues_that_were_asked_for_and_a_full_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw");
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    assert!(
        cmwq().arg("sum").arg(&file).env("CMWQ_TRACE", &raw).output().unwrap().status.success()
    );
    let lines = |queue: &str| {
        let output = cmwq()
            .arg("trace")
            .arg(&raw)
            .args([queue, "--format", "text", "-o", "-", "--events", "execute_start"])
            .output()
            .unwrap();
        support::check_code(&output, 0);
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert!(lines("^su") > 0);
    assert_eq!(lines("^um"), 0);
    let output = cmwq().arg("trace").arg(&raw).args(["-o", "/dev/full"]).output().unwrap();
    support::check_code(&output, 1);
    assert!(support::stderr(&output).contains("/dev/full: No space left on device"), "{output:?}");
    for arguments in [["-o", "-"], ["--svg", "-"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = cmwq().arg("trace").arg(&raw).args(arguments).stdout(full).output().unwrap();
        support::check_code(&output, 1);
        let says = support::stderr(&output);
        assert!(says.contains("cannot write to standard output: No space left"), "{says}");
    }
}

#[test]
fn what_cannot_be_traced_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "not a trace at all").unwrap();
    let refused = |source: &str| {
        let output = cmwq().args(["trace", source, "-o", "-"]).output().unwrap();
        support::check_code(&output, 1);
        support::stderr(&output).to_owned()
    };
    assert!(refused(text.to_str().unwrap()).contains("not a trace file"));
    assert!(refused("/nowhere/at-all").contains("/nowhere/at-all"));
    assert!(refused("999999999").contains("there is no process 999999999"));
    // A process that has no workqueues: a child that waits for its input.
    let mut other =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    assert!(refused(&other.id().to_string()).contains("uses no workqueues of cmwq"));
    drop(other.stdin.take());
    other.wait().unwrap();
    let output = cmwq().args(["trace", "1", "--events", "nonsense"]).output().unwrap();
    support::check_code(&output, 2);
}

/// As one whose other end is a program that runs on an event loop.
#[test]
fn to_an_output_that_does_not_wait_a_trace_is_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let [raw, tree] = ["raw", "tree"].map(|name| folder.path().join(name));
    fs::create_dir(&tree).unwrap();
    for number in 0..100 {
        fs::write(tree.join(number.to_string()), "text").unwrap();
    }
    assert!(
        cmwq().arg("sum").arg(&tree).env("CMWQ_TRACE", &raw).output().unwrap().status.success()
    );
    let (mut reader, writer) = std::io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    fcntl_setpipe_size(&writer, 4096).unwrap();
    let out = writer.try_clone().unwrap();
    let mut tool = cmwq().arg("trace").arg(&raw).args(["-o", "-"]).stdout(out).spawn().unwrap();
    let is_full = || {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&writer, PollFlags::OUT)], Some(&now)) == Ok(0)
    };
    while !is_full() && tool.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    drop(writer);
    let mut written = String::new();
    reader.read_to_string(&mut written).unwrap();
    assert!(tool.wait().unwrap().success());
    assert!(written.len() > 4096, "{written}");
    let document: Value = serde_json::from_str(&written).unwrap();
    assert!(document["traceEvents"].is_array());
}
