//! Alarms that were false: the sentinel of a CPU ran although no worker was blocked.
//!
//! Either the sentinel got its small share beside a CPU hog, or the pool's workers crowd on another
//! CPU. In the first case the scheduler itself makes the sentinel run rarely, so it is armed again
//! at once. Alarms in quick succession are the second case: the sentinel then waits for the tick.
//!
//! In the first case, too, most alarms are false while the items only compute: a worker that arms a
//! sentinel and sleeps leaves the CPU to the sentinel for a moment. So after some false alarms in a
//! row the sentinels rest after each one, until a tick comes anyway.
//!
//! KERNEL: no twin.
//!
//! Why: docs/decisions/false-alarms.md

use crate::ids::Nanos;

/// False alarms closer together than this make the sentinels wait for the tick: 100 µs.
pub const QUICK_SUCCESSION_NS: Nanos = 100_000;

/// After so many false alarms in a row the sentinels rest.
pub const FRUITLESS_ALARMS: u32 = 8;

/// What to do after a false alarm.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFalse {
    /// Arm the pool's sentinels again.
    Arm,
    /// Let them rest until the next tick, which is to come soon.
    WaitForTick,
    /// Let them rest until the next tick, whenever it comes.
    Rest,
}

/// The alarm at `now` was false, as the one at `last` was; both in nanoseconds. `in_a_row`: false
/// alarms, this one included, since a worker was found blocked.
#[inline]
pub const fn after_false(last: Nanos, now: Nanos, in_a_row: u32) -> AfterFalse {
    if in_a_row >= FRUITLESS_ALARMS {
        AfterFalse::Rest
    } else if now.saturating_sub(last) < QUICK_SUCCESSION_NS {
        AfterFalse::WaitForTick
    } else {
        AfterFalse::Arm
    }
}

/// Whether a sentinel that has got its CPU lets others have it once before it gives the alarm: the
/// one before was false, so a worker's turn is over, and that worker goes on. `nr_false`: false
/// alarms since a worker was found blocked. `is_tick_first`: the tick finds blocked workers before
/// the sentinels do; then a false alarm, too, finds some that other programs hide.
#[inline]
#[must_use]
pub const fn yields_first(nr_false: u32, is_tick_first: bool) -> bool {
    nr_false > 0 && !is_tick_first
}

/// Whether an alarm was false. `nr_blocked`: workers that the look it caused found blocked.
/// `has_to_watch`: work still waits, or other pods could use the CPUs here.
#[inline]
#[must_use]
pub const fn is_false(nr_blocked: usize, has_to_watch: bool) -> bool {
    nr_blocked == 0 && has_to_watch
}
