//! How `cmwq run` ends before all is done.

use std::fs;
use std::io::{BufRead as _, BufReader, PipeReader};
use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::signals::state;
use super::{check_signal, command, eventually, interrupt, is_full, printed, run, run_in};
use crate::refusing::deny;
use crate::support::{check_code, not_tested, stderr};

/// What is ended for it did not fail by itself.
#[test]
fn those_that_are_ended_do_not_say_how_it_went() {
    let waits = "while :; do sleep 0.01; done";
    let code = |halt: &str, other: &str, last: &str| {
        let args = ["--max-active", "2", "--halt", halt, "sh", "-c", ":::", other, last];
        run(&args, b"").status.code()
    };
    assert_eq!(code("now,success=1", waits, "exit 0"), Some(0));
    assert_eq!(code("now,fail=1", waits, "exit 1"), Some(123));
    let folder = tempfile::tempdir().unwrap();
    let up = folder.path().join("up").display().to_string();
    let says_so = format!("trap 'exit 9' TERM; touch {up}; {waits}");
    let last = format!("while [ ! -e {up} ]; do sleep 0.01; done");
    assert_eq!(code("now,success=1", &says_so, &last), Some(0));
    let halt = ["--json", "--max-active", "2", "--halt", "now,success=1"];
    let output = run(&[&halt[..], &["sh", "-c", ":::", waits, "exit 0"]].concat(), b"");
    let text = printed(&output);
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let summary = &last["summary"];
    let all = [&summary["done"], &summary["failed"], &summary["ended"]];
    assert_eq!(all, [2, 0, 1], "{text}");
}

/// There is nobody who would press Ctrl-C a third time.
#[test]
fn who_does_not_end_when_enough_is_enough_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' TERM; if [ {} = last ]; then while [ ! -e up ]; do sleep 0.01; done; \
                  exit 1; fi; touch up; while :; do sleep 0.05; done";
    let args = ["--halt", "now,fail=1", "sh", "-c", script, ":::", "other", "last"];
    check_code(&run_in(folder.path(), &args, b""), 123);
}

/// The command ends when it is asked to, and what it has started does not.
#[test]
fn what_a_command_leaves_behind_is_killed_with_it() {
    for how in [["--timeout", "3"], ["--halt", "now,fail=1"]] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let stays = "trap \"\" TERM; echo $$ > pid.new; mv pid.new pid; \
                     while [ -e pid ]; do sleep 0.05; done";
        let script = format!(
            "if [ {{}} = a ]; then sh -c '{stays}' & wait; fi; \
             while [ ! -e pid ]; do sleep 0.01; done; exit 1"
        );
        let args =
            [&how[..], &["--max-active", "2", "sh", "-c", &script, ":::", "a", "b"]].concat();
        let output = run_in(folder.path(), &args, b"");
        check_code(&output, 123);
        let pid = fs::read_to_string(&path).unwrap().trim().parse().unwrap();
        eventually("it has ended", || matches!(state(pid), None | Some('Z' | 'X')));
    }
}

/// A run whose command has written more than its reader takes, and has ended.
fn stalled(both_streams: bool) -> (Child, PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = command(Path::new("/"), &["--no-progress", "seq", ":::", "100000"]);
    if both_streams {
        command.stderr(writer.try_clone().unwrap());
    }
    let child = command.stdout(writer).spawn().unwrap();
    eventually("the reader has enough", || is_full(&reader));
    (child, reader)
}

/// As `less` that nobody looks at.
#[test]
fn a_reader_who_takes_his_time_is_not_waited_for_when_a_signal_asks_for_the_end() {
    let (mut child, reader) = stalled(false);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    eventually("it ends", || child.try_wait().unwrap().is_some());
    check_signal(child.wait().unwrap(), Signal::TERM);
    drop(reader);
}

/// What is to be said waits for him as well, and the second Ctrl-C does not.
#[test]
fn a_reader_of_both_who_takes_his_time_is_not_waited_for_when_ctrl_c_comes_again() {
    let (mut child, reader) = stalled(true);
    // Signals of one kind that come together are one.
    eventually("it ends", || {
        interrupt(&child);
        state(child.id()) == Some('Z')
    });
    check_signal(child.wait().unwrap(), Signal::INT);
    drop(reader);
}

/// A run that may send its commands no signal, as it may send none to `sudo`, which is root's.
/// `None`, which is said: that cannot be had here.
fn without_leave_to_end(folder: &Path, args: &[&str]) -> Option<Child> {
    let mut command = command(folder, args);
    deny(&mut command, libc::SYS_kill);
    match command.env("CMWQ_RUN_GRACE", "1").spawn() {
        Ok(child) => Some(child),
        Err(error) => {
            not_tested(&format!("no seccomp filters: {error}"));
            None
        }
    }
}

