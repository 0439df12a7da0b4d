//! What happens to names whose files change between the listing and the opening: the race itself,
//! without the luck.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc::channel;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, mkfifoat, openat2};
use rustix::io::Errno;

use super::super::lines::hex;
use super::super::outcome::Note;
use super::*;

/// SHA-256 of "abc", from FIPS 180-4.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// The files `a`, `b` and `c` in a new directory.
fn three_files(directory: &Path, content: &str) {
    fs::create_dir_all(directory).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(directory.join(name), content).unwrap();
    }
}

/// Lists a directory with the files `a`, `b` and `c`, all "abc", two levels below the one that was
/// named, lets `change` do its worst, hashes what was listed, and returns the merged outcome, paths
/// relative to the directory.
fn listed_then(change: impl FnOnce(&Path)) -> Outcome {
    let named = tempfile::tempdir().unwrap();
    let directory = named.path().join("above/here");
    three_files(&directory, "abc");
    let (results, received) = channel();
    let (alive, ended) = channel();
    let queue = Queue::new().unwrap();
    let walk =
        Arc::new(Walk { results, counters: Arc::default(), queue: queue.clone(), _alive: alive });

    let bytes = directory.as_os_str().as_bytes();
    let top = Place::Directory(Directory::named(named.path().as_os_str().as_bytes()));
    let listed = top.directory(bytes);
    let fd = listed.open().unwrap();
    let names = walk.list(&listed, fd.as_fd(), &mut Outcome::default());
    assert_eq!(names.len(), 3);
    change(&directory);
    walk.files(&Place::Directory(listed), names);
    drop(walk);
    let _ = ended.recv();

    let mut outcome = Outcome::merge(received.try_iter());
    let prefix = bytes.len() + 1;
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

/// What lies behind the link is not in the tree that was named.
#[test]
fn a_directory_replaced_by_a_symbolic_link_is_not_followed() {
    let outcome = listed_then(|directory| {
        let other = directory.with_file_name("other");
        three_files(&other, "other");
        fs::rename(directory, directory.with_file_name("gone")).unwrap();
        symlink(other, directory).unwrap();
    });
    // What is said is the kernel's affair.
    let failed = |note: &Note| matches!(note.problem, Problem::Failed(Errno::LOOP | Errno::NOTDIR));
    assert!(hashed(&outcome).is_empty());
    assert_eq!(outcome.notes.iter().filter(|note| failed(note)).count(), 3, "{outcome:?}");
}

/// Nor is one in which the directory lies, where the system can tell.
#[test]
fn a_directory_above_replaced_by_a_symbolic_link_is_not_followed() {
    let tried = openat2(CWD, ".", OFlags::PATH, Mode::empty(), ResolveFlags::BENEATH);
    if matches!(tried, Err(Errno::NOSYS | Errno::PERM)) {
        return;
    }
    let outcome = listed_then(|directory| {
        let above = directory.parent().unwrap();
        let other = above.with_file_name("other");
        three_files(&other.join("here"), "other");
        fs::rename(above, above.with_file_name("gone")).unwrap();
        symlink(other, above).unwrap();
    });
    let failed = Problem::Failed(Errno::LOOP);
    assert_eq!(notes(&outcome), [("a", failed), ("b", failed), ("c", failed)]);
    assert!(hashed(&outcome).is_empty());
}

/// Whatever lies in the way to what the user named, and where that is a link itself.
#[test]
fn links_in_what_was_named_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    three_files(&folder.path().join("real/here/below"), "abc");
    symlink("real/here", folder.path().join("link")).unwrap();
    let named = folder.path().join("link");
    let walked = run(&[named.clone().into()], &Progress::on_stderr()).unwrap();
    let below = |name: &str| named.join("below").join(name).into_os_string().into_encoded_bytes();
    let found: Vec<_> = walked.outcome.checksums.iter().map(|one| one.path.to_vec()).collect();
    assert_eq!(found, ["a", "b", "c"].map(below));
}
