//! `struct timer_list *`: timers by themselves.

use std::ffi::{c_int, c_uint, c_ulong};

use cmwq::raw::{self, Arming, RawTimer, Running};

use crate::delay::when;
use crate::face::{self, is_there};
use crate::item::pointer;
use crate::queueing::c_functions;

// As in the header, which asserts the same.
const _: () = assert!(size_of::<RawTimer>() == 48 && align_of::<RawTimer>() == 8);

/// What the header gives for the way of arming.
fn arming(how: c_uint) -> Arming {
    match how {
        1 => Arming::IfArmed,
        2 => Arming::IfEarlier,
        3 => Arming::First,
        _ => Arming::Always,
    }
}

/// Disarms a timer for the function `here`; `None`: its function runs.
///
/// # Safety
/// `timer` must be null or valid.
unsafe fn disarm(
    here: &str,
    timer: *mut RawTimer,
    running: Running,
    for_good: bool,
) -> Option<bool> {
    if !is_there(here, timer, "timer") {
        return Some(false);
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { raw::disarm_timer(pointer(timer), running, for_good) }
}

c_functions! {
    /// Arms a timer for `expires`, in ticks of `hz` a second: whether it was armed. `how`: 0 in any
    /// case, 1 if it is armed, 2 unless it is armed for an earlier time, 3 it is not armed.
    fn cmwq_arm_timer(
        timer: *mut RawTimer, expires: c_ulong, hz: c_uint, how: c_uint
    ) -> bool {
        if !is_there(HERE, timer, "timer") {
            return false;
        }
        // SAFETY: passed on to the caller.
        match unsafe { raw::arm_timer(pointer(timer), when(expires, hz), arming(how)) } {
            Ok(was_armed) => was_armed,
            Err(error) => {
                face::refuse(HERE, &error);
                false
            }
        }
    }

    /// Disarms a timer: whether it was armed.
    fn cmwq_timer_delete(timer: *mut RawTimer) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { disarm(HERE, timer, Running::Ignore, false) == Some(true) }
    }

    /// As `timer_delete`, and waits for its function.
    fn cmwq_timer_delete_sync(timer: *mut RawTimer) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { disarm(HERE, timer, Running::WaitFor, false) == Some(true) }
    }

    /// As `timer_delete`, or -1: its function runs.
    fn cmwq_timer_delete_sync_try(timer: *mut RawTimer) -> c_int {
        // SAFETY: passed on to the caller.
        unsafe { disarm(HERE, timer, Running::Refuse, false) }.map_or(-1, c_int::from)
    }

    /// As `timer_delete`, and it cannot be armed any more.
    fn cmwq_timer_shutdown(timer: *mut RawTimer) -> c_int {
        // SAFETY: passed on to the caller.
        unsafe { disarm(HERE, timer, Running::Ignore, true) }.map_or(0, c_int::from)
    }

    /// As `timer_delete_sync`, and it cannot be armed any more.
    fn cmwq_timer_shutdown_sync(timer: *mut RawTimer) -> c_int {
        // SAFETY: passed on to the caller.
        unsafe { disarm(HERE, timer, Running::WaitFor, true) }.map_or(0, c_int::from)
    }
}
