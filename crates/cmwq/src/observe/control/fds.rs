//! The descriptors of the control socket, so that a forked child can close them: it has copies of
//! all and the thread that owns them not.
//!
//! A descriptor is in the list exactly while it is open: both change under the list's lock, which a
//! fork takes, too.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::os::sense::socket;
use crate::os::sync::{PlainGuard, PlainMutex, lock_plain};

static FDS: PlainMutex<Vec<RawFd>> = PlainMutex::new(Vec::new());

/// Opens something, and remembers it.
pub(super) fn remembered<T: AsRawFd>(open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut fds = lock_plain(&FDS);
    let opened = open()?;
    fds.push(opened.as_raw_fd());
    Ok(opened)
}

/// As [`remembered`], for two that belong together.
pub(super) fn remembered_pair() -> io::Result<(UnixStream, UnixStream)> {
    let mut fds = lock_plain(&FDS);
    let pair = UnixStream::pair()?;
    fds.extend([pair.0.as_raw_fd(), pair.1.as_raw_fd()]);
    Ok(pair)
}

/// Closes what was remembered.
pub(super) fn close<T: AsRawFd>(owned: T) {
    let mut fds = lock_plain(&FDS);
    fds.retain(|known| *known != owned.as_raw_fd());
    drop(owned);
}

/// See `fork`.
pub(super) type Guard = PlainGuard<'static, Vec<RawFd>>;

/// Keeps everybody from opening and closing.
pub(super) fn hold() -> Guard {
    lock_plain(&FDS)
}

/// In a child: closes all.
pub(super) fn close_all(fds: &mut Guard) {
    for fd in fds.drain(..) {
        // SAFETY: a copy of a descriptor whose owner, a thread of the parent or a value that is
        // leaked, does not exist here.
        unsafe { socket::close_unowned(fd) };
    }
}
