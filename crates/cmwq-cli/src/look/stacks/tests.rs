//! What becomes of threads that are looked at in an awkward moment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::{fs, thread};

use super::*;
use crate::stat;

/// For everything that only a broken machine does not do in time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program, and the lines that it writes. It is killed when this is dropped.
struct Program(Child, Receiver<String>);

impl Program {
    fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = channel();
        thread::spawn(move || out.lines().try_for_each(|line| told.send(line.unwrap())));
        Self(child, lines)
    }

    /// The rest of the next line that begins so.
    #[track_caller]
    fn says(&self, begin: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.1.recv_timeout(left).expect(begin);
            if let Some((_, rest)) = line.split_once(begin) {
                return rest.trim().to_owned();
            }
        }
    }
}

fn is_in_state(pid: u32, tid: u32, state: char) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap();
    stat::state(&stat) == Some(state)
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn eventually(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "it never came about");
        sleep(Duration::from_millis(1));
    }
}

/// It waits for a child as after vfork(2), until there is something on standard input: nothing but
/// to be killed interrupts that.
#[test]
#[ignore = "a program for another test"]
fn waits_hard() {
    let say = |text: &str| writeln!(std::io::stdout(), "{text}").unwrap();
    say(&format!("thread {}", rustix::thread::gettid()));
    let flags = libc::c_long::from(libc::CLONE_VFORK | libc::SIGCHLD);
    let (input, one, none) = (0 as libc::c_long, 1 as libc::c_long, 0 as libc::c_long);
    // SAFETY: the child has memory of its own, and only makes system calls.
    unsafe {
        if libc::syscall(libc::SYS_clone, flags, none, none, none, none) == 0 {
            let mut byte = 0_u8;
            libc::syscall(libc::SYS_read, input, &raw mut byte, one);
            libc::syscall(libc::SYS_exit_group, none);
        }
    }
    say("went on");
    let _ = std::io::stdin().lines().next();
}

#[test]
fn a_thread_that_could_not_be_stopped_goes_on() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "look::stacks::tests::waits_hard", "--ignored", "--nocapture"]);
    let mut program = Program::start(command);
    let tid = program.says("thread ").parse().unwrap();
    eventually(|| is_in_state(program.0.id(), tid, 'D'));
    let why = Stacks::of(program.0.id()).of_thread(tid).unwrap_err();
    assert!(why.contains("cannot be interrupted"), "{why}");
    program.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    program.says("went on");
}

#[test]
fn a_signal_that_stops_it_first_is_not_taken_away() {
    // One with a name, and a real-time one.
    for signal in [10, 40] {
        let script = format!("trap 'echo heard; exit' {signal}; echo ready; while :; do :; done");
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        let program = Program::start(command);
        program.says("ready");
        let number = program.0.id();
        let look = thread::spawn(move || {
            let pid = Pid::from_raw(number as i32);
            ptrace::seize(pid, Options::empty()).unwrap();
            let args = [format!("-{signal}"), pid.to_string()];
            assert!(Command::new("kill").args(args).status().unwrap().success());
            eventually(|| is_in_state(number, number, 't'));
            let seized = Seized::stopped(pid, PATIENCE).unwrap();
            registers(pid).unwrap();
            drop(seized);
        });
        look.join().unwrap();
        program.says("heard");
    }
}
