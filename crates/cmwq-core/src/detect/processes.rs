//! How often the processes that workers wait for are looked at.
//!
//! A look at a process and its descendants costs tens of microseconds, or milliseconds if there are
//! many, and the tick may come every 100 µs. So looks take at most a fixed part of the time,
//! whatever one costs. Looks on an alarm are exempt: the CPU is idle, and [false
//! alarms](super::alarms) are limited.
//!
//! KERNEL: no twin.

use crate::ids::Nanos;

/// Pause after a look for a worker that is believed running, in times the cost of the look.
pub const REST: Nanos = 16;
/// The same for workers that are believed blocked, all of them together: these are less urgent.
pub const SLEEPERS_REST: Nanos = 32;

/// Which worker a look is about, and why it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A worker that is believed running, because a CPU is idle.
    Alarm,
    /// The same, because the tick has come.
    Tick,
    /// A worker that is believed blocked.
    Sleeper,
}

/// The looks at one process and its descendants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    next: Nanos,
}

impl Looks {
    /// Whether the process and its descendants may be looked at now.
    #[must_use]
    pub const fn may_look(&self, now: Nanos, asker: Asker) -> bool {
        now >= self.next || matches!(asker, Asker::Alarm)
    }

    /// A look has taken from `begin` to `end`, in nanoseconds. Returns when the next may begin.
    #[must_use]
    pub const fn looked(&mut self, begin: Nanos, end: Nanos, asker: Asker) -> Nanos {
        let rest = match asker {
            Asker::Alarm | Asker::Tick => REST,
            Asker::Sleeper => SLEEPERS_REST,
        };
        self.next = end.saturating_add(end.saturating_sub(begin).saturating_mul(rest));
        self.next
    }
}
