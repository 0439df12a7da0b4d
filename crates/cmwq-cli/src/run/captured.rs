//! What a command writes, until it is printed.
//!
//! Through a pipe: what is opened anew by name, as in `echo … >/dev/stderr`, cuts off a file, and
//! not a pipe. It is kept in memory; what grows large is moved to a disk while the command runs, so
//! memory holds some megabytes of each.

use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::captures::Captures;
use super::pipe::Pipe;

/// What is in memory of one stream is moved to a disk when it is larger than this, in bytes.
const LARGE: usize = 4 << 20;
/// So much is copied at once.
const CHUNK: u64 = 256 << 10;

/// Standard output or standard error of one command.
#[derive(Debug)]
pub(super) struct Captured {
    captures: Arc<Captures>,
    number: u64,
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    /// Until the command has ended.
    pipe: Option<Pipe>,
    /// Behind what was moved.
    bytes: Vec<u8>,
    disk: Option<File>,
    /// So much of it is there.
    moved: u64,
    /// There was no room for so much, and it is not tried again before there is more.
    refused: usize,
}

impl Captured {
    /// One that `captures` knows by this number.
    pub(super) fn new(captures: Arc<Captures>, number: u64, pipe: Pipe) -> Self {
        let (pipe, bytes) = (Some(pipe), Vec::new());
        let taken = Mutex::new(Taken { pipe, bytes, disk: None, moved: 0, refused: 0 });
        Self { captures, number, taken }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the command has written, as far as `room` has room for it: so many bytes. It does
    /// not wait: one that has ended just now may be held by whoever prints it, for as long as a
    /// reader takes, and nothing more is heard of its pipe.
    pub(super) fn take(&self, room: &mut Vec<u8>) -> usize {
        let mut taken = match self.taken.try_lock() {
            Err(TryLockError::WouldBlock) => return 0,
            Err(TryLockError::Poisoned(taken)) => taken.into_inner(),
            Ok(taken) => taken,
        };
        let Some(pipe) = &taken.pipe else { return 0 };
        room.clear();
        let len = pipe.read_into(room);
        taken.bytes.extend_from_slice(room);
        taken.relieve();
        len
    }

    /// The command has ended: what has come is all. Who was left behind by it has nobody who reads.
    pub(super) fn end(&self) {
        let mut taken = self.lock();
        let Some(pipe) = taken.pipe.take() else { return };
        self.captures.leave(&pipe);
        let mut left = pipe.unread();
        while left > 0 {
            taken.bytes.reserve(left);
            match pipe.read_into(&mut taken.bytes) {
                0 => break,
                len => left = left.saturating_sub(len),
            }
        }
        taken.relieve();
    }

    /// How much was written, in bytes.
    pub(super) fn len(&self) -> u64 {
        let taken = self.lock();
        taken.moved + taken.bytes.len() as u64
    }

    /// Whether a part of it is on a disk.
    pub(super) fn is_on_disk(&self) -> bool {
        self.lock().disk.is_some()
    }

    /// Takes out what is in memory.
    pub(super) fn take_bytes(&self) -> Vec<u8> {
        let mut bytes = mem::take(&mut self.lock().bytes);
        bytes.shrink_to_fit();
        bytes
    }

    /// Copies all of it.
    ///
    /// # Errors
    /// As of reading and writing, and if what was moved to the disk is not there any more.
    pub(super) fn copy_to(&self, to: &mut impl io::Write) -> io::Result<()> {
        let taken = self.lock();
        if let Some(disk) = &taken.disk
            && copy(disk, 0, taken.moved, to)? < taken.moved
        {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all(&taken.bytes)
    }

    /// All of it.
    ///
    /// # Errors
    /// As of [`Self::copy_to`].
    pub(super) fn contents(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.copy_to(&mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.captures.forget(self.number);
    }
}

impl Taken {
    /// Moves to a disk what is large. Where there is no room it stays in memory.
    fn relieve(&mut self) {
        let len = self.bytes.len();
        if len <= self.refused + LARGE {
            return;
        }
        self.refused = if self.move_out().is_ok() { 0 } else { len };
    }

    fn move_out(&mut self) -> io::Result<()> {
        let disk = match &mut self.disk {
            Some(disk) => disk,
            none => none.insert(tempfile::tempfile()?),
        };
        // Not where one that failed has ended.
        disk.write_all_at(&self.bytes, self.moved)?;
        self.moved += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
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
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Bytes that tell where they are.
    fn pattern(len: usize) -> Vec<u8> {
        (0..len as u64 / 8).flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn what_is_large_leaves_memory_and_nothing_is_lost() {
        let captures = Captures::new().unwrap();
        let (captured, command) = captures.open().unwrap();
        let all = pattern(3 * LARGE - 8);
        File::from(command).write_all(&all).unwrap();
        captured.end();
        assert_eq!(captured.len(), all.len() as u64);
        assert!(captured.contents().unwrap() == all, "as it was written");
        assert!(captured.is_on_disk());
        let taken = captured.lock();
        let (moved, kept) = (taken.moved, taken.bytes.len());
        assert!(moved >= 2 * LARGE as u64 && kept <= LARGE, "{moved} were moved, {kept} kept");
    }

    #[test]
    fn what_was_moved_and_has_gone_is_an_error() {
        let captures = Captures::new().unwrap();
        let (captured, command) = captures.open().unwrap();
        File::from(command).write_all(&pattern(2 * LARGE)).unwrap();
        captured.end();
        captured.lock().disk.as_ref().unwrap().set_len(9).unwrap();
        assert_eq!(captured.contents().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    /// A reader who wants to know whether others are served meanwhile.
    struct Slow(Arc<Captured>, Option<usize>);

    impl io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (captured, (say, said)) = (Arc::clone(&self.0), mpsc::channel());
            thread::spawn(move || say.send(captured.take(&mut Vec::new())));
            self.1 = said.recv_timeout(Duration::from_secs(60)).ok();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn one_that_is_printed_does_not_keep_others_from_being_taken_out() {
        let captures = Captures::new().unwrap();
        let (captured, command) = captures.open().unwrap();
        File::from(command).write_all(b"text").unwrap();
        captured.end();
        let mut slow = Slow(Arc::clone(&captured), None);
        captured.copy_to(&mut slow).unwrap();
        assert_eq!(slow.1, Some(0), "it is not waited for");
    }

    /// As by a process that the command left behind.
    #[test]
    fn whoever_may_write_more_is_not_waited_for() {
        let captures = Captures::new().unwrap();
        let (captured, command) = captures.open().unwrap();
        let mut command = File::from(command);
        command.write_all(b"ab").unwrap();
        captured.end();
        assert_eq!(command.write(b"c").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!((captured.len(), captured.take_bytes()), (2, b"ab".to_vec()));
    }
}
