//! The progress bar: on a terminal, and nowhere else.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::support::{Lease, check_code, printed_paths, stderr, sum, tree};

/// A new terminal: the side of its user, and the side of a program.
pub(crate) fn terminal() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let user = openpt(flags).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let program = ioctl_tiocgptpeer(&user, flags).unwrap();
    (File::from(user), program)
}

/// Reads until `wanted` was seen, the other side is closed, or nothing has come for a minute;
/// returns all.
pub(crate) fn read_until(terminal: &mut File, wanted: &str) -> String {
    let (mut seen, mut buffer) = (String::new(), [0; 4096]);
    while !seen.contains(wanted) && has_more(terminal) {
        match terminal.read(&mut buffer) {
            Ok(count) if count > 0 => seen += &String::from_utf8_lossy(&buffer[..count]),
            _ => break,
        }
    }
    seen
}

fn has_more(terminal: &File) -> bool {
    let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
    let mut fds = [PollFd::new(terminal, PollFlags::IN)];
    poll(&mut fds, Some(&minute)).is_ok_and(|ready| ready > 0)
}

#[test]
fn a_terminal_shows_files_and_bytes() {
    let tree = tree(&["a", "held"]);
    let Some(lease) = Lease::take(&tree.path().join("held")) else { return };
    let (mut user, program) = terminal();
    let mut command = sum(tree.path());
    command.args(["a", "held"]).env("TERM", "xterm").env_remove("NO_COLOR");
    let child = command.stdout(Stdio::piped()).stderr(program).spawn().unwrap();
    // The command holds the other copy of the terminal's side: its end is the end of what can be
    // read.
    drop(command);
    let shown = read_until(&mut user, "1/2 files, 100 B");
    assert!(shown.contains("1/2 files, 100 B"), "{shown:?}");
    lease.give_back();
    let rest = read_until(&mut user, "nothing else: read to the end");
    let output = child.wait_with_output().unwrap();
    check_code(&output, 0);
    assert_eq!(printed_paths(&output), ["a", "held"]);
    assert!(rest.contains("\x1b[2K"), "not taken away: {rest:?}");
}

#[test]
fn a_pipe_shows_nothing() {
    let tree = tree(&["a", "held"]);
    let Some(lease) = Lease::take(&tree.path().join("held")) else { return };
    let mut command = sum(tree.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    lease.wait_until_wanted();
    lease.give_back();
    let output = child.wait_with_output().unwrap();
    check_code(&output, 0);
    assert_eq!(stderr(&output), "");
}
