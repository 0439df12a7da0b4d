//! The memory that the mapping is made of, as the system gives it.
//!
//! A memfd named `cmwq`, sparse: only pages that are written take memory. Once it is mapped it is
//! sealed: its length stays, so a reader's mapping is never cut off under it, and nobody else can
//! write to it. The descriptor stays open for readers to find, and is not inherited by `exec`.
//!
//! A forked child must not write into its parent's mapping, and it still has pointers into it:
//! [`leave_behind`] puts private memory in its place and closes the child's copy of the descriptor.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use crate::os::sense;
use crate::os::sync::{AtomicU64, Ordering};

/// Its name: `/memfd:cmwq (deleted)` in `/proc/PID/fd`.
pub(crate) const NAME: &std::ffi::CStr = c"cmwq";

/// What [`leave_behind`] has to know, without a lock: address, length, descriptor, device, inode.
static MAPPED: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// Zeroed memory, shared with readers, for ever.
///
/// # Errors
/// If the system refuses. Nothing is left open then.
pub(crate) fn map(len: usize) -> io::Result<NonNull<c_void>> {
    check_file_size_limit(len)?;
    let fd = create()?;
    let raw = fd.as_raw_fd();
    let length = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: takes numbers.
    check(unsafe { libc::ftruncate(raw, length) })?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, wherever the system likes.
    let base = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, raw, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    seal(raw);
    remember(base, len, raw);
    // It lives as long as the process.
    let _ = fd.into_raw_fd();
    NonNull::new(base).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

fn create() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a name and flags.
    let raw = unsafe { libc::syscall(libc::SYS_memfd_create, NAME.as_ptr(), flags) };
    let raw =
        i32::try_from(raw).ok().filter(|raw| *raw >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: just made, and nobody else's.
    sense::above_streams(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn check_file_size_limit(len: usize) -> io::Result<()> {
    let is_enough = sense::file_size_limit() >= len as u64;
    if is_enough { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EFBIG)) }
}

/// What an old kernel refuses is done without; readers check.
fn seal(raw: i32) {
    // Not in every C library's headers. Linux 5.1.
    const F_SEAL_FUTURE_WRITE: i32 = 0x10;
    for seals in [libc::F_SEAL_SHRINK | libc::F_SEAL_GROW, F_SEAL_FUTURE_WRITE, libc::F_SEAL_SEAL] {
        // SAFETY: takes numbers.
        unsafe { libc::fcntl(raw, libc::F_ADD_SEALS, seals) };
    }
}

fn remember(base: *mut c_void, len: usize, raw: i32) {
    let (device, inode) = sense::identity(raw).unwrap_or_default();
    let words = [base as u64, len as u64, raw.unsigned_abs().into(), device, inode];
    for (place, word) in MAPPED.iter().zip(words) {
        // ORDERING: no pairing: read in a child, which has one thread; and none that forks while
        // the runtime is made.
        place.store(word, Ordering::Relaxed);
    }
}

/// In a forked child: the mapping is its parent's. Async-signal-safe.
pub(crate) fn leave_behind() {
    // ORDERING: no pairing: the child has one thread.
    let [base, len, raw, device, inode] =
        MAPPED.each_ref().map(|word| word.swap(0, Ordering::Relaxed));
    if base == 0 {
        return;
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the range is that of the mapping, which nobody has taken down, and nobody else runs.
    let left = unsafe { libc::mmap(base as *mut c_void, len as usize, access, flags, -1, 0) };
    debug_assert_ne!(left, libc::MAP_FAILED);
    // Unless the program has closed it, and the number is somebody else's.
    let raw = raw as i32;
    if sense::identity(raw) == Some((device, inode)) {
        // SAFETY: it is the descriptor that `map` left open.
        unsafe { libc::close(raw) };
    }
}

fn check(rc: i32) -> io::Result<()> {
    if rc == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
