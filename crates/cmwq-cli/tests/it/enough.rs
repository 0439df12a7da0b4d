//! Signals to what goes on until it is told that it is enough.

use std::fs;
use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::Workqueue;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::launching::{program as program_of, state};
use crate::looking::Victim;
use crate::support::not_tested;

/// For everything that only a broken machine does not do in time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Something happens all the time.
#[test]
#[ignore = "a program for other tests"]
fn program() {
    let wq = Workqueue::new("busy").unwrap();
    wq.queue(|| ()).join().unwrap();
    thread::spawn(move || {
        loop {
            wq.queue(|| thread::sleep(Duration::from_millis(1))).join().unwrap();
        }
    });
    crate::looking::stay();
}

/// Lines without an end, of that process.
fn tools(pid: &str) -> [Vec<&str>; 3] {
    [
        vec!["monitor", "-i", "0.01", "--json", pid],
        vec!["top", "-i", "0.05", "--json", pid],
        vec!["trace", "--format", "text", "-o", "-", pid],
    ]
}

fn send(tool: &Child, signal: Signal) {
    kill_process(Pid::from_child(tool), signal).unwrap();
}

/// As `nohup` starts it, and a shell without job control in the background.
#[test]
fn signals_that_are_ignored_from_the_start_stay_so() {
    let victim = Victim::run("enough::program");
    for words in tools(&victim.pid()) {
        let mut command = Command::new("sh");
        command.args(["-c", r#"trap "" HUP INT; exec "$0" "$@""#, env!("CARGO_BIN_EXE_cmwq")]);
        let mut tool = command.args(&words).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(tool.stdout.take().unwrap()).lines();
        // It listens by then.
        lines.next().unwrap().unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", tool.id())).unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        assert_eq!(ignored & 0b11, 0b11, "{words:?}: {status}");
        send(&tool, Signal::TERM);
        lines.for_each(|line| _ = line.unwrap());
        assert!(tool.wait().unwrap().success(), "{words:?}");
    }
}

/// Signals it until it has ended. It writes into a pipe that nobody reads. `None`, which is said:
/// nobody can tell whether it waits there already.
fn ended_by_signals(mut tool: Child) -> Option<ExitStatus> {
    let wchan = format!("/proc/{}/wchan", tool.id());
    let patience = Instant::now() + PATIENCE;
    while !fs::read_to_string(&wchan).unwrap().contains("pipe_write") {
        if Instant::now() > patience {
            tool.kill().unwrap();
            tool.wait().unwrap();
            not_tested("the system does not tell what a thread waits for");
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
    // What comes soon after the first is the same.
    loop {
        send(&tool, Signal::TERM);
        if let Some(ended) = tool.try_wait().unwrap() {
            return Some(ended);
        }
        assert!(Instant::now() < patience, "it does not end");
        thread::sleep(Duration::from_millis(10));
    }
}

fn narrow_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    fcntl_setpipe_size(&writer, 4096).unwrap();
    (reader, writer)
}

#[test]
fn who_writes_to_somebody_who_does_not_read_ends_by_a_second_signal() {
    let victim = Victim::run("enough::program");
    for words in tools(&victim.pid()) {
        let (_reader, writer) = narrow_pipe();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
        let tool = command.args(&words).stdout(writer).spawn().unwrap();
        drop(command);
        let Some(ended) = ended_by_signals(tool) else { return };
        assert_eq!(ended.signal(), Some(Signal::TERM.as_raw()), "{words:?}: {ended}");
    }
}

#[test]
fn and_so_does_the_program_that_it_watches() {
    let (reader, writer) = narrow_pipe();
    let program = program_of("runs_an_item_and_stays");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.args(["top", "-i", "0.05", "--json", "--"]).args(program);
    let tool = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    // No more than that.
    let mut reader = BufReader::with_capacity(64, reader);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let document: Value = serde_json::from_str(&line).unwrap();
    if ended_by_signals(tool).is_some() {
        let pid = Pid::from_raw(document["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
        // Who inherits it takes note of its end in time of its own.
        while test_kill_process(pid).is_ok() && state(pid) != Some('Z') {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
