//! Which of the process's descriptors the library takes for itself, and how many.

use core::mem::MaybeUninit;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

/// LIMIT: half of the descriptors that the process may have are left to the program; a thousand
/// blocked workers would otherwise keep it from opening a file.
const SHARE: libc::rlim_t = 2;

/// LIMIT: the table that [`reserve`] makes has room for so many descriptors at most, which takes 32
/// KiB.
const RESERVED: libc::rlim_t = 4096;

/// Makes the process's table of descriptors as large as the library may need it, if its limits
/// allow that.
///
/// Linux makes the table larger when it is full: twice as large each time, and with more than one
/// thread it waits for a grace period of RCU, some ten milliseconds, in which no descriptor beyond
/// it can be had. Each worker opens one, so a pool that grows to 512 workers would stand still
/// three times.
pub(crate) fn reserve() {
    let Some(limit) = limit() else { return };
    let last = (limit / SHARE).min(RESERVED).saturating_sub(1);
    // SAFETY: no memory is passed.
    let any = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    let (Ok(last), 0..) = (libc::c_int::try_from(last), any) else { return };
    // SAFETY: a new descriptor of our own, at `last` or behind it.
    let high = unsafe { libc::fcntl(any, libc::F_DUPFD_CLOEXEC, last) };
    for own in [any, high] {
        if own >= 0 {
            // SAFETY: it is ours, and nobody else knows it.
            unsafe { libc::close(own) };
        }
    }
}

/// Whether nobody else would have to wait while the table of descriptors grows: the caller is the
/// only thread.
pub(crate) fn is_alone() -> bool {
    // Two links and one for each thread.
    fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() == 3)
}

/// The soft limit of the number of descriptors.
fn limit() -> Option<libc::rlim_t> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: `limit` is writable.
    let rc = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr()) };
    // SAFETY: if the call succeeded it has written `limit`.
    (rc == 0).then(|| unsafe { limit.assume_init() }.rlim_cur)
}

/// The library's share: what it opens has a lower number. `None`: nobody knows.
pub(super) fn budget() -> Option<libc::rlim_t> {
    limit().map(|limit| limit / SHARE)
}

/// Whether it is a part of that. Descriptors are given out lowest first, so its number tells how
/// many are open.
pub(super) fn is_within(budget: libc::rlim_t, opened: impl AsFd) -> bool {
    libc::rlim_t::from(opened.as_fd().as_raw_fd().unsigned_abs()) < budget
}

/// A descriptor that was just opened, or the same by another number if it has that of a standard
/// stream. A program that runs without these would print into it; and one that gets some later
/// (`dup2`) would close it, and then the library the program's.
///
/// # Errors
/// If there is no other number.
pub(crate) fn above_streams<F: AsFd + From<OwnedFd>>(opened: F) -> io::Result<F> {
    let fd = opened.as_fd();
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(opened);
    }
    // Rust's library clones to numbers behind those of the streams.
    fd.try_clone_to_owned().map(F::from)
}

/// Which file a descriptor leads to, if to any: its device and inode. Async-signal-safe.
pub(crate) fn identity(fd: RawFd) -> Option<(u64, u64)> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `stat` is writable.
    let rc = unsafe { libc::fstat(fd, stat.as_mut_ptr()) };
    // SAFETY: plain numbers, for which zero is a value.
    let stat = unsafe { stat.assume_init() };
    (rc == 0).then_some((stat.st_dev, stat.st_ino))
}

/// How long a file may be that the process writes. Beyond that, each write would cost it a SIGXFSZ.
pub(crate) fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    let rc = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if rc == 0 && limit.rlim_cur != libc::RLIM_INFINITY { limit.rlim_cur } else { u64::MAX }
}

/// Returns a descriptor that was just opened, or closes it and fails as if the limit were a part of
/// what it is.
pub(super) fn within_budget<F: AsFd + From<OwnedFd>>(opened: F) -> io::Result<F> {
    let opened = above_streams(opened)?;
    if budget().is_none_or(|budget| is_within(budget, &opened)) {
        Ok(opened)
    } else {
        Err(io::Error::from_raw_os_error(libc::EMFILE))
    }
}
