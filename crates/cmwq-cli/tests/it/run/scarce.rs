//! Where the system does not give all that is asked for.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::{io, thread};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use super::{WAITS, check_signal, command, eventually, interrupt, printed, sorted};
use crate::support::{check_code, not_tested, stderr};

/// A user who has no process.
const NOBODY_ELSE: u32 = 54_321;

/// As xargs does.
#[test]
fn the_next_command_waits_until_another_has_ended() {
    if !rustix::process::geteuid().is_root() {
        not_tested("only root can become a user who has no process");
        return;
    }
    // The threads of the command, a sentinel for each CPU, and then workers and what they start.
    let limit = 16 + thread::available_parallelism().map_or(1, usize::from);
    let script = r#"ulimit -u "$1"; exec "$0" run sh -c 'echo {}; exec sleep 0.05'"#;
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_cmwq"), &limit.to_string()]);
    let numbers: Vec<_> = (100..200).map(|n| n.to_string()).collect();
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    let mut child = match command.uid(NOBODY_ELSE).current_dir("/").spawn() {
        Ok(child) => child,
        // Root in a container may lack the capability.
        Err(error) => return not_tested(&format!("as another user: {error}")),
    };
    let input = numbers.join("\n");
    // Who cannot be started does not read it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(126) && stderr(&output).contains("bash: ") {
        not_tested("that user may not start the command");
        return;
    }
    check_code(&output, 0);
    assert_eq!(sorted(printed(&output)), numbers);
}

/// From now on it opens no other file.
fn limit_files(child: &Child) {
    let limit = Rlimit { current: Some(3), maximum: Some(3) };
    prlimit(Some(Pid::from_child(child)), Resource::Nofile, limit).unwrap();
}

/// Neither started nor failed: it waits until another has ended, and then nothing starts any more.
#[test]
fn what_waits_for_room_is_left_out_when_nothing_starts_any_more() {
    for how in [&[][..], &["--retries", "3"], &["--line-buffer"]] {
        let folder = tempfile::tempdir().unwrap();
        // The first keeps nobody from being tried: without files it is not seen that it waits.
        let args = [how, &["--cpu-intensive", "--joblog", "log", "sh", "-c", WAITS]].concat();
        let mut command = command(folder.path(), &args);
        // The library would say that it sees less.
        let mut child = command.env("CMWQ_QUIET", "1").spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"a\n").unwrap();
        eventually("the first starts", || folder.path().join("started.a").exists());
        limit_files(&child);
        input.write_all(b"b\n").unwrap();
        drop(input);
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        for what in ["no other command can be started now", "Ctrl-C again ends them"] {
            told.read_line(&mut said).unwrap();
            assert!(said.contains(what), "{how:?}: {said}");
            if what.starts_with("no other") {
                interrupt(&child);
            }
        }
        fs::write(folder.path().join("go.a"), "").unwrap();
        told.read_to_string(&mut said).unwrap();
        check_signal(child.wait().unwrap(), Signal::INT);
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!(log.lines().count(), 2, "{how:?}: {log}");
        assert!(said.contains("1 done, 0 of them failed; not all were started"), "{how:?}: {said}");
        assert!(!said.contains("cannot be started:"), "{how:?}: {said}");
    }
}

/// There is nobody whose end one could wait for. How many files the rest takes is not said here.
#[test]
fn who_cannot_start_the_first_says_why() {
    let script = r#"ulimit -n "$1"; exec "$0" run true ::: a"#;
    let refused = (6..24).map(|limit| {
        let mut command = Command::new("bash");
        command.args(["-c", script, env!("CARGO_BIN_EXE_cmwq"), &limit.to_string()]);
        command.output().unwrap()
    });
    let refused: Vec<_> = refused.filter(|output| output.status.code() == Some(126)).collect();
    let says = |output| stderr(output).contains("cannot be started: Too many open files");
    assert!(!refused.is_empty() && refused.iter().all(says), "{refused:?}");
}

/// Some commands close all descriptors below the limit, so it is not as high as may be.
#[test]
fn the_limit_of_open_files_is_raised_to_what_is_needed() {
    for (soft, most, inherited) in [(100, "100", "1128\n"), (1000, "1", "1000\n")] {
        let script = r#"[ $(ulimit -Hn) = unlimited ] || [ $(ulimit -Hn) -ge 1128 ] || exit 99
            ulimit -Sn "$1"; exec "$0" run --max-active "$2" sh -c "ulimit -Sn" ::: a"#;
        let mut command = Command::new("bash");
        command.args(["-c", script, env!("CARGO_BIN_EXE_cmwq"), &soft.to_string(), most]);
        let output = command.output().unwrap();
        if output.status.code() == Some(99) {
            return not_tested("the hard limit of open files is low");
        }
        check_code(&output, 0);
        assert_eq!(printed(&output), inherited);
    }
}

