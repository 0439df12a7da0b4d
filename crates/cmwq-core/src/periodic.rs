//! When a periodic function is due.

use crate::ids::Nanos;

/// What becomes of ticks whose time came while the function was still running, or waited for a
/// worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissedTicks {
    /// They are left out, and the next tick keeps to the grid of the first one.
    #[default]
    Skip,
    /// They follow at once, one after the other, until the grid is reached again: no tick is lost.
    Burst,
    /// The grid moves: the next tick is one interval after the end of the function.
    Delay,
}

/// The ticks of a periodic function. Knows no clock.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    interval: Nanos,
    missed: MissedTicks,
    due: Nanos,
}

impl Ticks {
    /// Ticks of which the first is due at `first`.
    ///
    /// # Panics
    /// If the interval is 0: a tick would be due at every instant.
    #[must_use]
    pub fn new(first: Nanos, interval: Nanos, missed: MissedTicks) -> Self {
        assert!(interval > 0, "an interval of 0");
        Self { interval, missed, due: first }
    }

    /// When the next tick is due.
    #[must_use]
    pub fn due(&self) -> Nanos {
        self.due
    }

    /// The tick that was due has been dealt with, at `now`. Returns how many others are left out.
    pub fn advance(&mut self, now: Nanos) -> u64 {
        let mut left_out = 0;
        let from = match self.missed {
            MissedTicks::Burst => self.due,
            MissedTicks::Delay => now.max(self.due),
            MissedTicks::Skip => {
                left_out = now.saturating_sub(self.due) / self.interval;
                self.due.saturating_add(left_out.saturating_mul(self.interval))
            }
        };
        self.due = from.saturating_add(self.interval);
        left_out
    }
}
