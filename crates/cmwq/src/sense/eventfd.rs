//! A wake-up that can be polled together with other descriptors.
//!
//! *Owns* an `eventfd` that neither blocks nor survives `exec`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

/// A counter of signals that is readable while it is not zero.
#[derive(Debug)]
pub(crate) struct EventFd {
    file: File,
}

impl EventFd {
    /// Makes one that nobody has signalled.
    ///
    /// # Errors
    /// If there are too many descriptors.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, so nobody else owns it.
        Ok(Self { file: unsafe { File::from_raw_fd(fd) } })
    }

    /// Makes it readable. Signalling again before it is drained changes nothing.
    pub(crate) fn signal(&self) {
        // Refused only when the counter is full, and then it is readable already.
        let _ = (&self.file).write(&1u64.to_ne_bytes());
    }

    /// Makes it unreadable again and says whether it had been signalled.
    pub(crate) fn drain(&self) -> bool {
        let mut count = [0; size_of::<u64>()];
        (&self.file).read(&mut count).is_ok()
    }

    /// The descriptor to poll.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
