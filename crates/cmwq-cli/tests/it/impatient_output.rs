//! Standard output that is set not to wait (`O_NONBLOCK`), as ssh, or a program on an event loop,
//! leaves it to those who share it.

use std::fs;
use std::io::{self, Read as _};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use crate::support::{sum, tree};

/// What it writes into such a pipe, which is read only when it is full; as lines.
fn lines(mut command: Command) -> (ExitStatus, usize) {
    let (mut reader, writer) = io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    let ours = writer.try_clone().unwrap();
    let mut child = command.stdout(writer).spawn().unwrap();
    // It has the pipe, and would keep it open.
    drop(command);
    let patience = Instant::now() + Duration::from_secs(200);
    while poll(&mut [PollFd::new(&ours, PollFlags::OUT)], Some(&Timespec::default())) == Ok(1) {
        assert!(Instant::now() < patience, "it does not write enough");
        thread::sleep(Duration::from_millis(1));
    }
    drop(ours);
    let mut written = Vec::new();
    reader.read_to_end(&mut written).unwrap();
    (child.wait().unwrap(), written.iter().filter(|byte| **byte == b'\n').count())
}

#[test]
fn checksums_wait_for_it() {
    const FILES: usize = 3_000;
    let tree = tree(&[]);
    for number in 0..FILES {
        fs::write(tree.path().join(format!("{number:0100}")), "").unwrap();
    }
    let (status, lines) = lines(sum(tree.path()));
    assert!(status.success(), "{status}");
    assert_eq!(lines, FILES);
}

#[test]
fn simulated_events_wait_for_it() {
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
        command.args(["sim", "--seed", "7", "--items", "3000", "--events"]);
        command
    };
    let all = command().output().unwrap().stdout;
    let (status, lines) = lines(command());
    assert!(status.success(), "{status}");
    assert_eq!(lines, all.iter().filter(|byte| **byte == b'\n').count());
}
