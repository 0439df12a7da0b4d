//! Barriers: `flush_work` waits by gluing an item of its own, the barrier, behind the item it waits
//! for.
//!
//! A barrier only reports that its turn has come. So a worker that has just ended an item need not
//! run the barriers linked to it: it [passes](PoolState::pass_barrier) them, which takes a fifth of
//! a run. A barrier that is met otherwise (its item was taken back, a guest is at work, runs are
//! traced) is run like any other item.
//!
//! Why: docs/decisions/barriers-are-passed.md

use core::ptr::NonNull;

use crate::ids::{WorkerId, WqKey};
use crate::list;
use crate::pool::{Effects, PoolState};
use crate::word::WorkWord;
use crate::work::WorkItem;

impl PoolState {
    /// The queue on whose account this pool has the item queued or runs it.
    #[must_use]
    pub fn wq_of(&self, item: &WorkItem) -> Option<WqKey> {
        if let Some(at) = item.word().pwq().filter(|at| at.pool == self.id()) {
            return self.pwq_wq(at.pwq);
        }
        let (_, pwq, _) = self.executing(core::ptr::from_ref(item) as usize, item.func())?;
        self.pwq_wq(pwq)
    }
}

/// A barrier that is over.
#[must_use]
#[derive(Debug)]
pub struct Passed {
    /// The caller owns it. The thread that waits for it is to be woken once the lock is dropped,
    /// and may free it then.
    pub barrier: NonNull<WorkItem>,
    /// Whether this is the last that can be passed before the worker's next item.
    pub is_last: bool,
    /// What else to do. Never a kick, since a barrier holds no slot.
    pub effects: Effects,
}

/// What a flush of one item found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushTarget {
    /// Neither queued on nor run by this pool: nothing to wait for here.
    Idle,
    /// Queued; the barrier now follows it.
    Queued,
    /// Run by this worker, which runs the barrier next.
    Running(WorkerId),
}

impl PoolState {
    /// Glues `barrier` to the last queueing of `target`: behind it if it is queued here, else to
    /// the worker that runs it. The barrier carries the target's colour, so a flush of the queue
    /// waits for it too; it never counts in `nr_active` and cannot be cancelled.
    ///
    /// KERNEL: `start_flush_work`, `insert_wq_barrier` — same.
    ///
    /// # Safety
    /// `target` must be valid. `barrier` must be valid, on no list, known to the caller alone, and
    /// stay where it is until its function has run or it was
    /// [passed](PoolState::pass_barrier), if the result is not [`FlushTarget::Idle`].
    pub unsafe fn insert_barrier(
        &mut self,
        target: NonNull<WorkItem>,
        barrier: NonNull<WorkItem>,
    ) -> FlushTarget {
        // SAFETY: the caller promises validity.
        let (target_ref, barrier_ref) = unsafe { (target.as_ref(), barrier.as_ref()) };
        let word = target_ref.word();
        let node = WorkItem::node(barrier);
        if let Some(at) = word.pwq().filter(|at| at.pool == self.id()) {
            let queued = WorkWord::queued(at, word.color(), true);
            barrier_ref.set_own(queued.with_linked(word.is_linked()));
            target_ref.update_queued(word.with_linked(true));
            // SAFETY: (queued): the target is linked here; the barrier is (alive) by the caller's
            // promise.
            unsafe { list::insert_after(node, WorkItem::node(target)) };
            self.pwq_add_barrier(at.pwq, word.color());
            return FlushTarget::Queued;
        }
        let addr = target.as_ptr() as usize;
        let Some((id, pwq, color)) = self.executing(addr, target_ref.func()) else {
            return FlushTarget::Idle;
        };
        let at = crate::ids::PwqRef { pool: self.id(), pwq };
        let scheduled = self.scheduled_mut(id);
        // At the head: the barrier waits for the running item only, not for others scheduled behind
        // it.
        barrier_ref.set_own(WorkWord::queued(at, color, true));
        // SAFETY: as above.
        unsafe { scheduled.push_front(node) };
        self.pwq_add_barrier(pwq, color);
        FlushTarget::Running(id)
    }
}
