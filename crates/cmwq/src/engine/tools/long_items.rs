//! How long the items of managed queues need the CPU: some are worth another one than their
//! queuer's.
//!
//! Now and then ([`Sampling`]) a worker measures the CPU time of one item. It reports the result to
//! the item's queue, and [`caller_computes`](crate::engine::item::caller_computes) acts on it.

use std::cell::Cell;

use cmwq_core::Nanos;
use cmwq_core::help::Length;
use cmwq_core::help::short_items::Sampling;

use crate::os::IS_MODEL;
use crate::os::sense;

/// When a worker measures its next item.
#[derive(Debug, Default)]
pub(crate) struct LongItems(Cell<Sampling>);

impl LongItems {
    /// The worker, of a managed pool, has slept.
    #[inline]
    pub(crate) fn slept(&self) {
        // Models have no CPU time.
        if IS_MODEL {
            return;
        }
        let mut sampling = self.0.get();
        sampling.slept();
        self.0.set(sampling);
    }

    /// The worker begins an item. Returns its CPU time, if the item is to be measured.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Nanos> {
        self.0.get().is_due().then(sense::current_cpu_time)
    }

    /// The item that began at the CPU time `begin` has ended. Returns how long it needed the CPU;
    /// `None`: it was between short and long.
    #[cold]
    pub(crate) fn end(&self, begin: Nanos) -> Option<Length> {
        let took = sense::current_cpu_time().saturating_sub(begin);
        let mut sampling = self.0.get();
        let length = sampling.measured(took);
        self.0.set(sampling);
        length
    }
}
