//! `cmwq dump` and `cmwq monitor`, at processes made for it.

use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use cmwq::Workqueue;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

use crate::support::{not_tested, stderr};

fn cmwq(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.args(args).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// One of the programs below, in a process of its own.
pub(crate) struct Victim(Child, BufReader<ChildStdout>);

impl Victim {
    fn start(name: &str) -> Self {
        Self::run(&format!("looking::{name}"))
    }

    /// A test that is a program: it says when it is ready.
    pub(crate) fn run(name: &str) -> Self {
        Self::run_as(name, None)
    }

    /// As [`Victim::run`], under another name.
    pub(crate) fn run_as(name: &str, called: Option<&str>) -> Self {
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new(this);
        if let Some(called) = called {
            command.arg0(called);
        }
        command.args(["--exact", name, "--ignored", "--nocapture"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        // What it says later must not fail: the harness tells of tests that take long.
        let mut victim = Self(child, out);
        let is_ready = victim.1.by_ref().lines().any(|line| line.unwrap().contains("ready"));
        assert!(is_ready, "{name} did not begin");
        victim
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// A line on its standard input.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Ends it, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says that all is as it should be, and stays until it is killed or its parent ends.
pub(crate) fn stay() {
    wait_for_a_line();
    std::process::exit(0);
}

/// Says that all is as it should be, and waits for a line, or the end of the input.
pub(crate) fn wait_for_a_line() {
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready").unwrap();
    out.flush().unwrap();
    drop(out);
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

#[test]
#[ignore = "a program for other tests"]
fn deadlock() {
    let [left, right] =
        ["left", "right"].map(|name| Workqueue::builder(name).ordered().build().unwrap());
    let (left, right, both) = (Arc::new(left), Arc::new(right), Arc::new(Barrier::new(3)));
    let (to_left, to_right) = (Arc::clone(&left), Arc::clone(&right));
    let [here, there] = [(); 2].map(|()| Arc::clone(&both));
    drop(left.queue(move || waits_for_right(&to_right, &here)));
    drop(right.queue(move || waits_for_left(&to_left, &there)));
    both.wait();
    stay();
}

#[inline(never)]
fn waits_for_right(right: &Workqueue, both: &Barrier) {
    both.wait();
    right.flush();
    // A function of its own, which is neither merged with the other one nor left by a jump.
    black_box("right");
}

#[inline(never)]
fn waits_for_left(left: &Workqueue, both: &Barrier) {
    both.wait();
    left.flush();
    black_box("left");
}

#[test]
#[ignore = "a program for other tests"]
fn foreign() {
    let _memory = memfd_create("cmwq", MemfdFlags::CLOEXEC).unwrap();
    stay();
}

#[test]
fn a_deadlock_is_led_back_to_its_lines() {
    let victim = Victim::start("deadlock");
    for is_stopped in [false, true] {
        if is_stopped {
            kill_process(Pid::from_raw(victim.0.id() as i32).unwrap(), Signal::STOP).unwrap();
        }
        let busy: Vec<Value> =
            serde_json::from_str(&stdout(&cmwq(&["dump", "--stuck", "--json", &victim.pid()])))
                .unwrap();
        assert_eq!(busy.len(), 2, "{busy:?}");
        for (queue, function) in [("left", "waits_for_right"), ("right", "waits_for_left")] {
            let worker = busy.iter().find(|worker| worker["queue"] == queue).unwrap();
            assert_eq!(worker["function"], "it::looking::deadlock::{{closure}}");
            if worker["no_stack"].is_string() {
                not_tested(worker["no_stack"].as_str().unwrap());
                continue;
            }
            let stack = worker["stack"].to_string();
            assert!(stack.contains(function), "{worker:#}");
            assert!(worker["at"].as_str().unwrap().contains("looking.rs:"), "{worker:#}");
        }
        if is_stopped {
            assert_eq!(victim.state(), 'T', "it was stopped before");
        }
    }
    let dump = stdout(&cmwq(&["dump", &victim.pid()]));
    for section in
        ["Affinity Scopes", "Worker Pools", "Workqueue CPU -> pool", "Workqueue -> rescuer"]
    {
        assert!(dump.contains(&format!("{section}\n{}\n", "=".repeat(section.len()))), "{dump}");
    }
    let json: Value =
        serde_json::from_str(&stdout(&cmwq(&["dump", "--json", &victim.pid()]))).unwrap();
    assert_eq!(json["workqueues"][0]["type"], "ordered");
}

/// The numbers of a queue that ran so many items, by an independent count.
#[test]
fn monitor_counts_what_the_program_counts() {
    let wq = Workqueue::builder("counted-by-itself").percpu().mem_reclaim().build().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let items: Vec<_> = (0..5_000)
        .map(|_| {
            let count = Arc::clone(&count);
            wq.queue(move || count.fetch_add(1, Ordering::Relaxed))
        })
        .collect();
    for item in items {
        item.join().unwrap();
    }
    // Joined is told before the books are closed.
    wq.flush();
    let me = std::process::id().to_string();
    let lines = stdout(&cmwq(&["monitor", "-j", "-i", "0", &me, "^counted-by-", "nothing"]));
    let row: Value = serde_json::from_str(lines.trim_end()).expect("one line for one queue");
    let count = count.load(Ordering::Relaxed);
    assert_eq!(row["name"], "counted-by-itself");
    assert_eq!((&row["started"], &row["completed"]), (&count.into(), &count.into()));
    assert_eq!((&row["mem_reclaim"], &row["unbound"]), (&Value::Bool(true), &Value::Bool(false)));
    let table = stdout(&cmwq(&["monitor", "-i", "0", &me, "^counted-by-"]));
    assert!(table.lines().nth(1).unwrap().starts_with("counted-by-itself"), "{table}");
    assert!(table.contains(&count.to_string()), "{table}");
}

#[test]
fn monitor_ends_with_the_process() {
    let mut victim = Victim::start("deadlock");
    let (mut monitor, _out) = monitoring(&victim.pid(), "3600");
    victim.0.kill().unwrap();
    victim.0.wait().unwrap();
    assert!(monitor.wait().unwrap().success());
}

fn monitoring(pid: &str, interval: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.args(["monitor", "-i", interval, pid]).stdout(Stdio::piped());
    let mut monitor = command.spawn().unwrap();
    let mut out = BufReader::new(monitor.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("CMW/RPR"), "{line}");
    (monitor, out)
}

#[test]
fn monitor_ends_when_it_is_interrupted() {
    let victim = Victim::start("deadlock");
    for signal in [Signal::INT, Signal::TERM] {
        let (mut monitor, _out) = monitoring(&victim.pid(), "3600");
        kill_process(Pid::from_raw(monitor.id() as i32).unwrap(), signal).unwrap();
        assert!(monitor.wait().unwrap().success());
    }
}

#[test]
fn monitor_ends_when_nobody_reads() {
    let victim = Victim::start("deadlock");
    let (mut monitor, out) = monitoring(&victim.pid(), "0.01");
    drop(out);
    assert_eq!(monitor.wait().unwrap().code(), Some(141));
}

/// That is not what a reader who goes looks like.
#[test]
fn a_monitor_that_cannot_write_says_so() {
    let victim = Victim::start("deadlock");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.args(["monitor", "-i", "3600", &victim.pid()]).stdout(full);
    assert_eq!(command.status().unwrap().code(), Some(1));
}

/// A worker may have begun so many items that are not counted yet.
const BATCH_MAX: u64 = 32;

/// As often as there is time for: `CMWQ_MONITOR_SECS`, by default one second.
#[test]
fn monitor_under_load_is_between_what_began_and_what_was_queued() {
    let secs = std::env::var("CMWQ_MONITOR_SECS").ok().and_then(|secs| secs.parse().ok());
    let end = Instant::now() + Duration::from_secs(secs.unwrap_or(1));
    let wqs = [
        Workqueue::builder("loaded-percpu").percpu().build().unwrap(),
        Workqueue::builder("loaded-managed").build().unwrap(),
        Workqueue::builder("loaded-unbound").unbound().build().unwrap(),
    ];
    let counts = wqs.each_ref().map(|_| Arc::new([const { AtomicU64::new(0) }; 2]));
    let (me, mut looks) = (std::process::id().to_string(), 0);
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    // There is something to look at before the first item is queued.
    cmwq::system::percpu().queue(|| ()).join().unwrap();
    std::thread::scope(|scope| {
        let producers: Vec<_> = wqs
            .iter()
            .zip(&counts)
            .map(|(wq, count)| {
                scope.spawn(move || {
                    while Instant::now() < end {
                        let item = || {
                            count[0].fetch_add(1, Ordering::SeqCst);
                            let count = Arc::clone(count);
                            wq.queue(move || count[1].fetch_add(1, Ordering::SeqCst))
                        };
                        let items: Vec<_> = (0..50).map(|_| item()).collect();
                        items.into_iter().for_each(|item| _ = item.join().unwrap());
                    }
                })
            })
            .collect();
        let mut is_over = false;
        while !is_over {
            // Once more behind the end, when all is exact.
            is_over = producers.iter().all(std::thread::ScopedJoinHandle::is_finished);
            if is_over {
                wqs.iter().for_each(Workqueue::flush);
            }
            let least = counts.each_ref().map(|count| count[1].load(Ordering::SeqCst));
            let lines = stdout(&cmwq(&["monitor", "-j", "-i", "0", &me, "^loaded-"]));
            let most = counts.each_ref().map(|count| count[0].load(Ordering::SeqCst));
            let rows: Vec<Value> =
                lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            for (place, wq) in wqs.iter().enumerate() {
                let Some(row) = rows.iter().find(|row| row["name"] == *wq.name()) else { continue };
                let started = row["started"].as_u64().unwrap();
                // A worker of each pool may have lost its CPU within a batch.
                let uncounted = if is_over { 0 } else { cpus * BATCH_MAX };
                let range = least[place].saturating_sub(uncounted)..=most[place];
                assert!(range.contains(&started), "{row} {least:?} {most:?}");
            }
            looks += 1;
        }
        // In scope: what was queued has been joined, so both are the count.
        assert!(looks > 1, "looked {looks} times at a process that lives on");
    });
}

#[test]
fn what_cannot_be_looked_into_is_said() {
    let mut gone = Command::new("true").spawn().unwrap();
    let pid = gone.id().to_string();
    gone.wait().unwrap();
    let foreign = Victim::start("foreign");
    // Lists have the numbers of threads, too.
    let victim = Victim::start("deadlock");
    let threads = std::fs::read_dir(format!("/proc/{}/task", victim.pid())).unwrap();
    let mut threads = threads.map(|thread| thread.unwrap().file_name().into_string().unwrap());
    let thread = threads.find(|thread| *thread != victim.pid()).unwrap();
    let of_process = format!("it is a thread of process {}", victim.pid());
    let cases = [
        (pid, "no such process"),
        (foreign.pid(), "is not one of this library's"),
        (thread, &of_process),
    ];
    for (pid, says) in cases {
        for verb in ["dump", "monitor"] {
            let output = cmwq(&[verb, &pid]);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert!(stderr(&output).contains(says), "{output:?}");
        }
    }
}

#[test]
fn another_user_may_not_look() {
    if !geteuid().is_root() {
        return not_tested("only root can be another user");
    }
    let victim = Victim::start("deadlock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.args(["dump", &victim.pid()]).uid(65_534).gid(65_534);
    let Ok(output) = command.output() else {
        return not_tested("the command lies where nobody else may run it");
    };
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let says = stderr(&output);
    assert!(says.contains("permission denied") && says.contains("you are user 65534"), "{says}");
}
