//! What a command writes, until it is printed.
//!
//! Into files without names in memory: making files on a disk for each command takes longer than
//! starting some commands. What grows large is moved to a disk while the command runs, so memory
//! holds some megabytes of each.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{FallocateFlags, MemfdFlags, OFlags, fallocate, fcntl_setfl, memfd_create};

/// What is in memory of one file is moved to a disk when it is larger than this, in bytes.
const LARGE: u64 = 4 << 20;
/// So much is copied at once.
const CHUNK: u64 = 256 << 10;

/// One file.
#[derive(Debug)]
pub(super) struct Captured {
    /// Where the command writes. What was moved is a hole there.
    written: File,
    /// `false`: it is on a disk anyway.
    is_in_memory: bool,
    moved: Mutex<Moved>,
}

#[derive(Debug, Default)]
struct Moved {
    len: u64,
    disk: Option<File>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Captures(Mutex<Vec<Weak<Captured>>>);

impl Captures {
    /// A file to write to.
    ///
    /// # Errors
    /// If the system has neither memory nor a place for temporary files, or descriptors are scarce.
    pub(super) fn open(&self) -> io::Result<Arc<Captured>> {
        let captured = Arc::new(Captured::new()?);
        if captured.is_in_memory {
            self.lock().push(Arc::downgrade(&captured));
        }
        Ok(captured)
    }

    /// Moves to a disk what is large. To be called at intervals.
    pub(super) fn relieve(&self) {
        let mut all = Vec::new();
        self.lock().retain(|one| {
            all.extend(one.upgrade());
            one.strong_count() > 0
        });
        for one in all {
            // Where there is no room it stays in memory.
            let _ = one.relieve();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Captured>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Captured {
    fn new() -> io::Result<Self> {
        let (written, is_in_memory) = match memfd_create("output", MemfdFlags::CLOEXEC) {
            Ok(memory) => (File::from(memory), true),
            Err(_) => (tempfile::tempfile()?, false),
        };
        // As with a pipe, what is written to `/dev/stdout`, which is opened again, is not written
        // over.
        fcntl_setfl(&written, OFlags::APPEND)?;
        Ok(Self { written, is_in_memory, moved: Mutex::default() })
    }

    /// For the command.
    pub(super) fn for_command(&self) -> io::Result<File> {
        self.written.try_clone()
    }

    /// How much was written, in bytes.
    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(self.written.metadata()?.len())
    }

    /// Copies all of it.
    ///
    /// # Errors
    /// As of reading and writing, and if what was moved to the disk is not there any more.
    pub(super) fn copy_to(&self, to: &mut impl io::Write) -> io::Result<()> {
        let moved = self.lock();
        if let Some(disk) = &moved.disk
            && copy(disk, 0, moved.len, to)? < moved.len
        {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // A process that the command left behind may have made it shorter meanwhile.
        copy(&self.written, moved.len, self.len()?, to)?;
        Ok(())
    }

    /// All of it.
    pub(super) fn contents(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.copy_to(&mut bytes)?;
        Ok(bytes)
    }

    fn relieve(&self) -> io::Result<()> {
        let mut moved = self.lock();
        let (from, to) = (moved.len, self.len()?);
        if to.saturating_sub(from) <= LARGE {
            return Ok(());
        }
        let mut disk = match moved.disk.take() {
            Some(disk) => disk,
            None => tempfile::tempfile()?,
        };
        let copied = copy(&self.written, from, to, &mut disk);
        match &copied {
            Ok(len) => {
                moved.len += len;
                // Refused, it takes memory, and nothing is lost.
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = fallocate(&self.written, hole, from, *len);
            }
            // What was moved before is kept, whatever becomes of this.
            Err(_) => _ = io::Seek::seek(&mut disk, io::SeekFrom::Start(from)),
        }
        moved.disk = Some(disk);
        copied.map(|_| ())
    }

    fn lock(&self) -> MutexGuard<'_, Moved> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies a part of a file, as far as it reaches: so many bytes.
pub(super) fn copy(file: &File, start: u64, end: u64, to: &mut impl io::Write) -> io::Result<u64> {
    let mut from = start;
    let mut buffer = vec![0; usize::try_from(end.saturating_sub(from).min(CHUNK)).unwrap_or(0)];
    while from < end {
        let len = buffer.len().min(usize::try_from(end - from).unwrap_or(usize::MAX));
        match file.read_at(&mut buffer[..len], from) {
            Ok(0) => break,
            Ok(len) => {
                to.write_all(&buffer[..len])?;
                from += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(from - start)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// Bytes that tell where they are.
    fn pattern(len: u64) -> Vec<u8> {
        (0..len / 8).flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn what_is_large_leaves_memory_and_nothing_is_lost() {
        let captures = Captures::default();
        let captured = captures.open().unwrap();
        let mut command = captured.for_command().unwrap();
        let all = pattern(3 * LARGE);
        let mut given = 0;
        for part in [LARGE, LARGE + 8, LARGE - 16] {
            let part = usize::try_from(part).unwrap();
            command.write_all(&all[given..given + part]).unwrap();
            given += part;
            captures.relieve();
        }
        assert_eq!(captured.len().unwrap(), given as u64);
        assert!(captured.contents().unwrap() == all[..given], "as it was written");
        if captured.is_in_memory {
            let moved = captured.lock().len;
            assert_eq!(moved, 2 * LARGE + 8, "the first part alone is not large");
            let held = captured.written.metadata().unwrap().blocks() * 512;
            assert!(held < 2 * LARGE, "{held} bytes are held in memory");
        }
    }

    #[test]
    fn what_was_moved_and_has_gone_is_an_error() {
        let captured = Captured::new().unwrap();
        let all = pattern(2 * LARGE);
        captured.for_command().unwrap().write_all(&all).unwrap();
        captured.relieve().unwrap();
        assert!(captured.contents().unwrap() == all);
        if let Some(disk) = &captured.lock().disk {
            disk.set_len(LARGE).unwrap();
        } else {
            panic!("nothing was moved");
        }
        assert_eq!(captured.contents().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    /// As by a process that the command left behind.
    #[test]
    fn what_is_made_shorter_is_moved_as_far_as_it_reaches() {
        let captured = Captured::new().unwrap();
        let mut command = captured.for_command().unwrap();
        let all = pattern(2 * LARGE);
        command.write_all(&all).unwrap();
        captured.relieve().unwrap();
        command.set_len(LARGE).unwrap();
        captured.relieve().unwrap();
        assert!(captured.contents().unwrap() == all, "what was moved is kept");
    }

    #[test]
    fn those_that_are_done_with_are_forgotten() {
        let captures = Captures::default();
        let (one, other) = (captures.open().unwrap(), captures.open().unwrap());
        drop(one);
        captures.relieve();
        assert!(captures.lock().len() <= 1);
        drop(other);
        captures.relieve();
        assert_eq!(captures.lock().len(), 0);
    }
}
