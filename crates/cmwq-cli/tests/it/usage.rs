//! Help, usage errors, statistics.

use std::fs::File;
use std::io::pipe;
use std::process::{Command, Output, Stdio};

use crate::support::{check_code, stderr, sum, tree};

fn cmwq(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cmwq")).args(arguments).output().unwrap()
}

#[test]
fn help_is_complete_and_fits_a_terminal() {
    let output = cmwq(&["sum", "--help"]);
    check_code(&output, 0);
    let help = String::from_utf8(output.stdout).unwrap();
    for part in [
        "PATH",
        "--json",
        "--stats",
        "path_hex",
        "Exit code:",
        "141",
        "Examples:",
        "cmwq sum -- -odd-name",
    ] {
        assert!(help.contains(part), "{part} is not in:\n{help}");
    }
    let longest = help.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "a line of {longest:?} columns");
    assert!(cmwq(&["--help"]).stdout.starts_with(b"Workqueues"));
}

#[test]
fn wrong_usage_is_code_2() {
    for arguments in [&[][..], &["sum", "--no-such-option"], &["no-such-verb"]] {
        let output = cmwq(arguments);
        check_code(&output, 2);
        assert!(stderr(&output).contains("Usage:"), "{}", stderr(&output));
    }
}

#[test]
fn help_that_cannot_be_printed_is_a_failure() {
    for arguments in [&["--help"][..], &["--version"], &["help", "sum"], &["set", "-h"]] {
        let run = |stdout: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
            command.args(arguments).stdout(stdout).output().unwrap()
        };
        let output = run(File::options().write(true).open("/dev/full").unwrap().into());
        check_code(&output, 1);
        assert!(stderr(&output).contains("cannot write to standard output"), "{arguments:?}");
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        check_code(&run(writer.into()), 141);
    }
    let painted = cmwq(&["--color=always", "--help"]).stdout;
    assert!(painted.contains(&0x1b) && !cmwq(&["--help"]).stdout.contains(&0x1b));
}

#[test]
fn statistics_go_to_standard_error() {
    let tree = tree(&["a", "b/c", "b/d"]);
    let plain = sum(tree.path()).output().unwrap();
    let output = sum(tree.path()).arg("--stats").output().unwrap();
    check_code(&output, 0);
    assert_eq!(output.stdout, plain.stdout);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = stderr(&output).lines().map(words).collect();
    assert_eq!(lines[0], "cmwq: statistics");
    for expected in ["files 3", "bytes 300 (300 B)", "directories 2", "errors 0", "skipped 0"] {
        assert!(lines.iter().any(|line| line == expected), "{expected} is not in {lines:?}");
    }
    for start in ["seconds ", "MB/s ", "work items ", "most workers "] {
        assert!(lines.iter().any(|line| line.starts_with(start)), "{start} is not in {lines:?}");
    }
}
