//! What `cmwq run` does with what commands write.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use super::signals::state;
use super::{PATIENCE, command, eventually, is_full, printed, prints, run, run_in};
use crate::support::{check_code, stderr};

/// As to a pipe.
#[test]
fn what_is_written_to_standard_output_by_name_comes_behind() {
    let script = "echo one; echo two >> /dev/stdout; echo three; echo four >> /dev/stdout";
    prints(&["sh", "-c", script, ":::", "a"], b"", "one\ntwo\nthree\nfour\n");
}

/// What is opened anew to be written from its beginning is a pipe.
#[test]
fn what_is_written_to_standard_output_by_name_takes_nothing_away() {
    let script = "echo one >/dev/stderr; echo two >/dev/stderr; echo a; echo b >/dev/stdout";
    for how in [&[][..], &["-k"], &["--timeout", "600"], &["--line-buffer"], &["-u"]] {
        let output = run(&[how, &["sh", "-c", script, ":::", "x"]].concat(), b"");
        check_code(&output, 0);
        assert_eq!((printed(&output), stderr(&output)), ("a\nb\n", "one\ntwo\n"), "{how:?}");
    }
}

/// It has the pipe for its output as well.
#[test]
fn what_a_command_leaves_behind_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sleep 600 & echo $! >pid; echo a";
    let output = run_in(folder.path(), &["sh", "-c", script, ":::", "x"], b"");
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    let ended = Command::new("kill").arg(pid.trim()).status().unwrap();
    check_code(&output, 0);
    assert_eq!(printed(&output), "a\n");
    assert!(ended.success(), "it was there");
}

/// Searched once, it takes a moment; searched again with each part, minutes.
#[test]
fn a_line_of_megabytes_is_passed_on() {
    let begin = Instant::now();
    let output = run(&["--line-buffer", "head", "-c", "{}", "/dev/zero", ":::", "50000000"], b"");
    check_code(&output, 0);
    assert_eq!(output.stdout.len(), 50_000_001);
    assert!(begin.elapsed() < PATIENCE);
}

/// More than the address space that it has.
#[test]
fn tags_of_much_output_take_no_memory() {
    // The more the tag is, the fewer lines are more than the memory there is.
    let tag = format!("{:0>120}", 20_000_000);
    let script =
        format!(r#"ulimit -v 900000; exec "$0" run --tag sh -c 'yes | head -c {{}}' ::: {tag}"#);
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_cmwq")]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let size = std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    check_code(&child.wait_with_output().unwrap(), 0);
    assert_eq!(size, 10_000_000 * (120 + "\ty\n".len() as u64));
}

/// All but the first have ended, and wait for it.
#[test]
fn what_waits_for_its_turn_takes_little_memory() {
    const SIZE: usize = 60_000;
    const COUNT: usize = 600;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("ended")).unwrap();
    let script = "[ {} != 1 ] || while [ ! -e go ]; do sleep 0.01; done; \
                  head -c 60000 /dev/zero; echo {}; > ended/{}";
    let mut child =
        command(folder.path(), &["-k", "--joblog", "log", "sh", "-c", script]).spawn().unwrap();
    let numbers: String = (1..=COUNT).map(|number| format!("{number}\n")).collect();
    child.stdin.take().unwrap().write_all(numbers.as_bytes()).unwrap();
    let ended = || fs::read_dir(path("ended")).unwrap().count();
    eventually("the others end", || ended() == COUNT - 1);
    let log = fs::read_to_string(path("log")).unwrap();
    assert_eq!(log.lines().count(), 1, "what waits is not in the log");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    fs::write(path("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    check_code(&output, 0);
    let expected =
        (1..=COUNT).flat_map(|number| [vec![0; SIZE], format!("{number}\n").into_bytes()].concat());
    assert!(output.stdout == expected.collect::<Vec<u8>>(), "as it was written, in order");
    let held = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap().trim();
    let held: usize = held.strip_suffix(" kB").unwrap().parse().unwrap();
    assert!(held < 28 << 10, "{held} kB, of {} of output", COUNT * SIZE / 1024);
}

/// As `less` that nobody looks at for a while. Meanwhile nothing starts, and then all does.
#[test]
fn a_reader_who_takes_his_time_gets_all() {
    const SIZE: usize = 4_000_000;
    const COUNT: usize = 50;
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = command(Path::new("/"), &["head", "-c", "4000000", "--", "{}"]);
    let mut child = command.stdout(writer).spawn().unwrap();
    drop(command);
    child.stdin.take().unwrap().write_all("/dev/zero\n".repeat(COUNT).as_bytes()).unwrap();
    eventually("the reader has enough", || is_full(&reader));
    let read = std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
    check_code(&child.wait_with_output().unwrap(), 0);
    assert_eq!(read, (SIZE * COUNT) as u64);
}

/// Whoever writes no newline is heard all the same.
#[test]
fn a_line_that_has_no_end_is_printed_in_parts() {
    const SIZE: usize = 3_000_000;
    let folder = tempfile::tempdir().unwrap();
    let script = "head -c 3000000 /dev/zero; while [ ! -e go ]; do sleep 0.01; done; printf end";
    let args = ["--tag", "--line-buffer", "sh", "-c", script, ":::", "name"];
    let mut child = command(folder.path(), &args).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut first = vec![0; 1 << 20];
        out.read_exact(&mut first).unwrap();
        (out, first)
    });
    let begin = Instant::now();
    let comes = || reader.is_finished() || begin.elapsed() > PATIENCE / 4;
    eventually("it comes before its end", comes);
    let has_come = reader.is_finished();
    fs::write(folder.path().join("go"), "").unwrap();
    let (mut out, mut all) = reader.join().unwrap();
    out.read_to_end(&mut all).unwrap();
    check_code(&child.wait_with_output().unwrap(), 0);
    assert!(has_come);
    assert!(all == [b"name\t", &vec![0; SIZE][..], b"end\n"].concat(), "one tag, one end");
}

