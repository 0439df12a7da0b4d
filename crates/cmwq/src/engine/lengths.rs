//! Which managed queues have items that are worth another CPU than their queuer's: those that need
//! it for long.
//!
//! A worker looks at one item after every eighth of its sleeps, by its own CPU time: an item that
//! sleeps needs no CPU. What it finds it tells the item's queue. Who uses it: see
//! [`caller_computes`](crate::engine::caller_computes).

use std::cell::Cell;

use cmwq_core::help::short_items;
use cmwq_core::{Nanos, WqKey};

use crate::engine::runtime::Runtime;
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

    /// An item of the queue has ended that began then.
    #[cold]
    pub(crate) fn end(&self, begin: Nanos, wq: WqKey, runtime: &Runtime) {
        self.is_due.set(false);
        let took = sense::current_cpu_time().saturating_sub(begin);
        let Some(is_long) = short_items::is_worth_moving(took) else { return };
        if let Some(wq) = runtime.wq(wq) {
            wq.note_lengths(is_long);
        }
    }
}
