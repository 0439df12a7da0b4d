//! The system's clock.

use std::mem::MaybeUninit;

use crate::os::sync::plain::{AtomicU64, Ordering};

use cmwq_core::Nanos;

/// The coarse clock when somebody looked last.
static LATELY: AtomicU64 = AtomicU64::new(0);

/// A number that changes with each scheduler tick. Costs next to nothing.
pub(crate) fn coarse() -> Nanos {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable. A clock that does not exist leaves it as it is.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    nanos(now)
}

/// The coarse clock as of the last [`refresh_coarse`]: an item's start takes a tenth longer where
/// it reads the clock itself.
#[inline]
pub(crate) fn lately() -> Nanos {
    // ORDERING: no pairing: a time that nobody concludes anything from.
    LATELY.load(Ordering::Relaxed)
}

/// Reads the coarse clock, for [`lately`].
pub(crate) fn refresh_coarse() {
    // ORDERING: no pairing: as above.
    LATELY.store(coarse(), Ordering::Relaxed);
}

/// `CLOCK_MONOTONIC`, read without a detour: arming a timer takes little longer than this.
pub(crate) fn now() -> Nanos {
    let mut now = MaybeUninit::uninit();
    // SAFETY: `now` is writable.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr()) };
    debug_assert_eq!(rc, 0, "this clock is always there");
    // One tick ahead of zero, so that "never" and "at the start" differ.
    // SAFETY: this clock is always there, so it has been written.
    nanos(unsafe { now.assume_init() }) + cmwq_core::TICK_NS
}

fn nanos(time: libc::timespec) -> Nanos {
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
