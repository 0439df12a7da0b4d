//! The progress bar of `cmwq run`: on a terminal, and nowhere else.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::num::NonZero;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use super::{
    WAITS, a_hand_takes_its_time, check_signal, command, eventually, interrupt, interrupt_again,
    is_full, printed,
};
use crate::sum_terminal::{read_until, terminal};
use crate::support::{check_code, not_tested, stderr};

/// Three commands, one at a time; the first one fails, and each waits for a file.
fn begun(folder: &TempDir, more: &[&str], to: Stdio) -> Child {
    let script = format!("{WAITS}; echo {{}}; [ {{}} != a ]");
    let args = [more, &["--max-active", "1", "sh", "-c", &script, ":::", "a", "b", "c"]].concat();
    let mut command = command(folder.path(), &args);
    command.env("TERM", "xterm").env_remove("NO_COLOR").stderr(to);
    let child = command.spawn().unwrap();
    // The command holds the other copy of the terminal's side: its end is the end of what can be
    // read.
    drop(command);
    eventually("it starts", || folder.path().join("started.a").exists());
    child
}

#[test]
fn a_terminal_shows_what_runs_waits_and_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let (mut user, program) = terminal();
    let child = begun(&folder, &[], program.into());
    let shown = read_until(&mut user, "0/3 done, 1 running, 2 waiting");
    assert!(shown.contains("0/3 done, 1 running, 2 waiting"), "{shown:?}");
    fs::write(folder.path().join("go.a"), "").unwrap();
    let second = "1/3 done, 1 running, 1 waiting, 1 failed, ";
    let mut shown = read_until(&mut user, second);
    let (_, rest) = shown.split_once(second).unwrap_or_else(|| panic!("{shown:?}"));
    if !rest.contains(" left") {
        shown = read_until(&mut user, " left");
        assert!(shown.contains(" left"), "{shown:?}");
    }
    fs::write(folder.path().join("go.b"), "").unwrap();
    fs::write(folder.path().join("go.c"), "").unwrap();
    let rest = read_until(&mut user, "nothing else: read to the end");
    let output = child.wait_with_output().unwrap();
    check_code(&output, 123);
    assert_eq!(printed(&output), "a\nb\nc\n");
    assert!(rest.ends_with("\x1b[2K") || rest.ends_with("\r"), "not taken away: {rest:?}");
}

/// On a line of its own, which no later bar takes away.
#[test]
fn a_message_stands_above_the_bar() {
    let folder = tempfile::tempdir().unwrap();
    let (mut user, program) = terminal();
    let script = format!("{WAITS}; exit 255");
    let args = ["--max-active", "1", "--halt", "never", "sh", "-c", &script, ":::", "a", "b"];
    let mut command = command(folder.path(), &args);
    let child = command.env("TERM", "xterm").stderr(program).spawn().unwrap();
    drop(command);
    let mut shown = read_until(&mut user, "0/2 done, 1 running, 1 waiting");
    fs::write(folder.path().join("go.a"), "").unwrap();
    shown += &read_until(&mut user, "1/2 done, 1 running, 0 waiting, 1 failed");
    fs::write(folder.path().join("go.b"), "").unwrap();
    shown += &read_until(&mut user, "nothing else: read to the end");
    check_code(&child.wait_with_output().unwrap(), 124);
    let [rows, columns] = [24, 80].map(|n| NonZero::new(n).unwrap());
    let mut screen = vt100::Parser::new(rows, columns, 0);
    screen.process(shown.as_bytes());
    let said = "cmwq: sh: exited with status 255";
    assert_eq!(screen.screen().contents(), [said, said].join("\n"), "{shown:?}");
}

/// As `less` on its first page. Who waits for it has nothing of the terminal meanwhile.
#[test]
fn signals_are_heard_while_a_reader_takes_his_time() {
    let folder = tempfile::tempdir().unwrap();
    let (mut user, program) = terminal();
    let script = "if [ {} = a ]; then exec seq 100000; fi; trap 'touch asked; exit' TERM; \
                  touch up; while :; do sleep 0.01; done";
    let args = ["--max-active", "2", "sh", "-c", script, ":::", "a", "b"];
    let mut command = command(folder.path(), &args);
    let child = command.env("TERM", "xterm").stderr(program).spawn().unwrap();
    drop(command);
    let is_there = |name: &str| folder.path().join(name).exists();
    eventually("the other starts", || is_there("up"));
    eventually("the reader has enough", || is_full(child.stdout.as_ref().unwrap()));
    interrupt(&child);
    let shown = read_until(&mut user, "Ctrl-C again ends them");
    assert!(shown.contains("Ctrl-C again ends them"), "{shown:?}");
    interrupt_again(&child);
    eventually("the other is asked to end", || is_there("asked"));
    let output = child.wait_with_output().unwrap();
    check_signal(output.status, Signal::INT);
    assert!(printed(&output).lines().eq((1..=100_000).map(|n| n.to_string())), "all of it");
}

/// As a window that was closed, or a connection that broke. Standard output goes somewhere else.
#[test]
fn a_terminal_that_hangs_up_ends_nothing() {
    for how in [&[][..], &["-k"], &["--line-buffer"]] {
        let (user, program) = terminal();
        let script = "echo said {} >&2; echo {}";
        let args = [how, &["--ordered", "sh", "-c", script, ":::", "a", "b", "c"]].concat();
        drop(user);
        let output = command("/".as_ref(), &args).stderr(program).output().unwrap();
        assert_eq!((output.status.code(), printed(&output)), (Some(0), "a\nb\nc\n"), "{how:?}");
    }
}

#[test]
fn who_does_not_want_a_bar_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let (mut user, program) = terminal();
    let child = begun(&folder, &["--no-progress"], program.into());
    for go in ["go.a", "go.b", "go.c"] {
        fs::write(folder.path().join(go), "").unwrap();
    }
    assert_eq!(read_until(&mut user, "nothing else: read to the end"), "");
    check_code(&child.wait_with_output().unwrap(), 123);
}

#[test]
fn a_pipe_shows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let child = begun(&folder, &[], Stdio::piped());
    for go in ["go.a", "go.b", "go.c"] {
        fs::write(folder.path().join(go), "").unwrap();
    }
    let output = child.wait_with_output().unwrap();
    check_code(&output, 123);
    assert_eq!(stderr(&output), "");
}

/// As for a password. Nobody would see why nothing happens.
#[test]
fn a_command_that_wants_the_terminal_is_told_of() {
    for how in ["", "--line-buffer", "--timeout 600"] {
        wants_the_terminal(how);
    }
}

fn wants_the_terminal(how: &str) {
    let folder = tempfile::tempdir().unwrap();
    let cmwq = env!("CARGO_BIN_EXE_cmwq");
    let run = format!("exec {cmwq} run {how} sh -c 'read x </dev/tty' ::: a");
    let mut script = Command::new("script");
    script.args(["-qec", &run, "/dev/null"]).current_dir(folder.path());
    let piped = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = piped else { return not_tested("script is not installed") };
    let mut keys = child.stdin.take().unwrap();
    let mut shown = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    while !shown.contains("it wants the terminal") {
        assert!(out.read_line(&mut shown).unwrap() > 0, "{how}: {shown}");
    }
    keys.write_all(b"\x03").unwrap();
    while !shown.contains("Ctrl-C again ends them") {
        assert!(out.read_line(&mut shown).unwrap() > 0, "{how}: {shown}");
    }
    a_hand_takes_its_time();
    keys.write_all(b"\x03").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{how}: it hears that it is to end");
}
