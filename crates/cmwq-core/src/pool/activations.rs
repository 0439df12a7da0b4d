//! Which items have become active, for tracing: the core records them, and the driver fetches the
//! records and adds the time.
//!
//! Off, which is the default, it costs one branch per queueing. KERNEL: the
//! `workqueue_activate_work` trace event — same moments: put on the worklist when queued, or when a
//! slot comes free; not barriers. Items of a batch have one slot, which goes from one to the next:
//! each becomes active when it is [begun](crate::Batch::begin), without the lock. The driver
//! records that just afterwards, so an event of a thread that queues the item again at that moment
//! may stand before it.

use alloc::vec::Vec;
use core::mem;
use core::ptr::NonNull;

use super::PoolState;
use crate::ids::{PwqId, WqKey};
use crate::work::{WorkFn, WorkItem};

/// LIMIT: items that may have arrived while records are made, for which there is room.
const RECORDED_ARRIVED_MAX: u32 = 1024;
/// LIMIT: records that are kept until the driver fetches them, besides those of what had arrived
/// before the first one. One hold of the lock makes fewer, also where it lists all that has
/// arrived.
const MAX_RECORDS: usize = 2 * RECORDED_ARRIVED_MAX as usize;

/// An item that may start from now on.
#[derive(Clone, Copy, Debug)]
pub struct Activation {
    /// The item's address.
    pub addr: usize,
    /// Its function.
    pub func: WorkFn,
    /// Its workqueue.
    pub wq: WqKey,
}

/// The records; without room for any while they are off.
#[derive(Debug, Default)]
pub(super) struct Activations {
    records: Vec<Activation>,
    missed: u64,
}

impl Activations {
    pub(super) const fn off() -> Self {
        Self { records: Vec::new(), missed: 0 }
    }

    #[inline]
    const fn is_off(&self) -> bool {
        self.records.capacity() == 0
    }
}

impl PoolState {
    /// Records activations from now on, and forgets older records. Allocates.
    pub fn record_activations(&mut self) {
        let room = MAX_RECORDS + self.arrived.len() as usize;
        self.activations = Activations { records: Vec::with_capacity(room), missed: 0 };
    }

    /// How many items may have arrived.
    #[inline]
    pub(super) fn arrived_max(&self) -> u32 {
        let most = self.config.arrived_max;
        if self.activations.is_off() { most } else { most.min(RECORDED_ARRIVED_MAX) }
    }

    /// Hands the records over, oldest first; returns how many were lost for want of room.
    pub fn take_activations(&mut self, mut take: impl FnMut(&Activation)) -> u64 {
        for record in self.activations.records.drain(..) {
            take(&record);
        }
        mem::take(&mut self.activations.missed)
    }

    #[inline]
    pub(super) fn record_activation(&mut self, pwq: PwqId, item: NonNull<WorkItem>) {
        if !self.activations.is_off() {
            self.record(pwq, item);
        }
    }

    #[cold]
    fn record(&mut self, pwq: PwqId, item: NonNull<WorkItem>) {
        // SAFETY: callers have just put the item on the worklist, whose owner this is.
        let func = unsafe { item.as_ref() }.func();
        let activation = Activation { addr: item.as_ptr() as usize, func, wq: self.pwq(pwq).wq };
        let Activations { records, missed } = &mut self.activations;
        if records.len() < records.capacity() {
            records.push(activation);
        } else {
            *missed += 1;
        }
    }
}
