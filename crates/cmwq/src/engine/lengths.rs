//! Which managed queues have items that are worth another CPU than their queuer's: those that need
//! it for long.
//!
//! A worker looks at one item after every eighth of its sleeps, by its own CPU time: an item that
//! sleeps needs no CPU. The worker tells the item's queue what is found. Who uses it: see
//! [`caller_computes`](crate::engine::caller_computes).

use std::cell::Cell;

use cmwq_core::Nanos;
use cmwq_core::help::short_items;

use crate::os::sense;

/// Sleeps from one look to the next: two looks at the thread's clock take a tenth of a sleep.
const EVERY: u32 = 8;

/// What a worker has to remember for that.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    sleeps: Cell<u32>,
    is_due: Cell<bool>,
}

impl Lengths {
    /// The worker of a managed pool has slept.
    #[inline]
    pub(crate) fn slept(&self) {
        let sleeps = self.sleeps.get().wrapping_add(1);
        self.sleeps.set(sleeps);
        // Models have no CPU time.
        if sleeps % EVERY == 1 && cfg!(not(any(cmwq_loom, cmwq_shuttle))) {
            self.is_due.set(true);
        }
    }

    /// An item begins. When, if it is to be looked at.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Nanos> {
        self.is_due.get().then(sense::current_cpu_time)
    }

    /// An item has ended that began then. Whether it needed the CPU for long, if that can be told.
    #[cold]
    pub(crate) fn end(&self, begin: Nanos) -> Option<bool> {
        self.is_due.set(false);
        let took = sense::current_cpu_time().saturating_sub(begin);
        short_items::is_worth_moving(took)
    }
}
