//! `cmwq run` as a user runs it.

mod beside;
mod builds;
mod ending;
mod output;
mod scarce;
mod signals;
mod terminal;

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_getpipe_size;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{check_code, stderr};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(200);

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.arg("run").args(args).current_dir(folder).env("LC_ALL", "C").env_remove("MAKEFLAGS");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run_in(folder: &Path, args: &[&str], input: &[u8]) -> Output {
    let mut child = command(folder, args).spawn().unwrap();
    // Who gives up early does not read it.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn run(args: &[&str], input: &[u8]) -> Output {
    run_in(tempfile::tempdir().unwrap().path(), args, input)
}

/// What shells turn into 128 and its number.
#[track_caller]
fn check_signal(status: ExitStatus, signal: Signal) {
    assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
}

fn printed(output: &Output) -> &str {
    str::from_utf8(&output.stdout).unwrap()
}

#[track_caller]
fn prints(args: &[&str], input: &[u8], expected: &str) {
    let output = run(args, input);
    check_code(&output, 0);
    assert_eq!(printed(&output), expected, "{args:?}");
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "this never came about: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a pipe has no room for more.
fn is_full(pipe: impl AsFd) -> bool {
    ioctl_fionread(&pipe).unwrap() >= fcntl_getpipe_size(&pipe).unwrap() as u64
}

#[test]
fn arguments_are_parted_as_xargs_does() {
    prints(&["-k", "--", "echo"], b"a 'b  c'\n\"d\" e\\ f\n", "a\nb  c\nd\ne f\n");
    prints(&["-k", "-n", "2", "echo"], b"a b c\n", "a b\nc\n");
    prints(&["-k", "-0", "--", "echo"], b"a b\0'c\0", "a b\n'c\n");
    prints(&["-k", "-d", ",", "echo"], b"a,b c", "a\nb c\n");
    prints(&["-k", "--", "echo", "<{}>"], b"a b\n'c\n", "<a b>\n<'c>\n");
    prints(&["-k", "-I", "X", "--", "echo", "X-{}"], b"a b\nc\n", "a b-{}\nc-{}\n");
    prints(&["-k", "echo"], b"a\r\n\r\nb\r\n", "a\r\nb\r\n");
    prints(&["echo"], b"", "");
    // Values beside their letters, options of the command, and none of ours that is not one.
    prints(&["-kn2", "echo", "-e", "-k"], b"a b\n", "-k a b\n");
    prints(&["-I@@", "-k", "echo", "-n", "@@"], b"a\nb\n", "ab");
    check_code(&run(&["--no-such-option", "echo"], b"a"), 2);
}

/// An empty one in `rm -r /data/{}` would be everything.
#[test]
fn lines_are_arguments_as_for_xargs() {
    let input = b"a\n\n  b c \n \t \n\t'd\n";
    prints(&["-k", "--", "echo", "<{}>"], input, "<a>\n<b c >\n<'d>\n");
    prints(&["-k", "-I", "X", "--", "echo", "<X>"], b"\na\n", "<a>\n");
    prints(&["-k", "-d", "\\n", "--", "echo", "<{}>"], b"a\n\n b\n", "<a>\n<>\n< b>\n");
    prints(&["-k", "-0", "--", "echo", "<{}>"], b"a\0\0 b\0", "<a>\n<>\n< b>\n");
}

#[test]
fn arguments_come_from_files_and_lists() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("list"), "x y\n").unwrap();
    let output = run_in(folder.path(), &["-k", "-a", "list", "echo"], b"");
    assert_eq!(printed(&output), "x\ny\n");
    prints(&["-k", "-a", "-", "echo"], b"x y\n", "x\ny\n");
    prints(&["-k", "echo", "{/.}", ":::", "a/b.c", "d"], b"", "b\nd\n");
    prints(&["-k", "echo", "{2}{1}", ":::", "a", "b", ":::", "1", "2"], b"", "1a\n2a\n1b\n2b\n");
    prints(&["-k", "-n", "2", "echo", ":::", "a", "b", "c"], b"", "a b\nc\n");
}

/// As a program on an event loop leaves it to those who share it.
#[test]
fn an_input_that_does_not_wait_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    fcntl_setfl(&reader, OFlags::NONBLOCK).unwrap();
    let mut child = command(folder.path(), &["--", "echo"]).stdin(reader).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for argument in ["a", "b"] {
        writeln!(writer, "{argument}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), argument);
    }
    drop(writer);
    check_code(&child.wait_with_output().unwrap(), 0);
}

