//! Control servers that keep their client busy.

use std::io::Write as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

use super::{MEMORY, Outcome, run};

const GREETING: &[u8] = b"cmwq-control 1 1\n";

/// A server for one client, which goes on until the client has hung up.
struct Server {
    _directory: TempDir,
    path: PathBuf,
    thread: JoinHandle<()>,
}

impl Server {
    fn new(serve: impl FnOnce(UnixStream) -> std::io::Result<()> + Send + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let thread = thread::spawn(move || {
            // It ends by an error: the client hangs up.
            let _ = serve(listener.accept().unwrap().0);
        });
        Self { _directory: directory, path, thread }
    }

    /// What `cmwq set` makes of it, with a second of patience.
    fn asked(self, arguments: &[&str]) -> Outcome {
        let socket = self.path.to_str().unwrap();
        let fixed = ["set", "--timeout", "1", "--socket", socket, "-"];
        let outcome = run(&[&fixed, arguments].concat(), MEMORY / 4);
        self.thread.join().unwrap();
        outcome
    }
}

/// Sends the piece again and again, with pauses.
fn drip(mut to: UnixStream, piece: &[u8]) -> std::io::Result<()> {
    loop {
        to.write_all(piece)?;
        thread::sleep(Duration::from_millis(100));
    }
}

#[track_caller]
fn in_time(outcome: &Outcome) {
    outcome.refused("has not answered in time");
    // One second was asked for; the rest is a busy machine's.
    assert!(outcome.took < Duration::from_secs(15), "it took {:?}", outcome.took);
}

#[test]
fn a_greeting_that_comes_byte_by_byte_is_not_waited_for() {
    in_time(&Server::new(|to| drip(to, b"c")).asked(&["--list"]));
}

#[test]
fn an_answer_that_never_ends_is_not_waited_for() {
    let server = Server::new(|mut to| {
        to.write_all(GREETING)?;
        drip(to, b"= disk nice rw 0\n")
    });
    in_time(&server.asked(&["--list"]));
}

#[test]
fn many_answers_that_each_take_long_are_not_waited_for() {
    let server = Server::new(|mut to| {
        to.write_all(GREETING)?;
        // Each is in time by itself.
        drip(to, b"ok 1\n")
    });
    let assignments = ["disk"].into_iter().chain(std::iter::repeat_n("nice=1", 500));
    in_time(&server.asked(&assignments.collect::<Vec<_>>()));
}

#[test]
fn gigabytes_are_not_taken() {
    let server = Server::new(|mut to| {
        to.write_all(GREETING)?;
        let line = format!("= disk nice rw {}\n", "x".repeat(60 << 10));
        let lines = line.repeat(16);
        loop {
            to.write_all(lines.as_bytes())?;
        }
    });
    let outcome = server.asked(&["--list"]);
    assert_eq!(outcome.status.code(), Some(1), "{:?}: {}", outcome.status, outcome.stderr);
    assert!(outcome.took < Duration::from_secs(15), "it took {:?}", outcome.took);
}

#[test]
fn what_a_server_says_sends_nothing_to_the_terminal() {
    for said in ["error no-\u{202e}queue \u{2066}evil\u{9b}31m", "ok \u{202e}8\u{feff}", "\u{202e}"]
    {
        let said = format!("{said}\n");
        let server = Server::new(move |mut to| {
            to.write_all(GREETING)?;
            to.write_all(said.as_bytes())?;
            drip(to, said.as_bytes())
        });
        let outcome = server.asked(&["disk", "nice=1"]);
        super::forge::check_harmless("set", &(outcome.stdout + &outcome.stderr));
    }
}
