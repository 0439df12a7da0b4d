//! Signals to `cmwq run`, and what becomes of its commands.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{
    WAITS, begun, check_signal, command, eventually, interrupt, interrupt_again, printed,
    wait_until_told,
};
use crate::support::{check_code, stderr, unshared};

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Whether no signal to the process is left that none of its threads has taken.
fn is_taken(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    status.lines().any(|line| line == "ShdPnd:\t0000000000000000")
}

/// The state of a process, as R, S, T or Z.
pub(super) fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// As `nohup` starts it.
#[test]
fn a_signal_that_is_ignored_from_the_start_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"trap "" HUP QUIT; exec "$0" run sh -c 'kill -HUP $PPID; kill -QUIT $PPID
        kill -HUP $$; echo lives' ::: a"#;
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_cmwq")]).current_dir(folder.path());
    let output = command.output().unwrap();
    check_code(&output, 0);
    assert_eq!(printed(&output), "lives\n");
}

/// Without that the system takes ended processes away, and nobody learns how they ended.
#[test]
fn that_ended_children_are_ignored_is_taken_back() {
    let script = r#"trap "" CHLD; exec "$0" "$@""#;
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new("bash");
        command.args(["-c", script, env!("CARGO_BIN_EXE_cmwq"), "run"]).args(args);
        command.env_remove("MAKEFLAGS").output().unwrap()
    };
    let output = run(&["-k", "sh", "-c", "echo {}; exit {}", ":::", "0", "1"]);
    check_code(&output, 123);
    assert_eq!((printed(&output), stderr(&output)), ("0\n1\n", ""));
    check_code(&run(&["--jobserver", "--", "sh", "-c", "exit 7"]), 7);
}

/// A container's processes: neither the parent nor the leader of the session has a number there.
#[test]
fn a_session_from_outside_of_the_pid_namespace_is_no_trouble() {
    let Some(run) = unshared(&["--user", "--pid", "--fork"]) else { return };
    let cmwq = env!("CARGO_BIN_EXE_cmwq");
    for shell in [&[][..], &["sh", "-c", "\"$@\"; exit $?", "sh"]] {
        let output = run(&[shell, &[cmwq, "run", "echo", ":::", "a"]].concat());
        // It also says that this /proc is not of its namespace.
        check_code(&output, 0);
        assert_eq!(printed(&output), "a\n");
    }
}

/// Shells go on after a program that exits, and not after one that Ctrl-C has ended.
#[test]
fn a_loop_of_a_shell_ends_with_what_ctrl_c_ends() {
    let commands = format!("sh -c '{WAITS}' ::: $name");
    let build = format!("--jobserver -- sh -c '{}' sh $name", WAITS.replace("{}", "$1"));
    for how in [&commands, &build] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("for name in a b; do \"$0\" run {how}; done; touch on");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_cmwq")]).current_dir(folder.path());
        shell.env_remove("MAKEFLAGS").stderr(Stdio::piped()).process_group(0);
        let mut shell = shell.spawn().unwrap();
        let path = |name: &str| folder.path().join(name);
        eventually("it starts", || path("started.a").exists());
        // As a terminal does: to all but the commands, which have groups of their own.
        kill_process_group(Pid::from_child(&shell), Signal::INT).unwrap();
        let _told = (how == &commands).then(|| wait_until_told(&mut shell));
        for go in ["go.a", "go.b"] {
            fs::write(path(go), "").unwrap();
        }
        check_signal(shell.wait().unwrap(), Signal::INT);
        assert!(!path("started.b").exists() && !path("on").exists(), "{how}");
    }
}

/// As in a container. A signal that it does not listen to does nothing to it.
#[test]
fn the_first_process_of_a_namespace_exits_with_the_code_of_the_signal() {
    let Some(run) = unshared(&["--user", "--pid", "--fork"]) else { return };
    let script = "kill -TERM $PPID; exec sleep 600";
    let output = run(&[env!("CARGO_BIN_EXE_cmwq"), "run", "sh", "-c", script, ":::", "a"]);
    check_code(&output, 143);
}