/// What the commands say there is dropped, and nothing else.
#[test]
fn a_reader_of_standard_error_that_goes_ends_nothing() {
    for how in [&[][..], &["-k"], &["--line-buffer"]] {
        let script = "echo said {} >&2; echo {}";
        let args = [how, &["--ordered", "sh", "-c", script, ":::", "a", "b", "c"]].concat();
        let mut child = command(Path::new("/"), &args).spawn().unwrap();
        drop(child.stderr.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), printed(&output)), (Some(0), "a\nb\nc\n"), "{how:?}");
    }
}

/// As of `2>&1 | head`.
#[test]
fn a_reader_of_both_that_goes_ends_it() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = command(Path::new("/"), &["sh", "-c", "echo said >&2", ":::", "a"]);
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    drop(reader);
    assert_eq!(command.status().unwrap().code(), Some(141));
}

/// As somebody leaves it who has it, too, and has an event loop.
#[test]
fn standard_output_that_does_not_wait_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("list"), vec![b'x'; 300_000]).unwrap();
    let zeroes = ["head", "-c", "300000", ":::", "/dev/zero"];
    for (args, len) in [
        (&zeroes[..], 300_000),
        (&[&["--line-buffer"][..], &zeroes].concat(), 300_001),
        (&[&["--tag"][..], &zeroes].concat(), 300_010),
        (&["--dry-run", "-0", "-a", "list", "echo"], 300_006),
    ] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
        let mut command = command(folder.path(), args);
        let child = command.stdout(writer).spawn().unwrap();
        drop(command);
        eventually("it has to wait", || is_full(&reader) || state(child.id()) == Some('Z'));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        check_code(&child.wait_with_output().unwrap(), 0);
        assert_eq!(read.len(), len, "{args:?}");
    }
}

/// The disk was full; of `-k`, also what waited for another's turn.
#[test]
fn what_could_not_be_written_is_made_again() {
    let waits = "[ {} = b ] || while [ ! -e ended.b ]; do sleep 0.01; done; echo {}; > ended.{}";
    for (how, first, all) in [
        (&[][..], "echo {}", "a\n"),
        (&["--line-buffer"], "echo {}", "a\n"),
        (&["-k"], waits, "a\nb\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let args = |more: &[&'static str]| {
            let call = ["--joblog", "log", "sh", "-c", first, ":::", "a", "b"];
            let len = if all.contains('b') { call.len() } else { call.len() - 1 };
            [more, how, &call[..len]].concat()
        };
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let status = command(folder.path(), &args(&[])).stdout(full).status().unwrap();
        assert_eq!(status.code(), Some(1), "{how:?}");
        let output = run_in(folder.path(), &args(&["--resume"]), b"");
        check_code(&output, 0);
        assert_eq!(printed(&output), all, "{how:?}");
        let output = run_in(folder.path(), &args(&["--resume"]), b"");
        assert_eq!((output.status.code(), printed(&output)), (Some(0), ""), "{how:?}");
    }
}

/// It writes faster than the reader of what is printed reads, so there is always more.
#[test]
fn what_is_left_behind_and_writes_for_ever_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let script = "yes & while [ ! -e go ]; do sleep 0.01; done";
    let args = ["--line-buffer", "--tag", "sh", "-c", script, ":::", "a"];
    let mut child = command(folder.path(), &args).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let begin = Instant::now();
    let mut one = [0];
    let mut has_end = || out.read(&mut one).unwrap() == 0;
    assert!(!has_end());
    fs::write(folder.path().join("go"), "").unwrap();
    let ended = loop {
        match has_end() {
            true => break true,
            false if begin.elapsed() > PATIENCE / 2 => break false,
            false => {}
        }
    };
    // Without a reader the other one ends, too.
    let _ = child.kill();
    assert!(ended, "it is not waited for");
    check_code(&child.wait_with_output().unwrap(), 0);
}

/// Without the tags, which are ours.
#[test]
fn the_log_counts_what_a_command_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let script = "yes | head -c {}";
    let args = ["-k", "--tag", "--joblog", "log", "sh", "-c", script, ":::", "2000", "200000"];
    check_code(&run_in(folder.path(), &args, b""), 0);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let mut received: Vec<_> = log.lines().skip(1).map(|l| l.split('\t').nth(5)).collect();
    received.sort_unstable();
    assert_eq!(received, [Some("2000"), Some("200000")], "{log}");
}
