//! `cmwq trace` and a process that is stopped, belongs to somebody else, or outlives the tool.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cmwq::Workqueue;
use cmwq::trace::Session;
use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::support::{self, not_tested};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(90);
/// Items for each line that the program reads.
const ITEMS: usize = 50;

#[test]
#[ignore = "a program for other tests"]
fn runs_items_when_told() {
    let wq = Workqueue::builder("told").ordered().build().unwrap();
    wq.queue(|| ()).join().unwrap();
    let entries = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let is_trace = |path: &_| {
        fs::read_link(path).is_ok_and(|link| link.ends_with("memfd:cmwq-trace (deleted)"))
    };
    let path = entries.into_iter().find(is_trace).expect("a trace that tools find");
    let file = File::options().read(true).write(true).open(path).unwrap();
    let session = Session::open(file.into()).unwrap();
    let say = |text: &str| writeln!(std::io::stdout(), "@{text}").unwrap();
    say("ready");
    for line in std::io::stdin().lines() {
        line.unwrap();
        for _ in 0..ITEMS {
            drop(wq.queue(|| ()));
        }
        wq.flush();
        say(if session.is_on() { "on" } else { "off" });
    }
}

/// That program, in a process of its own.
struct Told(Child, Lines<BufReader<ChildStdout>>);

impl Told {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "tracing_others::runs_items_when_told",
            "--ignored",
            "--nocapture",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = Self(child, lines);
        assert_eq!(told.says(), "ready");
        told
    }

    /// What follows the `@`; the harness may have begun the line.
    fn says(&mut self) -> String {
        loop {
            let line = self.1.next().expect("it has ended").unwrap();
            if let Some((_, said)) = line.split_once('@') {
                return said.to_owned();
            }
        }
    }

    /// Runs its items; whether it is traced then.
    fn is_traced(&mut self) -> bool {
        writeln!(self.0.stdin.as_mut().unwrap()).unwrap();
        let said = self.says();
        assert!(said == "on" || said == "off", "{said}");
        said == "on"
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn wait_for_state(&self, wanted: char) {
        eventually("it stops, or goes on", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with(wanted)
        });
    }

    fn trace(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
        command.args(["trace", &self.0.id().to_string(), "--format", "text", "-o", "-"]);
        command.args(arguments).env("CMWQ_QUIET", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A tool that traces it, and does so already.
    fn begin(&mut self) -> Child {
        let tool = self.trace(&["--events", "execute_start"]).spawn().unwrap();
        eventually("it is traced", || self.is_traced());
        tool
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends the tool as Ctrl-C does; what it wrote.
fn interrupt(tool: Child) -> Output {
    kill_process(Pid::from_child(&tool), Signal::INT).unwrap();
    let output = tool.wait_with_output().unwrap();
    support::check_code(&output, 0);
    output
}

fn starts(output: &Output) -> usize {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    // It may have been stopped in the middle of one.
    let is_seen = |line: &&str| line.contains("workqueue=told") && !line.ends_with(" s before)");
    text.lines().filter(is_seen).count()
}

#[test]
fn a_tool_that_is_interrupted_switches_tracing_off() {
    let mut told = Told::start();
    let tool = told.begin();
    assert!(told.is_traced());
    let output = interrupt(tool);
    assert!(starts(&output) >= ITEMS, "{output:?}");
    assert!(!told.is_traced(), "at once");
}

#[test]
fn a_tool_that_is_killed_is_not_traced_for_long() {
    let mut told = Told::start();
    let mut tool = told.begin();
    tool.kill().unwrap();
    tool.wait().unwrap();
    eventually("its lease ends", || !told.is_traced());
    let tool = told.begin();
    interrupt(tool);
    assert!(!told.is_traced());
}

#[test]
fn a_stopped_process_loses_nothing_that_it_has_traced() {
    let mut told = Told::start();
    let tool = told.begin();
    assert!(told.is_traced());
    told.signal(Signal::STOP);
    told.wait_for_state('T');
    let output = interrupt(tool);
    assert!(starts(&output) >= ITEMS, "{output:?}");
    // One that begins now finds nothing, and does not wait for the process.
    let output = told.trace(&["-d", "0.1"]).output().unwrap();
    support::check_code(&output, 0);
    assert_eq!(starts(&output), 0, "{output:?}");
    told.signal(Signal::CONT);
    assert!(!told.is_traced());
}

#[test]
fn another_user_may_not_trace() {
    if !geteuid().is_root() {
        return not_tested("only root can be another user");
    }
    let told = Told::start();
    let Ok(output) = told.trace(&[]).uid(65_534).gid(65_534).output() else {
        return not_tested("the command lies where nobody else may run it");
    };
    support::check_code(&output, 1);
    let says = support::stderr(&output);
    let pid = told.0.id();
    assert!(says.contains(&format!("process {pid}: permission denied")), "{says}");
    assert!(says.contains("user 0's and you are user 65534"), "why: {says}");
    assert!(output.stdout.is_empty());
}