/// Commands have groups of their own, which a terminal does not send it to.
#[test]
fn quit_ends_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let child = begun(&folder);
    send(&child, Signal::QUIT);
    let output = child.wait_with_output().unwrap();
    check_signal(output.status, Signal::QUIT);
    assert_eq!(printed(&output), "");
    assert!(!folder.path().join("started.b").exists());
}

/// Supervisors send it once, and kill a while later, which commands would outlive.
#[test]
fn what_does_not_end_by_a_signal_is_killed() {
    let script = "trap '' TERM; touch started.{}; while [ -e started.{} ]; do sleep 0.05; done";
    for signal in [Signal::TERM, Signal::HUP, Signal::QUIT, Signal::INT] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = command(folder.path(), &["sh", "-c", script, ":::", "a"]).spawn().unwrap();
        eventually("it starts", || folder.path().join("started.a").exists());
        send(&child, signal);
        // The first Ctrl-C lets end what runs.
        let _told = (signal == Signal::INT).then(|| {
            let told = wait_until_told(&mut child);
            interrupt_again(&child);
            told
        });
        eventually("it is killed", || child.try_wait().unwrap().is_some());
        check_signal(child.wait().unwrap(), signal);
    }
}

/// timeout(1) sends each signal twice, to the process and to its group.
#[test]
fn a_signal_that_is_sent_twice_lets_commands_end() {
    for signal in [Signal::TERM, Signal::HUP] {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap 'sleep 0.3; touch cleaned; exit' TERM; touch started; \
                      while :; do sleep 0.01; done";
        let args = ["sh", "-c", script, ":::", "a"];
        let mut child = command(folder.path(), &args).spawn().unwrap();
        eventually("it starts", || folder.path().join("started").exists());
        send(&child, signal);
        eventually("it is taken", || is_taken(&child));
        send(&child, signal);
        check_signal(child.wait().unwrap(), signal);
        assert!(folder.path().join("cleaned").exists(), "{signal:?}");
    }
}

/// Whoever kills the inner one does not reach its commands, which have groups of their own.
#[test]
fn commands_of_a_run_inside_of_another_are_killed_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' TERM; echo $$ > pid.new; mv pid.new pid; \
                  while [ -e pid ]; do sleep 0.05; done";
    fs::write(folder.path().join("list"), "a").unwrap();
    let cmwq = env!("CARGO_BIN_EXE_cmwq");
    let args = [cmwq, "run", "-a", "list", "sh", "-c", script, ":::", "a"];
    let mut child = command(folder.path(), &args).spawn().unwrap();
    eventually("it starts", || folder.path().join("pid").exists());
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap().trim().parse().unwrap();
    send(&child, Signal::TERM);
    eventually("it ends", || child.try_wait().unwrap().is_some());
    check_signal(child.wait().unwrap(), Signal::TERM);
    eventually("its command has ended", || matches!(state(pid), None | Some('Z' | 'X')));
}

