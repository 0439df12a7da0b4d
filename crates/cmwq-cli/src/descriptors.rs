//! What the command does with its descriptors: how many there may be, and how one is written to and
//! read.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit on open files to `wanted`, or as far as the process may, and returns it.
pub(crate) fn raise_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let (current, most) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    let raised = wanted.min(most);
    if raised <= current {
        return current;
    }
    let raised_limit = Rlimit { current: Some(raised), maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised_limit).is_ok() { raised } else { current }
}

/// Writes some of it: how much. Waits where the descriptor does not (`O_NONBLOCK`): it is not ours
/// alone, and others who have it, as ssh and what runs on an event loop, may have set that.
///
/// # Errors
/// Those of the system.
pub(crate) fn write(to: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::io::write(&to, bytes) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // What it says does not matter: the next attempt tells.
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
            written => return Ok(written?),
        }
    }
}

/// Writes all of it, as [`write`].
///
/// # Errors
/// Those of the system.
pub(crate) fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(&to, bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            len => bytes = &bytes[len..],
        }
    }
    Ok(())
}

/// Reads some of it: how much. Waits as [`write`].
///
/// # Errors
/// Those of the system.
fn read(from: impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::io::read(&from, &mut *bytes) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&from, PollFlags::IN)], None);
            }
            read => return Ok(read?),
        }
    }
}

/// What is written to as [`write`] does, and read likewise.
#[derive(Debug)]
pub(crate) struct Waiting<T>(pub(crate) T);

impl<T: AsFd> Write for Waiting<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(&self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T: AsFd> Read for Waiting<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        read(&self.0, bytes)
    }
}

/// Whether a little can be written to it now without waiting for whoever reads it.
pub(crate) fn takes_more(to: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&to, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, pipe};
    use std::thread;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    #[test]
    fn who_does_not_wait_is_waited_for() {
        let (mut reader, writer) = pipe().unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        assert!(takes_more(&writer));
        while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
        assert!(!takes_more(&writer));
        let (all, mut read) = (vec![1; 1 << 20], Vec::new());
        thread::scope(|scope| {
            let written = scope.spawn(|| {
                let written = write_all(&writer, &all);
                drop(writer);
                written
            });
            reader.read_to_end(&mut read).unwrap();
            written.join().unwrap().unwrap();
        });
        assert!(read.ends_with(&all));
        let (reader, writer) = pipe().unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        drop(reader);
        assert_eq!(write_all(&writer, b"a").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
