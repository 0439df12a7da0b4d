//! Jiffies: ticks of a clock that counts `hz` times a second since the machine started.

use std::ffi::{c_uint, c_ulong};
use std::time::Duration;

use cmwq::raw::Delay;

/// What `HZ` is in a program that does not say.
pub(crate) const HZ: c_uint = 250;
const NS_PER_S: u128 = 1_000_000_000;

pub(crate) fn delay(ticks: c_ulong, hz: c_uint) -> Delay {
    Delay { after: duration(ticks, hz), expires: jiffies(hz).wrapping_add(ticks) }
}

fn duration(ticks: c_ulong, hz: c_uint) -> Duration {
    let ns = u128::from(ticks) * NS_PER_S / u128::from(hz.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

fn jiffies(hz: c_uint) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable; every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let ns =
        u128::from(now.tv_sec.unsigned_abs()) * NS_PER_S + u128::from(now.tv_nsec.unsigned_abs());
    // As long as a machine may run.
    (ns * u128::from(hz) / NS_PER_S) as u64
}

/// The time in ticks of `hz` a second; `jiffies` in C.
#[unsafe(no_mangle)]
pub extern "C" fn cmwq_jiffies(hz: c_uint) -> c_ulong {
    jiffies(hz)
}