#[test]
fn exit_codes_are_those_of_xargs() {
    let shell = |script: &str| run(&["--", "sh", "-c", script, ":::", "x"], b"");
    check_code(&shell("exit 0"), 0);
    check_code(&shell("exit 7"), 123);
    check_code(&shell("exit 255"), 124);
    check_code(&shell("kill -9 $$"), 125);
    check_code(&run(&["--", "/etc/passwd"], b"x"), 126);
    check_code(&run(&["--", "/no/such/program"], b"x"), 127);
    check_code(&run(&["--", "echo"], b"'x"), 1);
    check_code(&run(&[], b""), 2);
    check_code(&run(&["--halt", "perhaps", "echo"], b""), 2);
    check_code(&run(&[":::", "a"], b""), 2);
    check_code(&run(&["-a", "missing", "echo"], b""), 1);
}

/// Passes only if all of them are there at the same time, whatever the number of CPUs.
#[test]
fn commands_that_wait_make_room_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let script = "touch in.{}; while [ $(ls | grep -c ^in) -lt 12 ]; do sleep 0.01; done";
    let args: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    let mut all = vec!["sh", "-c", script, ":::"];
    all.extend(args.iter().map(String::as_str));
    check_code(&run_in(folder.path(), &all, b""), 0);
}

const MEET: &str = "echo {} begins; touch {}; while [ ! -e $(echo ab | tr -d {}) ]; \
                    do sleep 0.01; done; echo {} ends; echo {} tells >&2";

#[test]
fn what_a_command_prints_stays_together() {
    let output = run(&["sh", "-c", MEET, ":::", "a", "b"], b"");
    check_code(&output, 0);
    let both = ["a begins\na ends\nb begins\nb ends\n", "b begins\nb ends\na begins\na ends\n"];
    assert!(both.contains(&printed(&output)), "{}", printed(&output));
    assert_eq!(sorted(stderr(&output)), ["a tells", "b tells"]);
}

#[test]
fn lines_and_tags() {
    for how in [&["--tag"][..], &["--tag", "--line-buffer"]] {
        let output = run(&[how, &["sh", "-c", MEET, ":::", "a", "b"]].concat(), b"");
        check_code(&output, 0);
        let lines = sorted(printed(&output));
        assert_eq!(lines, ["a\ta begins", "a\ta ends", "b\tb begins", "b\tb ends"], "{how:?}");
        assert_eq!(sorted(stderr(&output)), ["a\ta tells", "b\tb tells"]);
    }
    prints(&["--line-buffer", "printf", ":::", "no end"], b"", "no end\n");
    prints(&["-u", "printf", ":::", "no end"], b"", "no end");
}

#[test]
fn order_is_kept_whoever_ends_first() {
    let script = "[ {} = a ] && while [ ! -e b ]; do sleep 0.01; done; touch {}; echo {}";
    let args = ["-k", "sh", "-c", script, ":::", "a", "b", "c"];
    let output = run(&args, b"");
    check_code(&output, 0);
    assert_eq!(printed(&output), "a\nb\nc\n");
}

#[test]
fn much_output_is_printed_as_a_whole() {
    let output = run(&["-k", "sh", "-c", "yes {} | head -c 300000", ":::", "a", "b"], b"");
    check_code(&output, 0);
    assert_eq!(output.stdout, [b"a\n".repeat(150_000), b"b\n".repeat(150_000)].concat());
}

#[test]
fn an_ordered_run_has_one_command_at_a_time() {
    let script = "mkdir lock || exit 9; sleep 0.01; echo {}; rmdir lock";
    let args = ["--ordered", "sh", "-c", script, ":::", "1", "2", "3", "4"];
    let output = run(&args, b"");
    check_code(&output, 0);
    assert_eq!(printed(&output), "1\n2\n3\n4\n");
}

