//! Help, manual pages and completions are made of one source, and say the same.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::support::{check_code, not_tested, stderr};

const VERBS: [&str; 13] = [
    "doctor",
    "dump",
    "monitor",
    "ps",
    "run",
    "sum",
    "scenario",
    "set",
    "sim",
    "top",
    "trace",
    "completions",
    "man",
];

fn cmwq(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cmwq")).args(args).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = cmwq(args);
    check_code(&output, 0);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_verb_has_its_exit_codes_and_examples_in_its_help() {
    let all = stdout(&["--help"]);
    assert!(all.contains("Exit code:"), "{all}");
    for verb in VERBS {
        assert!(all.contains(&format!("\n  {verb} ")), "{verb} is not in:\n{all}");
        let help = stdout(&[verb, "--help"]);
        for part in ["Exit code:\n  0 ", "\n  2    wrong usage\n", "Examples:\n", "--color"] {
            assert!(help.contains(part), "{verb}: {part:?} is not in:\n{help}");
        }
        let longest = help.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(100), "{verb}: a line of {longest:?} columns");
        let reports = !["completions", "man"].contains(&verb);
        assert_eq!(help.contains("--json"), reports, "{verb}:\n{help}");
    }
}

#[test]
fn there_is_a_page_for_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("man1");
    stdout(&["man", path.to_str().unwrap()]);
    assert_eq!(fs::read_dir(&path).unwrap().count(), VERBS.len() + 1);
    let main = fs::read_to_string(path.join("cmwq.1")).unwrap();
    assert_eq!(main, stdout(&["man"]));
    for verb in VERBS {
        let page = fs::read_to_string(path.join(format!("cmwq-{verb}.1"))).unwrap();
        assert!(page.contains(" 1 \"\" \"cmwq "), "{verb}: no source in the title");
        for part in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", "EXIT STATUS", ".SH \"SEE ALSO\""] {
            assert!(page.contains(part), "{verb}: {part} is not in:\n{page}");
        }
        let usage = stdout(&[verb, "--help"]);
        let usage = usage.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap();
        let synopsis = page.split(".SH SYNOPSIS\n").nth(1).unwrap().lines().next().unwrap();
        assert_eq!(synopsis.replace('\\', ""), usage);
    }
    assert!(stdout(&["run", "--help"]).contains("<COMMAND>... [::: <ARG>...]...\n"));
    let pages: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    let lint = Command::new("mandoc").args(["-Tlint", "-Werror"]).args(pages).output();
    match lint {
        Ok(lint) => assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout)),
        Err(_) => not_tested("mandoc is not installed"),
    }
}

#[test]
fn completions_know_all_verbs_and_their_shell_takes_them() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&["completions", shell]);
        for refused in ["--jobs ", "--jobs)", "--jobs=", "-l jobs "] {
            assert!(!script.contains(refused), "{shell}: what is refused is offered");
        }
        for verb in VERBS {
            assert!(script.contains(verb), "{shell}: {verb}");
        }
        let child = Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            not_tested(&format!("{shell} is not installed"));
            continue;
        };
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{shell} does not take it");
    }
}

#[test]
fn colours_come_when_they_are_asked_for() {
    let timeline =
        |args: &[&str]| stdout(&[&["scenario", "doc-max2", "--on", "sim"], args].concat());
    assert!(!timeline(&[]).contains('\x1b'), "standard output is no terminal");
    assert!(!timeline(&["--color", "never"]).contains('\x1b'));
    assert!(timeline(&["--color=always"]).contains("\x1b[38;5;31m█"));
    let doctor = stdout(&["--color", "always", "doctor", "--no-measure"]);
    assert!(doctor.contains("\x1b[1m"), "{doctor}");
    let usage = cmwq(&["smu", "--color", "always"]);
    check_code(&usage, 2);
    assert!(stderr(&usage).contains("\x1b["), "{}", stderr(&usage));
}

#[test]
fn what_is_nearly_right_is_offered() {
    for (args, meant) in [
        (&["tarce"][..], "'trace'"),
        (&["sum", "--stat"], "'--stats'"),
        (&["trace", "--events", "execut_start"], "'execute_start'"),
        (&["sim", "--sabotage", "never-clsoe"], "'never-close'"),
        (&["sim", "--scope", "cach"], "'cache'"),
        (&["scenario", "doc-mx2"], "'doc-max2'"),
    ] {
        let output = cmwq(args);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}");
        assert!(stderr(&output).contains(meant), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_mistake_in_a_scenario_is_shown_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    fs::write(&path, "cpus = 1\n[[workqueue]]\nname = \"q\"\nflags = [\"manged\"]\n").unwrap();
    let output = cmwq(&["scenario", path.to_str().unwrap(), "--on", "sim"]);
    check_code(&output, 1);
    let said = stderr(&output);
    assert!(said.contains("mine.toml:4: workqueue 'q': unknown flag 'manged'"), "{said}");
    assert!(said.contains("\n    4 | flags = [\"manged\"]\n      |          ^^^^^^^^\n"), "{said}");
}

#[test]
fn the_scenarios_are_listed_as_json_too() {
    let list: serde_json::Value =
        serde_json::from_str(&stdout(&["scenario", "--list", "--json"])).unwrap();
    let names = list["scenarios"].as_array().unwrap();
    assert!(names.iter().any(|scenario| scenario["name"] == "doc-max3"), "{list}");
}
