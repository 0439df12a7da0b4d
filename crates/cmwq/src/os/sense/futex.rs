//! Sleeping until a word of memory is said to have changed, and saying so.
//!
//! *Owns* nothing: the word is the caller's, and so is its protocol. Only threads of this process
//! are concerned.
//!
//! *Kernel*: `futex(2)`.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::time::Duration;
use std::io;

/// Why a [`wait`] came back. None of them tells what the word holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitResult {
    /// Somebody called [`wake`] on the word.
    Woken,
    /// The word did not hold the expected value, so the wait did not begin.
    Changed,
    /// The time was over.
    TimedOut,
    /// A signal was handled.
    Interrupted,
}

/// Sleeps as long as `word` holds `expected`, until woken, or for as long as `timeout`.
///
/// Checking the word and falling asleep are one step for every [`wake`] that follows a change of
/// the word.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> WaitResult {
    let timeout = timeout.map(to_timespec);
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let op: c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `word` is an aligned 32-bit word and `timeout` is null or a readable `timespec`, both
    // during the call.
    let rc = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, expected, timeout) };
    if rc == 0 {
        return WaitResult::Woken;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN) => WaitResult::Changed,
        Some(libc::ETIMEDOUT) => WaitResult::TimedOut,
        Some(libc::EINTR) => WaitResult::Interrupted,
        // The rest are about bad arguments. Callers loop over their condition anyway.
        error => {
            debug_assert!(false, "futex wait failed: {error:?}");
            WaitResult::Interrupted
        }
    }
}

/// Wakes up to `count` threads that sleep on `word` and returns how many there were.
pub(crate) fn wake(word: &AtomicU32, count: u32) -> usize {
    let op: c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let count = c_int::try_from(count).unwrap_or(c_int::MAX);
    // SAFETY: `word` is an aligned 32-bit word, which the call does not even read.
    let rc = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, count) };
    usize::try_from(rc).unwrap_or_default()
}

/// A duration as system calls take it; longer than they can take is as long as they can.
fn to_timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        // Below a thousand million, which every type that this field has holds.
        tv_nsec: duration.subsec_nanos() as _,
    }
}