#[test]
fn enough_is_enough() {
    let script = "echo {}; [ {} != 2 ]";
    let args = |halt: &'static str| {
        vec!["--ordered", "--halt", halt, "sh", "-c", script, ":::", "1", "2", "3", "4"]
    };
    let output = run(&args("soon,fail=1"), b"");
    check_code(&output, 123);
    assert_eq!(printed(&output), "1\n2\n");
    let said = stderr(&output);
    assert!(said.contains("2 done, 1 of them failed; not all were started"), "{said}");
    assert_eq!(printed(&run(&args("soon,success=3"), b"")), "1\n2\n3\n4\n");
    assert_eq!(printed(&run(&args("now,done=1"), b"")), "1\n");
    let stops = ["--ordered", "sh", "-c", "echo {}; exit 255", ":::", "1", "2"];
    assert_eq!(printed(&run(&stops, b"")), "1\n", "as xargs");
    let never = [&["--halt", "never"], &stops[..]].concat();
    assert_eq!(printed(&run(&never, b"")), "1\n2\n");
}

/// Nobody waits for what has not come.
#[test]
fn an_end_before_all_arguments_were_read_is_told() {
    let args = ["--halt", "soon,done=1", "--", "true"];
    let mut child = command(Path::new("/"), &args).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"1\n").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    check_code(&output, 0);
    let said = stderr(&output);
    assert_eq!(said, "cmwq: 1 done, 0 of them failed; ended before all arguments were read\n");
}

#[test]
fn an_end_after_the_last_is_not_told() {
    let output = run(&["--halt", "soon,done=1", "--", "true", ":::", "1"], b"");
    check_code(&output, 0);
    assert_eq!(stderr(&output), "");
}

#[test]
fn what_has_succeeded_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let args = |more: &'static [&'static str]| {
        let script = "echo {}; [ {} != b ] || [ -e good ]";
        [more, &["-k", "--joblog", "log", "sh", "-c", script, ":::", "a", "b", "c"]].concat()
    };
    check_code(&run_in(folder.path(), &args(&[]), b""), 123);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log.lines().count(), 4, "{log}");
    assert!(log.starts_with("Seq\tHost\tStarttime\tJobRuntime\t"), "{log}");
    fs::write(folder.path().join("good"), "").unwrap();
    let output = run_in(folder.path(), &args(&["--resume"]), b"");
    check_code(&output, 0);
    assert_eq!(printed(&output), "b\n");
    let output = run_in(folder.path(), &args(&["--resume"]), b"");
    assert_eq!((output.status.code(), printed(&output)), (Some(0), ""));
}

#[test]
fn a_dry_run_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_in(folder.path(), &["--dry-run", "touch", "{}", ":::", "a b", "c"], b"");
    check_code(&output, 0);
    assert_eq!(printed(&output), "touch 'a b'\ntouch c\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn who_fails_is_tried_again() {
    let script = "echo x >> tries; [ $(wc -l < tries) -ge 3 ]";
    let twice = ["--retries", "2", "sh", "-c", script, ":::", "a"];
    check_code(&run(&twice, b""), 0);
    let once = ["--retries", "1", "sh", "-c", script, ":::", "a"];
    check_code(&run(&once, b""), 123);
}

/// And not of all that came before, as GNU parallel has it.
#[test]
fn times_are_those_of_the_last_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let script = "[ -e tried ] || { date +%s.%N > tried; exit 1; }";
    let args = ["--json", "--joblog", "log", "--retries", "1", "sh", "-c", script, ":::", "a"];
    let output = run_in(folder.path(), &args, b"");
    check_code(&output, 0);
    let tried = fs::read_to_string(folder.path().join("tried")).unwrap();
    let tried: f64 = tried.trim().parse().unwrap();
    let line: Value = serde_json::from_str(printed(&output).lines().next().unwrap()).unwrap();
    assert_eq!(line["attempts"], 2);
    assert!(line["begin"].as_f64().unwrap() > tried, "{line} {tried}");
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let started = log.lines().nth(1).and_then(|line| line.split('\t').nth(2)).unwrap();
    // It has milliseconds.
    assert!(started.parse::<f64>().unwrap() > tried - 0.001, "{log} {tried}");
}

#[test]
fn who_takes_too_long_is_ended() {
    let script = "sleep 1000 & wait";
    let output = run(&["--timeout", "0.2", "sh", "-c", script, ":::", "a"], b"");
    check_code(&output, 123);
    assert!(stderr(&output).contains("took too long"), "{}", stderr(&output));
    // As for timeout(1).
    prints(&["--timeout", "0", "sh", "-c", "sleep 0.1; echo {}", ":::", "a"], b"", "a\n");
}

