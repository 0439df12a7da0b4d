//! What `cmwq run` does with what commands write.

use std::time::Instant;

use super::{PATIENCE, prints, run};
use crate::support::check_code;

/// As to a pipe.
#[test]
fn what_is_written_to_standard_output_by_name_comes_behind() {
    let script = "echo one; echo two >> /dev/stdout; echo three; echo four >> /dev/stdout";
    prints(&["sh", "-c", script, ":::", "a"], b"", "one\ntwo\nthree\nfour\n");
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
    let script = r#"ulimit -v 900000; exec "$0" run --tag sh -c 'yes | head -c {}' ::: 300000000"#;
    let mut command = std::process::Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_cmwq")]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let lines = std::io::copy(&mut out, &mut std::io::sink()).unwrap() / 12;
    check_code(&child.wait_with_output().unwrap(), 0);
    assert_eq!(lines, 150_000_000);
}
