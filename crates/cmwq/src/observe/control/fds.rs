//! The descriptors of the control socket, so that a forked child can close them: it has copies of
//! all and the thread that owns them not.
//!
//! A descriptor is in the list exactly while it is open: both change under the list's lock, which a
//! fork takes, too. Unless the program closes what it has not opened (`closefrom`), and then opens
//! files of its own by these numbers: so a child compares where they lead.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::os::sense::{self, socket};
use crate::os::sync::{PlainGuard, PlainMutex, lock_plain};

static FDS: PlainMutex<Vec<Known>> = PlainMutex::new(Vec::new());

/// An open descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    number: RawFd,
    leads_to: Option<(u64, u64)>,
}

impl Known {
    fn new(opened: &impl AsRawFd) -> Self {
        let number = opened.as_raw_fd();
        Self { number, leads_to: sense::identity(number) }
    }
}

/// Opens something, and remembers it.
pub(super) fn remembered<T: AsFd + AsRawFd + From<OwnedFd>>(
    open: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let mut fds = lock_plain(&FDS);
    let opened = sense::above_streams(open()?)?;
    fds.push(Known::new(&opened));
    Ok(opened)
}

/// As [`remembered`], for two that belong together.
pub(super) fn remembered_pair() -> io::Result<(UnixStream, UnixStream)> {
    let mut fds = lock_plain(&FDS);
    let (one, other) = UnixStream::pair()?;
    let pair = (sense::above_streams(one)?, sense::above_streams(other)?);
    fds.extend([Known::new(&pair.0), Known::new(&pair.1)]);
    Ok(pair)
}

/// Closes what was remembered.
pub(super) fn close<T: AsRawFd>(owned: T) {
    let mut fds = lock_plain(&FDS);
    fds.retain(|known| known.number != owned.as_raw_fd());
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
