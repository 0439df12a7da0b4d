//! Where there are as many processes as there may be.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread;

use super::{printed, sorted};
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
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes());
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(126) && stderr(&output).contains("bash: ") {
        not_tested("that user may not start the command");
        return;
    }
    check_code(&output, 0);
    assert_eq!(sorted(printed(&output)), numbers);
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

#[test]
fn a_limit_that_holds_commands_back_is_told_of() {
    let script = r#"ulimit -n 100; exec "$0" run -- sleep"#;
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_cmwq")]).stdin(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // For some seconds no other can start: it is looked at ten times in each.
    let input = "0.5\n".repeat(60);
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    check_code(&output, 0);
    let said = stderr(&output);
    assert_eq!(
        said.matches("no more have room in the limit of 100 open files").count(),
        1,
        "{said}"
    );
}
