//! Sleeping until one of a few descriptors has something to say.
//!
//! *Kernel*: `poll(2)`.

use core::ptr;
use core::time::Duration;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::futex::to_timespec;

/// What a descriptor had to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// There is something to read.
    pub(crate) is_readable: bool,
    /// There will never be anything again; polling it further returns at once.
    pub(crate) is_hung_up: bool,
}

impl Ready {
    /// Whether it had anything to say.
    pub(crate) fn is_any(self) -> bool {
        self.is_readable || self.is_hung_up
    }
}

/// Sleeps until one of `fds` is ready, for as long as `timeout`, and says which are.
///
/// None is when the time is over, and also when a signal was handled.
///
/// # Errors
/// If the kernel is out of memory or one of them is no descriptor.
pub(crate) fn poll_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[Ready; N]> {
    let timeout = timeout.map(to_timespec);
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mut fds =
        fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    // SAFETY: `fds` is an array of `N` entries, writable during the call; `timeout` is null or a readable `timespec`;
    // no signal mask is given.
    let rc = unsafe { libc::ppoll(fds.as_mut_ptr(), N as libc::nfds_t, timeout, ptr::null()) };
    if rc < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok([Ready::default(); N]),
            _ => Err(error),
        };
    }
    Ok(fds.map(|fd| Ready {
        is_readable: fd.revents & libc::POLLIN != 0,
        is_hung_up: fd.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0,
    }))
}
