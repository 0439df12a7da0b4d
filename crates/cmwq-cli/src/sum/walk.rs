//! The parallel walk: every directory to list and every batch of files to hash is one work item.
//!
//! Both block (on `readdir`, `open` and `read`) and both burn CPU, so no number of threads is right
//! for them; the managed queue keeps as many running as there are CPUs. An item holds a path, never
//! a file descriptor, while it waits, and hands its results over once, at its end. What grows with
//! the tree: about 150 bytes per file for its result, and the names that were found but not hashed
//! yet.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, RawDir};

use super::digest::digest;
use super::files::{self, Opened};
use super::names::Names;
use super::outcome::{Checksum, Outcome, Problem};
use super::place::{Directory, OpenPlace, Place};
use super::progress::{Counters, Progress};
use super::queue::{Load, Queue};

// LIMIT: small enough to share a directory among CPUs, large enough that queueing costs nothing
// beside it.
const BATCH: usize = 64;

/// A file of this size is worth an item of its own: the rest of its batch is queued before it is
/// read.
const LONG_FILE: u64 = 512 << 10;

/// A batch that takes longer than this has large files or waits for a disk: half of its rest is
/// queued, to be hashed or to wait beside it.
const SLOW_BATCH: Duration = Duration::from_millis(1);

/// The buffer for one reading of a directory.
const LISTING: usize = 32 << 10;

/// All that a walk brought back.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) outcome: Outcome,
    pub(crate) directories: u64,
    pub(crate) load: Load,
}

/// Hashes every regular file below `paths`, showing `progress` meanwhile.
pub(crate) fn run(paths: &[OsString], progress: &Progress) -> Result<Walked, cmwq::Error> {
    let queue = Queue::new()?;
    let counters = Arc::new(Counters::default());
    let (results, received) = channel();
    let (alive, ended) = channel();
    let walk =
        Walk { results, counters: Arc::clone(&counters), queue: queue.clone(), _alive: alive };
    let walk = Arc::new(walk);
    Counters::add(&counters.found, paths.len() as u64);
    for chunk in paths.chunks(BATCH) {
        let mut names = Names::default();
        chunk.iter().for_each(|path| names.push(path.as_bytes()));
        walk.queue_files(Place::Arguments, names);
    }
    drop(walk);
    progress.until(&ended, &counters);
    // Fetched only now: a receiver that waits would have to be woken for every item.
    let outcome = Outcome::merge(received.try_iter());
    Ok(Walked { outcome, directories: Counters::get(&counters.directories), load: queue.load() })
}

/// What all items share.
#[derive(Debug)]
struct Walk {
    results: Sender<Outcome>,
    counters: Arc<Counters>,
    queue: Queue,
    /// Nothing is ever sent: the channel closes with the last item. It must be the last field, so
    /// that `run` goes on, and drops its own handle of the queue, only after the handle above is
    /// gone.
    _alive: Sender<Infallible>,
}

impl Walk {
    fn queue_files(self: &Arc<Self>, place: Place, names: Names) {
        self.queue.push(Arc::clone(self), move |walk| walk.files(&place, names));
    }

    fn queue_directory(self: &Arc<Self>, directory: Directory) {
        self.queue.push(Arc::clone(self), move |walk| walk.directory(directory));
    }

    /// Work item: lists a directory. Its last, partial batch is hashed at once: most directories
    /// are one item.
    fn directory(self: &Arc<Self>, directory: Directory) {
        Counters::add(&self.counters.directories, 1);
        let mut outcome = Outcome::default();
        match directory.open() {
            Ok(fd) => {
                let names = self.list(&directory, fd.as_fd(), &mut outcome);
                self.hash_all(&Place::Directory(directory).opened_as(fd), names, &mut outcome);
            }
            Err(errno) => outcome.note(directory.bytes(), Problem::Failed(errno)),
        }
        self.hand_over(outcome);
    }