#[test]
fn who_is_stopped_stops_its_commands_and_continues_them() {
    let folder = tempfile::tempdir().unwrap();
    // It starts nothing meanwhile: a shell whose child is stopped in vfork is in another state.
    let script = "echo $$ > pid; touch started.a; while [ ! -e go.a ]; do :; done; echo {}";
    let child = command(folder.path(), &["sh", "-c", script, ":::", "a"]).spawn().unwrap();
    eventually("it starts", || folder.path().join("started.a").exists());
    let pid: u32 = fs::read_to_string(folder.path().join("pid")).unwrap().trim().parse().unwrap();
    send(&child, Signal::TSTP);
    eventually("it stops", || state(child.id()) == Some('T'));
    eventually("its command stops", || state(pid) == Some('T'));
    send(&child, Signal::CONT);
    fs::write(folder.path().join("go.a"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    check_code(&output, 0);
    assert_eq!(printed(&output), "a\n");
}

#[test]
fn a_timeout_does_not_go_on_while_commands_stand_still() {
    let folder = tempfile::tempdir().unwrap();
    // As above.
    let script = "touch started.a; while [ ! -e go.a ]; do :; done; echo goes; sleep 0.5; echo {}";
    let begin = Instant::now();
    // What it writes is looked at when it comes, and then the time, too.
    let args = ["--timeout", "5", "--line-buffer", "sh", "-c", script, ":::", "a"];
    let child = command(folder.path(), &args).spawn().unwrap();
    eventually("it starts", || folder.path().join("started.a").exists());
    send(&child, Signal::TSTP);
    eventually("it stops", || state(child.id()) == Some('T'));
    thread::sleep(Duration::from_secs(6).saturating_sub(begin.elapsed()));
    fs::write(folder.path().join("go.a"), "").unwrap();
    send(&child, Signal::CONT);
    let output = child.wait_with_output().unwrap();
    check_code(&output, 0);
    assert_eq!(printed(&output), "goes\na\n");
}

/// It is the first, although nothing starts any more.
#[test]
fn once_interrupted_after_enough_it_lets_end_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let script = "[ {} = a ] || exit 1; touch started.a; while [ ! -e go.a ]; do sleep 0.01; done; \
                  echo {}";
    let args =
        ["--max-active", "2", "--joblog", "log", "--halt", "soon,fail=1", "sh", "-c", script];
    let args = [&args[..], &[":::", "a", "b", "c"]].concat();
    let mut child = command(folder.path(), &args).spawn().unwrap();
    let lines =
        || fs::read_to_string(folder.path().join("log")).unwrap_or_default().lines().count();
    eventually("one has failed", || folder.path().join("started.a").exists() && lines() == 2);
    interrupt(&child);
    let _told = wait_until_told(&mut child);
    fs::write(folder.path().join("go.a"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    check_signal(output.status, Signal::INT);
    assert_eq!(printed(&output), "a\n");
}

/// An interrupt before that does not mean that there will be others.
#[test]
fn who_does_not_end_when_enough_is_enough_is_killed_after_an_interrupt_too() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' TERM; touch started.{}; if [ {} = b ]; then \
                  while [ ! -e go.b ]; do sleep 0.01; done; exit 1; fi; \
                  while [ -e started.a ]; do sleep 0.05; done";
    let args = ["--max-active", "2", "--halt", "now,fail=1", "sh", "-c", script, ":::", "a", "b"];
    let mut child = command(folder.path(), &args).spawn().unwrap();
    let there = |name: &str| folder.path().join(name).exists();
    eventually("both start", || there("started.a") && there("started.b"));
    interrupt(&child);
    eventually("it is taken", || is_taken(&child));
    fs::write(folder.path().join("go.b"), "").unwrap();
    eventually("it ends", || child.try_wait().unwrap().is_some());
    check_signal(child.wait().unwrap(), Signal::INT);
}

#[test]
fn a_command_that_stands_still_hears_that_it_is_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'echo heard; exit 3' TERM; kill -STOP $$; sleep 600";
    // By then the shell has set its trap.
    let args = ["--timeout", "1", "sh", "-c", script, ":::", "a"];
    let output = command(folder.path(), &args).output().unwrap();
    check_code(&output, 123);
    assert_eq!(printed(&output), "heard\n");
}

/// A build is sent what is sent to us, so that it does not go on without its jobserver.
#[test]
fn a_build_is_ended_with_its_jobserver() {
    let folder = tempfile::tempdir().unwrap();
    let script = "ulimit -c 0; echo $$ > pid.new; mv pid.new pid; exec sleep 600";
    let args = ["--jobserver=fifo", "--", "sh", "-c", script];
    let mut command = command(folder.path(), &args);
    // Not that of the test, whose terminal would send an interrupt to the build as well.
    command.process_group(0);
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        let _ = fs::remove_file(folder.path().join("pid"));
        let child = command.env("TMPDIR", folder.path()).spawn().unwrap();
        eventually("it starts", || folder.path().join("pid").exists());
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        check_signal(output.status, signal);
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "nothing but the number is left");
    }
}
