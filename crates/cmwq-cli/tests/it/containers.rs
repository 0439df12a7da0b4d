//! A process in a PID namespace of its own, as containers have, looked at from outside.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;

use cmwq::Workqueue;
use serde_json::Value;

use crate::looking::stay;
use crate::support::{check_code, not_tested, unshared};

/// As a user without privileges may, where anybody may.
const NAMESPACE: [&str; 4] = ["--user", "--map-root-user", "--pid", "--fork"];

#[test]
#[ignore = "a program for other tests"]
fn holds_an_item() {
    let wq = Workqueue::builder("inside").percpu().mem_reclaim().build().unwrap();
    let (begin, begun) = mpsc::channel();
    let (_held, hold) = mpsc::channel::<()>();
    drop(wq.queue(move || {
        begin.send(()).unwrap();
        is_held(&hold);
    }));
    begun.recv().unwrap();
    // What is mounted there is the procfs of outside, so this is the number of outside.
    let pid = fs::read_link("/proc/self").unwrap();
    writeln!(std::io::stdout(), "\npid {}", pid.display()).unwrap();
    stay();
}

#[inline(never)]
fn is_held(hold: &mpsc::Receiver<()>) {
    let _ = hold.recv();
}

/// That program, until this is dropped.
struct Contained {
    unshare: Child,
    pid: String,
    /// What it says later must not fail.
    _out: BufReader<ChildStdout>,
}

impl Contained {
    /// `None`, which is said: not everybody may have namespaces.
    fn start() -> Option<Self> {
        drop(unshared(&NAMESPACE)?);
        let mut command = Command::new("unshare");
        command.args(NAMESPACE).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "containers::holds_an_item", "--ignored", "--nocapture"]);
        let mut unshare = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(unshare.stdout.take().unwrap());
        let lines = out.by_ref().lines().map(Result::unwrap);
        let lines: Vec<_> = lines.take_while(|line| !line.contains("ready")).collect();
        let pid = lines.iter().find_map(|line| line.strip_prefix("pid ")).expect("it has begun");
        Some(Self { pid: pid.to_owned(), unshare, _out: out })
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        // At the end of its input it ends, and with it the one that waits for it.
        drop(self.unshare.stdin.take());
        let _ = self.unshare.wait();
    }
}

fn cmwq(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq")).args(args).output().unwrap();
    check_code(&output, 0);
    output
}

fn document(args: &[&str]) -> Value {
    serde_json::from_slice(&cmwq(args).stdout).unwrap()
}

#[test]
fn threads_of_another_namespace_are_found_by_their_numbers_outside() {
    let Some(contained) = Contained::start() else { return };
    let pid = &contained.pid;

    let busy = &document(&["dump", "--stuck", "--json", pid])[0];
    assert_eq!(busy["queue"], "inside", "{busy}");
    assert!(busy["state"].as_str().unwrap().starts_with("sleeping"), "{busy}");
    let tid = busy["tid"].to_string();
    assert!(Path::new(&format!("/proc/{pid}/task/{tid}")).exists(), "{busy}");
    match busy["no_stack"].as_str() {
        Some(why) => not_tested(why),
        None => assert!(busy["stack"].to_string().contains("is_held"), "{busy}"),
    }

    let dump = document(&["dump", "--json", pid]);
    let queues = dump["workqueues"].as_array().unwrap();
    let queue = queues.iter().find(|queue| queue["name"] == "inside").unwrap();
    assert!(queue["rescuer"]["bound_cpus"].is_string(), "{queue}");

    let top = document(&["top", "--once", "--json", "-i", "0.05", pid]);
    let workers = top["workers"].as_array().unwrap();
    let states: Vec<_> = workers.iter().map(|worker| worker["state"].as_str().unwrap()).collect();
    assert!(states.contains(&"waits"), "{top}");

    // A trace has the numbers that the process itself writes into it.
    let args = ["trace", "-d", "0.01", "--format", "text", "-o", "-", pid];
    let trace = String::from_utf8(cmwq(&args).stdout).unwrap();
    let start = trace.lines().find(|line| line.contains("workqueue_execute_start")).unwrap();
    let thread = start.split_whitespace().next().unwrap();
    assert!(thread.contains('-') && !thread.ends_with(&format!("-{tid}")), "{start}");
}