    /// Work item: hashes a batch of files.
    fn files(self: &Arc<Self>, place: &Place, mut names: Names) {
        let mut outcome = Outcome::default();
        match place.open() {
            Ok(place) => self.hash_all(&place, names, &mut outcome),
            Err(errno) => {
                Counters::add(&self.counters.done, names.len() as u64);
                while let Some(name) = names.next() {
                    outcome.note(place.join(name), Problem::Failed(errno));
                }
            }
        }
        self.hand_over(outcome);
    }

    /// Reads the directory `fd`, queues what is below it and every full batch of its files, and
    /// returns the files left.
    fn list(
        self: &Arc<Self>,
        directory: &Directory,
        fd: BorrowedFd<'_>,
        outcome: &mut Outcome,
    ) -> Names {
        let place = Place::Directory(directory.clone());
        let mut names = Names::default();
        let mut buffer = Vec::with_capacity(LISTING);
        let mut entries = RawDir::new(fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => {
                    outcome.note(directory.bytes(), Problem::Failed(errno));
                    break;
                }
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => files::entry_kind(fd, name),
                known => Ok(known),
            };
            match kind {
                Ok(FileType::RegularFile) => names.push(name.to_bytes()),
                Ok(other) => self.other(&place, place.join(name), other, outcome),
                Err(errno) => outcome.note(place.join(name), Problem::Failed(errno)),
            }
            if names.len() == BATCH {
                Counters::add(&self.counters.found, BATCH as u64);
                self.queue_files(place.clone(), std::mem::take(&mut names));
            }
        }
        Counters::add(&self.counters.found, names.len() as u64);
        names
    }

    /// Hashes `names` one after the other, sharing out the rest when that takes long.
    fn hash_all(self: &Arc<Self>, place: &OpenPlace<'_>, mut names: Names, outcome: &mut Outcome) {
        let mut since = Instant::now();
        while let Some(name) = names.next() {
            let path = place.place().join(name);
            match place.open(name) {
                Ok(Opened::File(file, size)) => {
                    if size >= LONG_FILE {
                        self.share(place.place(), &mut names, usize::MAX);
                    }
                    self.hash(path, &file, outcome);
                    Counters::add(&self.counters.done, 1);
                }
                Ok(Opened::Other(kind)) => {
                    Counters::take_back(&self.counters.found, 1);
                    self.other(place.place(), path, kind, outcome);
                }
                Err(errno) => {
                    outcome.note(path, Problem::Failed(errno));
                    Counters::add(&self.counters.done, 1);
                }
            }
            if names.len() > 1 && since.elapsed() > SLOW_BATCH {
                let half = names.len() / 2;
                self.share(place.place(), &mut names, half);
                since = Instant::now();
            }
        }
    }

    fn hash(&self, path: Box<[u8]>, file: impl AsFd, outcome: &mut Outcome) {
        match digest(file, |count| Counters::add(&self.counters.bytes, count)) {
            Ok((bytes, sha256)) => outcome.checksums.push(Checksum { path, bytes, sha256 }),
            Err(errno) => outcome.note(path, Problem::Failed(errno)),
        }
    }

    /// Queues the last `count` of `names` as an item of their own.
    fn share(self: &Arc<Self>, place: &Place, names: &mut Names, count: usize) {
        if let Some(rest) = names.split_off(count) {
            self.queue_files(place.clone(), rest);
        }
    }

    /// Deals with what is no regular file, by its path in that place.
    fn other(
        self: &Arc<Self>,
        place: &Place,
        path: Box<[u8]>,
        kind: FileType,
        outcome: &mut Outcome,
    ) {
        match kind {
            FileType::Directory => self.queue_directory(place.directory(&path)),
            // Not followed, as by `find -type f`, and so common that messages would drown the
            // others.
            FileType::Symlink => {}
            _ => outcome.note(path, Problem::Skipped(kind)),
        }
    }

    fn hand_over(&self, outcome: Outcome) {
        Counters::add(&self.counters.errors, outcome.errors() as u64);
        // The receiver outlives every item.
        let _ = self.results.send(outcome);
    }
}

#[cfg(test)]
mod tests;