#[test]
fn niceness_and_cpus_are_those_of_the_queue() {
    prints(&["--nice", "15", "sh", "-c", "nice", ":::", "x"], b"", "15\n");
    let cpus = thread::available_parallelism().unwrap();
    prints(&["sh", "-c", "nproc", ":::", "x"], b"", &format!("{cpus}\n"));
}

/// Where that is not allowed it stays as it is, as for `nice`.
#[test]
fn those_of_high_priority_are_not_nice() {
    // However nice the test is.
    let allowed = Command::new("nice").args(["-n", "-40", "nice"]).output().unwrap();
    prints(&["--highpri", "sh", "-c", "nice", ":::", "x"], b"", printed(&allowed));
}

#[test]
fn starts_keep_their_distance() {
    let begin = Instant::now();
    prints(&["--delay", "0.05", "true", ":::", "1", "2", "3", "4"], b"", "");
    assert!(begin.elapsed() >= Duration::from_millis(150));
}

#[test]
fn starts_of_one_that_fails_keep_their_distance_too() {
    let begin = Instant::now();
    check_code(&run(&["--delay", "0.05", "--retries", "3", "false", ":::", "1"], b""), 123);
    assert!(begin.elapsed() >= Duration::from_millis(150));
}

/// It would begin again in ten minutes.
#[test]
fn one_that_is_to_begin_again_later_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--delay", "600", "--retries", "1", "sh", "-c", "echo x >> {}; exit 1", ":::", "a"];
    let mut child = command(folder.path(), &args).spawn().unwrap();
    let tries = || fs::read_to_string(folder.path().join("a")).unwrap_or_default();
    eventually("it has run", || tries() == "x\n");
    interrupt(&child);
    eventually("it ends", || child.try_wait().unwrap().is_some());
    check_signal(child.wait().unwrap(), Signal::INT);
    assert_eq!(tries(), "x\n");
}

/// Those that wait for their start are many.
#[test]
fn starts_at_a_distance_are_in_order() {
    let numbers: Vec<_> = (1..=60).map(|number| number.to_string()).collect();
    let mut args = vec!["--delay", "0.002", "--max-active", "1", "echo", ":::"];
    args.extend(numbers.iter().map(String::as_str));
    let expected: String = numbers.iter().map(|number| format!("{number}\n")).collect();
    prints(&args, b"", &expected);
}

#[test]
fn while_memory_is_short_one_runs_and_that_is_said() {
    let script = "mkdir lock || exit 9; sleep 0.05; rmdir lock";
    let args = ["--memory", "100%", "sh", "-c", script, ":::", "1", "2", "3", "4"];
    let output = run(&args, b"");
    check_code(&output, 0);
    assert!(stderr(&output).contains("cmwq: memory is short ("), "{}", stderr(&output));
}

#[test]
fn json_has_everything() {
    let script = "echo out {}; echo err >&2; exit {}";
    let output = run(&["-k", "--json", "sh", "-c", script, ":::", "0", "3"], b"");
    check_code(&output, 123);
    let lines: Vec<serde_json::Value> =
        printed(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["seq"], &lines[1]["exit"]), (&1.into(), &3.into()));
    assert_eq!(lines[1]["stdout"], "out 3\n");
    assert_eq!(lines[1]["stderr"], "err\n");
    assert_eq!(lines[1]["command"][0], "sh");
    assert_eq!(
        (&lines[2]["summary"]["done"], &lines[2]["summary"]["failed"]),
        (&2.into(), &1.into())
    );
}

#[test]
fn json_has_bytes_that_are_no_text_as_they_are() {
    let script = "printf '%s' \"$0\"; printf ok >&2";
    let output = run(&["--json", "-d", "\\n", "sh", "-c", script], b"a\xff\n");
    check_code(&output, 0);
    let line = printed(&output).lines().next().unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["stdout"], &line["stdout_base64"]), (&"a\u{fffd}".into(), &"Yf8=".into()));
    assert_eq!(line["command_base64"][3], "Yf8=");
    assert_eq!((&line["stderr"], line.get("stderr_base64")), (&"ok".into(), None));
}

#[test]
fn a_reader_that_goes_ends_it() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = command(Path::new("/"), &["echo", "{}", ":::", "a", "b"]);
    let mut child = command.stdout(writer).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

/// What a command does that is to be there for a while: it waits for a file.
const WAITS: &str = "touch started.{}; while [ ! -e go.{} ]; do sleep 0.01; done";

