//! How many of the process's descriptors the library takes for itself.

use core::mem::MaybeUninit;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// LIMIT: half of the descriptors that the process may have are left to the program; a thousand
/// blocked workers would otherwise keep it from opening a file.
const SHARE: libc::rlim_t = 2;

/// Returns a descriptor that was just opened, or closes it and fails as if the limit were a part of
/// what it is.
///
/// Descriptors are given out lowest first, so its number tells how many are open.
pub(super) fn within_budget<F: AsFd>(opened: F) -> io::Result<F> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: `limit` is writable.
    let rc = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr()) };
    if rc != 0 {
        return Ok(opened);
    }
    // SAFETY: the call succeeded, so it has written `limit`.
    let limit = unsafe { limit.assume_init() }.rlim_cur;
    let number = libc::rlim_t::from(opened.as_fd().as_raw_fd().unsigned_abs());
    if number < limit / SHARE {
        Ok(opened)
    } else {
        Err(io::Error::from_raw_os_error(libc::EMFILE))
    }
}
