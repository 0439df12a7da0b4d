//! Which items have become active, for whoever traces: the core only takes notes, the driver looks
//! at them and says when.
//!
//! Off, which is the default, it costs one branch per queueing. KERNEL: the
//! `workqueue_activate_work` trace event — same moments: put on the worklist when queued, or when a
//! slot comes free; not barriers. Items of a batch have one slot, which goes from one to the next:
//! each becomes active when it is [begun](crate::Batch::begin), without the lock, so it is the
//! driver that notes them, just behind that: who queues such an item again at that moment may be
//! noted before.

use alloc::vec::Vec;
use core::mem;
use core::ptr::NonNull;

use super::PoolState;
use super::batch::ARRIVED_MAX;
use crate::ids::{PwqId, WqKey};
use crate::work::{WorkFn, WorkItem};

/// Notes that nobody fetches are not made any more: more than one hold of the lock makes where all
/// that has arrived is listed.
const MAX_NOTES: usize = 2 * ARRIVED_MAX as usize;

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

/// The notes; without room for any while they are off.
#[derive(Debug, Default)]
pub(super) struct Activations {
    notes: Vec<Activation>,
    missed: u64,
}

impl Activations {
    pub(super) const fn off() -> Self {
        Self { notes: Vec::new(), missed: 0 }
    }
}

impl PoolState {
    /// Takes notes of activations from now on, and forgets older ones. Allocates.
    pub fn note_activations(&mut self) {
        self.activations = Activations { notes: Vec::with_capacity(MAX_NOTES), missed: 0 };
    }

    /// Hands the notes over, oldest first; returns how many could not be made for want of room.
    pub fn take_activations(&mut self, mut take: impl FnMut(&Activation)) -> u64 {
        for note in self.activations.notes.drain(..) {
            take(&note);
        }
        mem::take(&mut self.activations.missed)
    }

    #[inline]
    pub(super) fn note_activation(&mut self, pwq: PwqId, item: NonNull<WorkItem>) {
        if self.activations.notes.capacity() != 0 {
            self.note(pwq, item);
        }
    }

    #[cold]
    fn note(&mut self, pwq: PwqId, item: NonNull<WorkItem>) {
        // SAFETY: callers have just put the item on the worklist, whose owner this is.
        let func = unsafe { item.as_ref() }.func();
        let activation = Activation { addr: item.as_ptr() as usize, func, wq: self.pwq(pwq).wq };
        let Activations { notes, missed } = &mut self.activations;
        if notes.len() < MAX_NOTES {
            notes.push(activation);
        } else {
            *missed += 1;
        }
    }
}
