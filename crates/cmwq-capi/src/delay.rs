//! Jiffies: ticks of a clock that counts `hz` times a second since the machine started.

use std::ffi::{c_uint, c_ulong};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use cmwq::raw::{self, Delay, When};

use crate::queueing::c_functions;

/// What `HZ` is in a program that does not say.
pub(crate) const HZ: c_uint = 250;
const NS_PER_S: u128 = 1_000_000_000;

/// What is negative as a long has passed, and ends with the next tick: `expires - jiffies` of a
/// time that is over.
pub(crate) fn delay(ticks: c_ulong, hz: c_uint) -> Delay {
    let has_passed = ticks.cast_signed() < 0;
    let after = duration(if has_passed { 1 } else { ticks }, hz);
    Delay { after, expires: jiffies(hz).wrapping_add(ticks) }
}

fn duration(ticks: c_ulong, hz: c_uint) -> Duration {
    let ns = u128::from(ticks) * NS_PER_S / u128::from(hz.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

fn jiffies(hz: c_uint) -> u64 {
    ticks(monotonic_ns(), hz.into())
}

fn ticks(ns: u128, hz: u128) -> u64 {
    // As long as a machine may run.
    (ns * hz / NS_PER_S) as u64
}

fn monotonic_ns() -> u128 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable; every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    u128::from(now.tv_sec.unsigned_abs()) * NS_PER_S + u128::from(now.tv_nsec.unsigned_abs())
}

/// When a timer that is to expire at `expires`, in ticks of `hz` a second, does: at the begin of
/// that tick, whether it has passed or not.
pub(crate) fn when(expires: c_ulong, hz: c_uint) -> When {
    let (hz, now) = (u128::from(hz.max(1)), monotonic_ns());
    let ticks_left = expires.wrapping_sub(ticks(now, hz)).cast_signed();
    let at = u128::from(ticks(now, hz)).saturating_add_signed(ticks_left.into()) * NS_PER_S;
    let after = at.div_ceil(hz).saturating_sub(now);
    When { after: u64::try_from(after).unwrap_or(u64::MAX), jiffies: expires }
}

c_functions! {
    /// The time in ticks of `hz` a second; `jiffies` in C.
    fn cmwq_jiffies(hz: c_uint) -> c_ulong {
        check_hz(hz);
        jiffies(hz)
    }
}

/// Says it once if files of one program count jiffies differently: what one computes is wrong for
/// another.
fn check_hz(hz: c_uint) {
    static FIRST: AtomicU32 = AtomicU32::new(0);
    static SAID: AtomicBool = AtomicBool::new(false);
    // ORDERING: no pairing: a number by itself.
    let first = match FIRST.load(Ordering::Relaxed) {
        0 => FIRST
            .compare_exchange(0, hz, Ordering::Relaxed, Ordering::Relaxed)
            .map_or_else(|first| first, |_| hz),
        first => first,
    };
    if first != hz && !SAID.swap(true, Ordering::Relaxed) {
        raw::say(format!(
            "jiffies are {first} a second in one file of this program and {hz} in another: define \
             CMWQ_HZ as one number in all of them"
        ));
    }
}
