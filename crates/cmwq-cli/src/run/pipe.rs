//! A pipe that a command writes to, and nobody else reads.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::buffer::spare_capacity;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, ioctl_fionread, read};
use rustix::pipe::{PipeFlags, pipe_with};

/// Our end. It does not wait when it is read, and never has an end: a writing end is held beside
/// it, so that a command that ends wakes nobody up who waits for what it writes.
#[derive(Debug)]
pub(super) struct Pipe {
    ours: File,
    /// Where `ours` does not write.
    _writing: Option<OwnedFd>,
}

impl Pipe {
    /// With the command's end.
    ///
    /// # Errors
    /// If descriptors or memory are scarce.
    pub(super) fn new() -> io::Result<(Self, OwnedFd)> {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
        // One descriptor for both: each command that is started meanwhile inherits it.
        let nonblock = OFlags::NONBLOCK.bits().cast_signed();
        let both = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nonblock)
            .open(format!("/proc/self/fd/{}", reading.as_raw_fd()));
        let pipe = match both {
            Ok(ours) => Self { ours, _writing: None },
            // Without procfs.
            Err(_) => {
                fcntl_setfl(&reading, OFlags::NONBLOCK)?;
                Self { ours: reading.into(), _writing: Some(writing.try_clone()?) }
            }
        };
        Ok((pipe, writing))
    }

    /// How many bytes wait to be read.
    pub(super) fn unread(&self) -> usize {
        ioctl_fionread(&self.ours).map_or(0, |len| usize::try_from(len).unwrap_or(0))
    }

    /// Adds what has come, as far as there is room: so many bytes. 0: nothing has.
    pub(super) fn read_into(&self, bytes: &mut Vec<u8>) -> usize {
        loop {
            match read(&self.ours, spare_capacity(bytes)) {
                Err(Errno::INTR) => {}
                // A process of the command's may have read it itself.
                read => return read.unwrap_or(0),
            }
        }
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ours.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_was_written_is_there_and_nothing_is_waited_for() {
        let (pipe, writing) = Pipe::new().unwrap();
        let mut bytes = Vec::with_capacity(4);
        assert_eq!((pipe.unread(), pipe.read_into(&mut bytes)), (0, 0));
        let mut command = File::from(writing);
        command.write_all(b"abcdef").unwrap();
        assert_eq!((pipe.unread(), pipe.read_into(&mut bytes)), (6, 4));
        drop(command);
        bytes.clear();
        assert_eq!(pipe.read_into(&mut bytes), 2, "also when the command has ended");
        assert_eq!((pipe.read_into(&mut bytes), &bytes[..]), (0, &b"ef"[..]));
    }
}