/// As where the disk is full: what is large stays in memory, and nothing is ended by a signal.
#[test]
fn files_that_may_not_be_long_are_an_error_of_writing() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str], out: Option<fs::File>| {
        let mut command = Command::new("bash");
        let script = r#"ulimit -f 1; exec "$0" run "$@""#;
        command.args(["-c", script, env!("CARGO_BIN_EXE_cmwq")]).args(args);
        command.current_dir(folder.path()).stderr(std::process::Stdio::piped());
        let out = out.map_or_else(std::process::Stdio::piped, Into::into);
        command.stdout(out).spawn().unwrap().wait_with_output().unwrap()
    };
    let output = run(&["head", "-c", "9000000", ":::", "/dev/zero"], None);
    check_code(&output, 0);
    assert_eq!(output.stdout.len(), 9_000_000);
    let file = fs::File::create(folder.path().join("out")).unwrap();
    let output = run(&["head", "-c", "5000", ":::", "/dev/zero"], Some(file));
    check_code(&output, 1);
    assert!(stderr(&output).contains("cannot write: File too large"), "{}", stderr(&output));
    let output = run(&["--joblog", "log", "echo", ":::", &"a".repeat(5000)], None);
    check_code(&output, 1);
    // What a command writes itself ends it as ever.
    let script = "exec head -c 5000 /dev/zero > own";
    check_code(&run(&["sh", "-c", script, ":::", "a"], None), 125);
}

#[test]
fn a_limit_that_holds_commands_back_is_told_of() {
    let script = r#"ulimit -n 100; exec "$0" run -- sleep"#;
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_cmwq")]).stdin(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // For some seconds no other can start: it is looked at ten times in each.
    let input = "0.5\n".repeat(60);
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    check_code(&output, 0);
    let said = stderr(&output);
    assert_eq!(
        said.matches("no more have room in the limit of 100 open files").count(),
        1,
        "{said}"
    );
}

/// A run where pidfd_open fails, as on a kernel that has none and under some seccomp filters.
/// `None`, which is said: there are no filters.
fn run_without_pidfds(args: &[&str]) -> Option<Output> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    // The number of the call is at the beginning of what a filter is shown.
    let steps = [
        step(LOAD, 0, 0),
        step(IS, 1, libc::SYS_pidfd_open as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let refuse = move || {
        let filter = libc::sock_fprog { len: 4, filter: steps.as_ptr().cast_mut() };
        // SAFETY: prctl with these arguments reads the filter, which lives as long as the closure.
        let is_set = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
        };
        if is_set { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    let mut command = command(Path::new("/"), args);
    // SAFETY: the closure only makes system calls, which is allowed between fork and exec.
    match unsafe { command.pre_exec(refuse) }.output() {
        Ok(output) => Some(output),
        Err(error) => {
            not_tested(&format!("no seccomp filters: {error}"));
            None
        }
    }
}

#[test]
fn without_pidfds_commands_are_waited_for_all_the_same() {
    let script = "echo one; sleep 0.3; echo two >&2; exit 3";
    for how in [&["--timeout", "600"][..], &["--line-buffer"], &["--tag"]] {
        let args = [how, &["sh", "-c", script, ":::", "a"]].concat();
        let Some(output) = run_without_pidfds(&args) else { return };
        check_code(&output, 123);
        let tag = if how == ["--tag"] { "a\t" } else { "" };
        assert_eq!(printed(&output), format!("{tag}one\n"), "{how:?}");
        assert_eq!(stderr(&output), format!("{tag}two\n"), "{how:?}");
    }
    let script = "echo begins; sleep 1000 & wait";
    for how in [&["--timeout", "1"][..], &["--timeout", "1", "--line-buffer"]] {
        let args = [how, &["sh", "-c", script, ":::", "a"]].concat();
        let Some(output) = run_without_pidfds(&args) else { return };
        check_code(&output, 123);
        assert!(stderr(&output).contains("took too long"), "{how:?}: {}", stderr(&output));
        assert_eq!(printed(&output), "begins\n", "{how:?}");
    }
}
