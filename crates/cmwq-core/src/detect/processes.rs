//! How often the processes that workers wait for are looked at.
//!
//! A look at a process and its descendants costs tens of microseconds, or milliseconds if there are
//! many, and the tick may come every 100 µs. So looks take at most a fixed part of the time,
//! whatever one costs. Looks on an alarm are exempt: the CPU is idle, and [false
//! alarms](super::alarms) are limited.
//!
//! KERNEL: no twin.

use super::By;
use crate::ids::Nanos;

/// Pause after a look for a worker that is believed running, in times the cost of the look.
pub const REST: Nanos = 16;
/// The same for workers that are believed blocked, all of them together: these are less urgent.
pub const SLEEPERS_REST: Nanos = 32;

/// Which worker a look is about, and why it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A worker that is believed running.
    Runner(By),
    /// A worker that is believed blocked.
    Sleeper,
}

/// A process and its descendants, as they may be looked at; the cheapest way first.
pub trait Family {
    /// Whether nobody of it has had a CPU since all of it was found waiting.
    fn has_not_run(&self) -> bool;
    /// Whether the one runs that is most likely to.
    fn is_likely_running(&self) -> bool;
    /// Whether anybody runs, by a look at all; `None`: that cannot be told.
    fn scan(&mut self) -> Option<bool>;
}

/// When workers that are believed blocked may be looked at again, whoever they are.
pub trait Sleepers {
    /// From then on.
    fn from(&self) -> Nanos;
    /// From then on, instead.
    fn set_from(&self, from: Nanos);
}

/// The looks at one process and its descendants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    next: Nanos,
}

impl Looks {
    /// Whether anybody of `family` runs. `None`: nobody knows, or it was asked too soon.
    pub fn is_running(
        &mut self,
        family: &mut impl Family,
        asker: Asker,
        sleepers: &impl Sleepers,
        now: impl Fn() -> Nanos,
    ) -> Option<bool> {
        if family.has_not_run() {
            return Some(false);
        }
        let begin = now();
        let is_sleeper = asker == Asker::Sleeper;
        let is_turn = !is_sleeper || begin >= sleepers.from();
        let may_look = is_turn && self.may_look(begin, asker);
        // Whether a runner is blocked, all of them have to tell; a sleeper is back if one runs.
        if !may_look && !is_sleeper {
            return None;
        }
        if family.is_likely_running() {
            return Some(true);
        }
        if !may_look {
            return None;
        }
        let runs = family.scan();
        let next = self.looked(begin, now(), asker);
        if is_sleeper {
            sleepers.set_from(next);
        }
        runs
    }

    /// Whether all of it may be looked at now.
    pub(crate) const fn may_look(&self, now: Nanos, asker: Asker) -> bool {
        now >= self.next || matches!(asker, Asker::Runner(By::Alarm))
    }

    /// A look has taken from `begin` to `end`, in nanoseconds. Returns when the next may begin.
    pub(crate) const fn looked(&mut self, begin: Nanos, end: Nanos, asker: Asker) -> Nanos {
        let rest = match asker {
            Asker::Runner(_) => REST,
            Asker::Sleeper => SLEEPERS_REST,
        };
        self.next = end.saturating_add(end.saturating_sub(begin).saturating_mul(rest));
        self.next
    }
}
