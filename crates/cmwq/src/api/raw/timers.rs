//! `struct timer_list` of C programs.

use std::ptr::NonNull;

use super::softirq;
use crate::engine::process::Process;
use crate::engine::process::bare_timers::{self, BareTimer};
use crate::engine::runtime::Runtime;
use crate::os::clock;
use crate::os::error::Error;
use crate::os::generation;

pub use bare_timers::{Arming, Running};

/// `struct timer_list`.
#[repr(transparent)]
pub struct RawTimer(BareTimer);

impl std::fmt::Debug for RawTimer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawTimer").finish_non_exhaustive()
    }
}

/// When a timer is to expire.
#[derive(Clone, Copy, Debug)]
pub struct When {
    /// From now, in ns; 0 if that has passed.
    pub after: u64,
    /// The same as a time in jiffies, for whoever reads it.
    pub jiffies: u64,
}

/// Arms a timer, whose function a BH item of the library's own calls; whether it was armed.
///
/// KERNEL: `mod_timer`, `mod_timer_pending`, `timer_reduce`, `add_timer` — same.
///
/// # Errors
/// If no thread can be had for the first use, or after a shutdown.
///
/// # Safety
/// `timer` must be valid, and stay where it is until it is disarmed or its function entered; the
/// function must be fit to be called with it.
pub unsafe fn arm(timer: NonNull<RawTimer>, when: When, arming: Arming) -> Result<bool, Error> {
    let wq = softirq::queue()?.handle();
    let Some(process) = Process::existing() else { return Ok(false) };
    let at = clock::now().saturating_add(when.after);
    let when = bare_timers::When { at, jiffies: when.jiffies };
    // SAFETY: passed on to the caller.
    Ok(unsafe { process.bare_timers.arm(process.runtime, timer.cast(), when, arming, wq) })
}

/// Disarms a timer, `for_good` so that it cannot be armed again: whether it was armed. `None`: its
/// function runs, and nothing was done.
///
/// KERNEL: `timer_delete`, `timer_delete_sync`, `timer_shutdown` and the like — same; who would
/// wait for himself is told so.
///
/// # Safety
/// `timer` must be valid until this returns.
pub unsafe fn disarm(timer: NonNull<RawTimer>, running: Running, for_good: bool) -> Option<bool> {
    // In a child it may be the parent's, which only a wheel of its own tells. To shut one down
    // takes the lock of those who arm it.
    if for_good || generation::is_child() {
        let _ = Runtime::global();
    }
    let Some(process) = Process::existing() else {
        // None is armed, nor runs, where there is no thread for it.
        if for_good {
            // SAFETY: valid by the caller's promise, and without a runtime there is no lock for it.
            unsafe { BareTimer::shut_down(timer.cast()) };
        }
        return Some(false);
    };
    // SAFETY: passed on to the caller.
    unsafe { process.bare_timers.disarm(process.runtime, timer.cast(), running, for_good) }
}
