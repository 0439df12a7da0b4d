//! Which managed queues have items that are worth another CPU than their queuer's: those that need
//! it for long.
//!
//! After every eighth of its sleeps a worker measures the CPU time of one item: an item that sleeps
//! needs no CPU. The worker reports the result to the item's queue, and
//! [`caller_computes`](crate::engine::caller_computes) acts on it.

use std::cell::Cell;

use cmwq_core::Nanos;
use cmwq_core::help::short_items;

use crate::os::IS_MODEL;
use crate::os::sense;

/// A worker measures one item per so many sleeps: two reads of its CPU clock take a tenth of the
/// time of a sleep.
const EVERY: u32 = 8;

/// When a worker measures its next item.
#[derive(Debug, Default)]
pub(crate) struct LongItems {
    sleeps: Cell<u32>,
    is_due: Cell<bool>,
}

impl LongItems {
    /// The worker, of a managed pool, has slept.
    #[inline]
    pub(crate) fn slept(&self) {
        let sleeps = self.sleeps.get().wrapping_add(1);
        self.sleeps.set(sleeps);
        // Models have no CPU time.
        if sleeps % EVERY == 1 && !IS_MODEL {
            self.is_due.set(true);
        }
    }

    /// The worker begins an item. Returns its CPU time, if the item is to be measured.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Nanos> {
        self.is_due.get().then(sense::current_cpu_time)
    }

    /// The item that began at the CPU time `begin` has ended. Returns whether it needed the CPU for
    /// long; `None`: it was between short and long.
    #[cold]
    pub(crate) fn end(&self, begin: Nanos) -> Option<bool> {
        self.is_due.set(false);
        let took = sense::current_cpu_time().saturating_sub(begin);
        short_items::is_worth_moving(took)
    }
}
