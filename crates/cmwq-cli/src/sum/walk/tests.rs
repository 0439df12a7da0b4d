//! What happens to names whose files change between the listing and the opening: the race itself,
//! without the luck.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc::channel;

use rustix::fs::{CWD, FileType, Mode, mkfifoat};
use rustix::io::Errno;

use super::super::lines::hex;
use super::*;

/// SHA-256 of "abc", from FIPS 180-4.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// Lists a directory with the files `a`, `b` and `c`, all "abc", lets `change` do its worst, hashes
/// what was listed, and returns the merged outcome, paths relative to the directory.
fn listed_then(change: impl FnOnce(&Path)) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        fs::write(directory.path().join(name), "abc").unwrap();
    }
    let (results, received) = channel();
    let (alive, ended) = channel();
    let queue = Queue::new().unwrap();
    let walk =
        Arc::new(Walk { results, counters: Arc::default(), queue: queue.clone(), _alive: alive });

    let path: Arc<Path> = directory.path().into();
    let fd = files::open_directory(&path, true).unwrap();
    let names = walk.list(&path, fd.as_fd(), &mut Outcome::default());
    assert_eq!(names.len(), 3);
    change(directory.path());
    walk.files(&Place::Directory(path), names);
    drop(walk);
    let _ = ended.recv();

    let mut outcome = Outcome::merge(received.try_iter());
    let prefix = directory.path().as_os_str().as_bytes().len() + 1;
    let paths = outcome.checksums.iter_mut().map(|checksum| &mut checksum.path);
    for path in paths.chain(outcome.notes.iter_mut().map(|note| &mut note.path)) {
        *path = path[prefix..].into();
    }
    outcome
}

/// The names hashed. Each must have had the content it was made with.
fn hashed(outcome: &Outcome) -> Vec<&str> {
    for checksum in &outcome.checksums {
        assert_eq!(hex(&checksum.sha256), ABC);
    }
    outcome.checksums.iter().map(|checksum| text(&checksum.path)).collect()
}

fn notes(outcome: &Outcome) -> Vec<(&str, Problem)> {
    outcome.notes.iter().map(|note| (text(&note.path), note.problem)).collect()
}

fn text(path: &[u8]) -> &str {
    std::str::from_utf8(path).unwrap()
}

#[test]
fn a_vanished_file_is_an_error_and_the_rest_is_done() {
    let outcome = listed_then(|directory| fs::remove_file(directory.join("b")).unwrap());
    assert_eq!(hashed(&outcome), ["a", "c"]);
    assert_eq!(notes(&outcome), [("b", Problem::Failed(Errno::NOENT))]);
}

#[test]
fn a_vanished_directory_is_an_error_for_each_of_its_files() {
    let outcome = listed_then(|directory| fs::remove_dir_all(directory).unwrap());
    let gone = Problem::Failed(Errno::NOENT);
    assert_eq!(notes(&outcome), [("a", gone), ("b", gone), ("c", gone)]);
}

#[test]
fn a_file_replaced_by_a_fifo_is_skipped_without_waiting_for_a_writer() {
    let (send, received) = channel();
    std::thread::spawn(move || {
        send.send(listed_then(|directory| {
            fs::remove_file(directory.join("b")).unwrap();
            mkfifoat(CWD, directory.join("b"), Mode::RUSR).unwrap();
        }))
    });
    // LIMIT: far beyond what it takes; a test that failed would otherwise not end.
    let outcome = received.recv_timeout(Duration::from_secs(60)).expect("waits for a writer");
    assert_eq!(hashed(&outcome), ["a", "c"]);
    assert_eq!(notes(&outcome), [("b", Problem::Skipped(FileType::Fifo))]);
}

#[test]
fn a_file_replaced_by_a_socket_is_skipped() {
    let outcome = listed_then(|directory| {
        fs::remove_file(directory.join("b")).unwrap();
        std::os::unix::net::UnixListener::bind(directory.join("b")).unwrap();
    });
    assert_eq!(hashed(&outcome), ["a", "c"]);
    assert_eq!(notes(&outcome), [("b", Problem::Skipped(FileType::Socket))]);
}

#[test]
fn a_file_replaced_by_a_symbolic_link_is_not_followed() {
    let outcome = listed_then(|directory| {
        fs::remove_file(directory.join("b")).unwrap();
        symlink("a", directory.join("b")).unwrap();
    });
    assert_eq!(hashed(&outcome), ["a", "c"]);
    assert_eq!(notes(&outcome), []);
}

#[test]
fn a_file_replaced_by_a_directory_is_searched() {
    let outcome = listed_then(|directory| {
        fs::rename(directory.join("b"), directory.join("d")).unwrap();
        fs::create_dir(directory.join("b")).unwrap();
        fs::rename(directory.join("d"), directory.join("b/d")).unwrap();
    });
    assert_eq!(hashed(&outcome), ["a", "b/d", "c"]);
    assert_eq!(notes(&outcome), []);
}