#[test]
fn commands_that_may_not_be_ended_are_told_of_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo $$ > pid.new; mv pid.new pid; exec sleep 600";
    let args = ["sh", "-c", script, ":::", "a"];
    let Some(mut child) = without_leave_to_end(folder.path(), &args) else { return };
    let path = folder.path().join("pid");
    eventually("it starts", || path.exists());
    let pid = fs::read_to_string(&path).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    eventually("it ends", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    assert!(state(pid).is_some_and(|state| state != 'Z'), "it goes on");
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    check_signal(output.status, Signal::TERM);
    let refused = format!(
        "cmwq: 1 of the commands may not be ended: Operation not permitted (PID {pid})\n\
         cmwq: 1 that run could not be ended, and go on\n"
    );
    assert_eq!(stderr(&output), refused);
}

#[test]
fn one_that_takes_too_long_and_may_not_be_ended_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let script = "while [ ! -e go ]; do sleep 0.01; done";
    let args = ["--timeout", "0.1", "sh", "-c", script, ":::", "a"];
    let Some(mut child) = without_leave_to_end(folder.path(), &args) else { return };
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.contains("takes too long, and may not be ended: Operation not"), "{line}");
    fs::write(folder.path().join("go"), "").unwrap();
    told.read_line(&mut line).unwrap();
    assert!(line.ends_with("took too long\n"), "{line}");
    check_code(&child.wait_with_output().unwrap(), 123);
}

/// Their commands are to be killed before they are.
#[test]
fn runs_that_are_commands_are_told_of_a_shorter_time() {
    for (own, told) in [(None, "4\n"), (Some("3"), "2\n"), (Some("1"), "1\n"), (Some("x"), "4\n")] {
        let args = ["sh", "-c", "echo $CMWQ_RUN_GRACE", ":::", "a"];
        let mut command = command(Path::new("/"), &args);
        command.env_remove("CMWQ_RUN_GRACE").envs(own.map(|own| ("CMWQ_RUN_GRACE", own)));
        assert_eq!(printed(&command.output().unwrap()), told, "{own:?}");
    }
}

#[test]
fn a_dry_run_prints_each_command_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = command(folder.path(), &["--dry-run", "echo", "{}"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"a\n").unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "echo a\n");
    drop(out);
    eventually("it sees that nobody reads", || {
        // Without a reader of its own it has ended, which is what is waited for.
        let _ = std::io::Write::write_all(&mut input, b"b\n");
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

#[test]
fn a_dry_run_leaves_out_what_need_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let args = |more: &[&'static str]| {
        [more, &["-k", "--joblog", "log", "test", "{}", "!=", "b", ":::", "a", "b"]].concat()
    };
    check_code(&run_in(folder.path(), &args(&[]), b""), 123);
    let log = fs::read(folder.path().join("log")).unwrap();
    let output = run_in(folder.path(), &args(&["--dry-run", "--resume"]), b"");
    assert_eq!(printed(&output), "test b '!=' b\n");
    check_code(&run_in(folder.path(), &args(&["--dry-run"]), b""), 0);
    assert!(fs::read(folder.path().join("log")).unwrap() == log, "it is not written to");
}

#[test]
fn a_log_that_cannot_be_written_is_a_failure_of_writing() {
    let args = ["--joblog", "/dev/null/log", "true", ":::", "a"];
    let output = run(&args, b"");
    check_code(&output, 1);
    assert!(stderr(&output).contains("/dev/null/log: Not a directory"), "{}", stderr(&output));
    check_code(&run(&["--joblog", "/dev/full", "true", ":::", "a"], b""), 1);
}

#[test]
fn what_has_no_meaning_together_is_refused() {
    for args in [
        &["--jobserver", "--dry-run"][..],
        &["--jobserver", "--timeout", "1"],
        &["--jobserver", "-n", "1"],
        &["--jobserver", "--retries", "1"],
        &["--jobserver", "--json"],
        &["-k", "--line-buffer"],
    ] {
        let output = run(&[args, &["--", "echo", "a"]].concat(), b"");
        check_code(&output, 2);
        assert_eq!(printed(&output), "", "{args:?}");
    }
}

#[test]
fn what_others_have_and_this_has_not_is_refused_with_a_hint() {
    for (args, hint) in [
        (&["-j4", "echo", ":::", "a"][..], "--max-active"),
        (&["-P", "4", "echo"], "--max-active"),
        (&["--jobs", "4", "echo"], "--max-active"),
        (&["--jobserver", "-j4", "make"], "--max-active"),
        (&["-0", "echo", ":::", "a"], "standard input"),
        (&["-d", ",", "echo", ":::", "a"], "standard input"),
        (&["-a", "list", "echo", ":::", "a"], "standard input"),
        (&["echo", "::::", "list"], "-a FILE"),
        (&["echo", ":::", "a", "::::", "list"], "-a FILE"),
        (&["echo", ":::", "a", ":::+", "b"], "-n 2"),
        (&["echo", ":::", "a", "::::+", "b"], "-n 2"),
    ] {
        let output = run(args, b"");
        check_code(&output, 2);
        assert_eq!(printed(&output), "", "{args:?}");
        assert!(stderr(&output).contains(hint), "{args:?}: {}", stderr(&output));
    }
}

/// As for xargs: 1 says that nothing else went wrong.
#[test]
fn a_command_that_failed_says_more_than_arguments_that_cannot_be_read() {
    check_code(&run(&["true"], b"a\n'x"), 1);
    check_code(&run(&["false"], b"a\n'x"), 123);
}