/// A run of two commands, one at a time, whose first has started.
fn begun(folder: &TempDir) -> Child {
    let script = format!("{WAITS}; echo {{}}");
    let args = ["--max-active", "1", "sh", "-c", &script, ":::", "a", "b"];
    let child = command(folder.path(), &args).spawn().unwrap();
    eventually("it starts", || folder.path().join("started.a").exists());
    child
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

fn interrupt_again(child: &Child) {
    a_hand_takes_its_time();
    interrupt(child);
}

/// Until Ctrl-C comes again: a faster one is taken for one that was sent twice.
fn a_hand_takes_its_time() {
    thread::sleep(Duration::from_millis(100));
}

/// Returns when the first interrupt has been taken. What is returned keeps the other messages from
/// being written to nobody.
fn wait_until_told(child: &mut Child) -> BufReader<ChildStderr> {
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.contains("nothing more starts; 1 that run may end"), "{line}");
    told
}

#[test]
fn once_interrupted_it_lets_end_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = begun(&folder);
    interrupt(&child);
    let _told = wait_until_told(&mut child);
    fs::write(folder.path().join("go.a"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    check_signal(output.status, Signal::INT);
    assert_eq!(printed(&output), "a\n");
    assert!(!folder.path().join("started.b").exists());
}

#[test]
fn twice_interrupted_it_ends_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let child = begun(&folder);
    interrupt(&child);
    // Signals of one kind that come together are one.
    eventually("it ends", || {
        interrupt(&child);
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.contains(") Z ")
    });
    let output = child.wait_with_output().unwrap();
    check_signal(output.status, Signal::INT);
    assert_eq!(printed(&output), "");
}

/// The command hears that it is to end, and does not.
#[test]
fn thrice_interrupted_it_kills_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'touch asked' TERM; touch started; while :; do sleep 0.01; done";
    let args = ["--joblog", "log", "sh", "-c", script, ":::", "a"];
    let mut child = command(folder.path(), &args).spawn().unwrap();
    let is_there = |name: &str| folder.path().join(name).exists();
    eventually("it starts", || is_there("started"));
    interrupt(&child);
    let _told = wait_until_told(&mut child);
    assert!(!is_there("asked"), "once is a wish to start nothing more");
    interrupt_again(&child);
    eventually("the command is asked to end", || is_there("asked"));
    assert!(child.try_wait().unwrap().is_none(), "it goes on, and is waited for");
    interrupt_again(&child);
    check_signal(child.wait().unwrap(), Signal::INT);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let signal = log.lines().nth(1).and_then(|line| line.split('\t').nth(7));
    assert_eq!(signal, Some("9"), "{log}");
}

/// The other command would begin in ten minutes. Which one is first is not said: both are queued,
/// and two workers ask at once whether they may begin.
#[test]
fn one_that_is_to_begin_later_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--delay", "600", "touch", "{}", ":::", "a", "b"];
    let mut child = command(folder.path(), &args).spawn().unwrap();
    let have_run = || ["a", "b"].iter().filter(|name| folder.path().join(name).exists()).count();
    eventually("one of them has run", || have_run() != 0);
    interrupt(&child);
    eventually("it ends", || child.try_wait().unwrap().is_some());
    check_signal(child.wait().unwrap(), Signal::INT);
    assert_eq!(have_run(), 1);
}

#[test]
fn a_program_that_cannot_be_started_is_told_with_the_reason() {
    let long = "x".repeat(200 << 10);
    let output = run(&["-d", "\n", "--", "true"], long.as_bytes());
    check_code(&output, 126);
    let told = stderr(&output);
    assert!(told.contains("true: cannot be started: Argument list too long"), "{told}");
    assert!(told.contains("one argument may have 128 KiB"), "{told}");
}

/// As xargs does. What has no room is the next command's, and none is lost.
#[test]
fn a_line_that_would_be_too_long_has_fewer_arguments() {
    let numbers: Vec<_> = (1..=400_000).map(|number| number.to_string()).collect();
    let input = numbers.join("\n");
    for words in [&["echo"][..], &["sh", "-c", "echo {}"]] {
        let args = [&["-k", "-n", "400000", "--"], words].concat();
        let output = run(&args, input.as_bytes());
        check_code(&output, 0);
        assert!(printed(&output).split_whitespace().eq(&numbers), "{words:?}");
    }
    let output = run(&["-n", "400000", "--", "echo", "{1}", "{2}", "{}"], input.as_bytes());
    check_code(&output, 126);
    assert!(stderr(&output).contains("Argument list too long"), "{}", stderr(&output));
}

