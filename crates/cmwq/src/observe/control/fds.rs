//! The descriptors of the control socket, so that a forked child can close them: it has copies of
//! all and the thread that owns them not.
//!
//! A descriptor is in the list exactly while it is open: both change under the list's lock, which a
//! fork takes, too. Unless the program closes what it has not opened (`closefrom`), and then opens
//! files of its own by these numbers: so whoever closes one compares where it leads.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::os::sense::{self, LastingFd, socket};
use crate::os::sync::{PlainGuard, PlainMutex, lock_plain};

static FDS: PlainMutex<Vec<Known>> = PlainMutex::new(Vec::new());

/// An open descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    number: RawFd,
    leads_to: Option<(u64, u64)>,
}

impl Known {
    fn of(opened: &LastingFd<impl AsRawFd>) -> Self {
        Self { number: opened.as_raw_fd(), leads_to: opened.leads_to() }
    }
}

fn remember<T: AsRawFd>(fds: &mut Vec<Known>, opened: T) -> LastingFd<T> {
    let opened = LastingFd::new(opened);
    fds.push(Known::of(&opened));
    opened
}

/// Opens something, and remembers it.
pub(super) fn remembered<T: AsFd + AsRawFd + From<OwnedFd>>(
    open: impl FnOnce() -> io::Result<T>,
) -> io::Result<LastingFd<T>> {
    let mut fds = lock_plain(&FDS);
    let opened = sense::above_streams(open()?)?;
    Ok(remember(&mut fds, opened))
}

/// As [`remembered`], for two that belong together.
pub(super) fn remembered_pair() -> io::Result<(LastingFd<UnixStream>, LastingFd<UnixStream>)> {
    let mut fds = lock_plain(&FDS);
    let (one, other) = UnixStream::pair()?;
    let (one, other) = (sense::above_streams(one)?, sense::above_streams(other)?);
    Ok((remember(&mut fds, one), remember(&mut fds, other)))
}

/// Closes what was remembered.
pub(super) fn close<T: AsRawFd>(owned: LastingFd<T>) {
    let mut fds = lock_plain(&FDS);
    let own = Known::of(&owned);
    fds.retain(|known| *known != own);
    drop(owned);
}

/// See `fork`.
pub(super) type Guard = PlainGuard<'static, Vec<Known>>;

/// Keeps everybody from opening and closing.
pub(super) fn hold() -> Guard {
    lock_plain(&FDS)
}

/// In a child: closes all.
pub(super) fn close_all(fds: &mut Guard) {
    let is_still_there = |known: &Known| sense::identity(known.number) == known.leads_to;
    for Known { number, .. } in fds.drain(..).filter(is_still_there) {
        // SAFETY: a copy of a descriptor whose owner, a thread of the parent or a value that is
        // leaked, does not exist here.
        unsafe { socket::close_unowned(number) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_the_program_has_opened_by_the_number_of_a_closed_one_stays() {
        let (ours, _other) = remembered_pair().unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        let number = ours.as_raw_fd();
        // As if the program had closed ours and opened a file.
        // SAFETY: descriptors that are open; the first is ours to replace.
        assert_eq!(unsafe { libc::dup2(writer.as_raw_fd(), number) }, number);
        close(ours);
        // SAFETY: it is open, or the call fails.
        let mut of_program = std::fs::File::from(unsafe {
            <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(number)
        });
        of_program.write_all(b"still here").unwrap();
    }
}