/// As xargs and shells do.
#[test]
fn a_script_that_does_not_say_who_reads_it_is_read_by_sh() {
    let folder = tempfile::tempdir().unwrap();
    // Not written here: a child that another test starts meanwhile would have it open for writing.
    let write = "echo 'echo $# $1' > script; chmod 755 script";
    let mut shell = Command::new("sh");
    assert!(shell.args(["-c", write]).current_dir(folder.path()).status().unwrap().success());
    for more in [&[][..], &["--line-buffer"], &["-u"]] {
        let output = run_in(folder.path(), &[more, &["./script", ":::", "a b"]].concat(), b"");
        check_code(&output, 0);
        assert_eq!(printed(&output), "1 a b\n");
    }
}

/// As of a script that was written where lines end with a carriage return.
#[test]
fn a_script_whose_interpreter_is_missing_is_told_of_as_one() {
    let folder = tempfile::tempdir().unwrap();
    // As above.
    let write = "printf '#!/bin/sh\\r\\necho a\\r\\n' > script; chmod 755 script";
    let mut shell = Command::new("sh");
    assert!(shell.args(["-c", write]).current_dir(folder.path()).status().unwrap().success());
    let path = std::env::var("PATH").unwrap();
    for name in ["./script", "script"] {
        let mut command = command(folder.path(), &[name, ":::", "a"]);
        command.env("PATH", format!("{}:{path}", folder.path().display()));
        let output = command.output().unwrap();
        check_code(&output, 127);
        let told = stderr(&output);
        assert!(told.contains("the interpreter that it asks for is not"), "{told}");
        assert!(!told.contains("no such program"), "{told}");
    }
    let output = run_in(folder.path(), &["./none", ":::", "a"], b"");
    check_code(&output, 127);
    assert!(stderr(&output).contains("there is no such program"), "{}", stderr(&output));
}

#[test]
fn an_argument_with_a_zero_byte_is_told_of_with_the_remedy() {
    let output = run(&["true"], b"a\0b\0");
    check_code(&output, 126);
    assert!(stderr(&output).contains("true: an argument has a zero byte: -0 parts there"));
}

/// Those that run are ended for it, and are not what the exit code is about.
#[test]
fn output_that_cannot_be_written_ends_all_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let first = "if [ $0 = first ]; then echo text; else exec sleep 600; fi";
    let child = command(folder.path(), &["--", "sh", "-c", first, ":::", "other", "first"])
        .stdout(full)
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    check_code(&output, 1);
    assert!(stderr(&output).contains("cannot write: No space left"), "{}", stderr(&output));
}

/// It ran, so it is not run again.
#[test]
fn output_that_cannot_be_read_again_ends_all_with_1() {
    let folder = tempfile::tempdir().unwrap();
    // What is large is moved to a file without a name, which somebody makes shorter. With its last
    // byte it is large, so it is moved as a whole.
    let script = r#"echo ran >> runs
        head -c 4194305 /dev/zero
        while :; do
            for file in /proc/$PPID/fd/*; do
                case $(readlink $file) in "$TMPDIR"/*deleted*) ;; *) continue ;; esac
                [ $(stat -Lc %s $file) = 4194305 ] && : > $file && exit 0
            done
            sleep 0.01
        done"#;
    let args = ["--retries", "1", "--tag", "--", "sh", "-c", script, ":::", "1"];
    let output = command(folder.path(), &args).env("TMPDIR", folder.path()).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("cannot write: unexpected end of file"), "{said}");
    check_code(&output, 1);
    assert_eq!(fs::read_to_string(folder.path().join("runs")).unwrap(), "ran\n");
}

/// As above, where each line is written when it comes.
#[test]
fn lines_that_cannot_be_written_end_all_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let script = "echo ran >> runs; echo text; exec sleep 600";
    let args = ["--retries", "1", "--line-buffer", "--", "sh", "-c", script, ":::", "1"];
    let output = command(folder.path(), &args).stdout(full).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    check_code(&output, 1);
    assert!(stderr(&output).contains("cannot write: No space left"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(folder.path().join("runs")).unwrap(), "ran\n");
}
