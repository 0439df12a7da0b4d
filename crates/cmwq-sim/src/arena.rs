//! The work items of a run, in memory that does not move, and every unsafe call into the core.
//!
//! Named invariants, referred to by the `SAFETY` comments:
//!
//! - *(pinned)* slots are allocated once, never moved, and freed only by `Drop`; the engine
//!   drops an arena only when nothing is on a list or on the wheel, and else leaks it.
//! - *(alone)* a simulation runs on one thread, which stands for the lock of every pool and of the
//!   wheel.
//! - *(whole)* pointers given to the core have the provenance of the whole slot, so those that come
//!   back may be cast to it.

use std::mem::offset_of;
use std::ptr::NonNull;

use cmwq_core::{
    Enqueued, FlushTarget, Grab, Inbox, Kick, PoolId, PoolState, PwqId, Timer, Wheel, WorkItem,
    WorkWord, WorkerId,
};

use crate::Nanos;

#[repr(C)]
struct Slot {
    work: WorkItem,
    /// `Name`, packed: twice the number, and 1 for a barrier.
    name: u64,
    timer: Timer,
}

/// What a work item stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// An item of the plan.
    Item(usize),
    /// The barrier of a wait.
    Barrier(usize),
}

/// The slots; items first.
#[derive(Debug)]
pub(crate) struct Arena {
    /// In one allocation, so that items that are used one after the other lie side by side.
    items: NonNull<[Slot]>,
    barriers: Vec<NonNull<Slot>>,
    free_barriers: Vec<usize>,
}

unsafe extern "C" fn item_function(_: *mut WorkItem) {
    unreachable!("the simulator runs programs, not functions");
}

unsafe extern "C" fn barrier_function(_: *mut WorkItem) {
    unreachable!("the simulator completes waits itself");
}

impl Slot {
    fn new(name: Name) -> Self {
        let (func, name): (cmwq_core::WorkFn, _) = match name {
            Name::Item(id) => (item_function, 2 * id as u64),
            Name::Barrier(id) => (barrier_function, 2 * id as u64 + 1),
        };
        Self { work: WorkItem::new(func), name, timer: Timer::new() }
    }

    fn name(&self) -> Name {
        let id = (self.name / 2) as usize;
        if self.name & 1 == 0 { Name::Item(id) } else { Name::Barrier(id) }
    }
}

impl Arena {
    pub(crate) fn new(nr_items: usize) -> Self {
        let items: Box<[Slot]> = (0..nr_items).map(|id| Slot::new(Name::Item(id))).collect();
        let items = NonNull::from(Box::leak(items));
        Self { items, barriers: Vec::new(), free_barriers: Vec::new() }
    }

    fn slot(&self, id: usize) -> NonNull<Slot> {
        assert!(id < self.items.len(), "no such item");
        // SAFETY: inside the allocation.
        unsafe { self.items.cast::<Slot>().add(id) }
    }

    fn work(&self, name: Name) -> NonNull<WorkItem> {
        match name {
            Name::Item(id) => self.slot(id).cast(),
            Name::Barrier(id) => self.barriers[id].cast(),
        }
    }

    fn item(&self, id: usize) -> &WorkItem {
        // SAFETY: (pinned), and only shared references to the work are ever made.
        unsafe { self.work(Name::Item(id)).as_ref() }
    }

    fn timer(&self, id: usize) -> NonNull<Timer> {
        // SAFETY: stays inside the slot, (pinned).
        unsafe { self.slot(id).byte_add(offset_of!(Slot, timer)).cast() }
    }

    /// What a claimed work item stands for.
    pub(crate) fn name_of(work: *mut WorkItem) -> Name {
        // SAFETY: the core hands back only what it was given: (whole), (pinned).
        unsafe { (*work.cast::<Slot>()).name() }
    }

    // ---- the word

    pub(crate) fn word(&self, id: usize) -> WorkWord {
        self.item(id).word()
    }

    /// Sets `PENDING`; returns the word as it was.
    pub(crate) fn claim(&self, id: usize) -> WorkWord {
        self.item(id).claim()
    }

    /// Sets `PENDING` of an item that is as `seen`, on its way to `pool`.
    pub(crate) fn claim_for(&self, id: usize, seen: WorkWord, pool: PoolId) {
        let is_claimed = self.item(id).claim_for(seen, pool);
        debug_assert!(is_claimed, "nobody else is there to change it");
    }

    /// Gives `PENDING` up without queueing; `word` is what it was when it was claimed.
    pub(crate) fn release(&self, id: usize, word: WorkWord) {
        self.item(id).release(word);
    }

    /// The pwq of `wq` on which `pool` is running the item.
    pub(crate) fn executing_on(
        &self,
        pool: &PoolState,
        id: usize,
        wq: cmwq_core::WqKey,
    ) -> Option<PwqId> {
        let item = self.item(id);
        pool.executing_on(std::ptr::from_ref(item) as usize, item.func(), wq)
    }

    // ---- lists

    /// Queues an item whose `PENDING` the caller owns.
    pub(crate) fn enqueue(&self, pool: &mut PoolState, pwq: PwqId, id: usize) -> Kick {
        // SAFETY: (pinned), (alone), (whole); the caller owns `PENDING`.
        unsafe { pool.enqueue(pwq, self.work(Name::Item(id))) }
    }

    /// Queues an item in one step, if it is as `seen`.
    pub(crate) fn enqueue_idle(
        &self,
        pool: &mut PoolState,
        pwq: PwqId,
        id: usize,
        seen: WorkWord,
    ) -> Enqueued {
        // SAFETY: (pinned), (alone), (whole).
        unsafe { pool.enqueue_idle(pwq, self.work(Name::Item(id)), seen) }
    }

    /// Pushes an item that was [claimed](Self::claim_for) for a pool into its inbox. `false`: it
    /// has to be emptied.
    pub(crate) fn push(&self, inbox: &Inbox, pwq: PwqId, id: usize) -> bool {
        // SAFETY: (pinned), (alone), (whole); `PENDING` is the caller's.
        unsafe { inbox.push(self.work(Name::Item(id)), pwq) }
    }

    /// The worker begins the next item of its batch. `None`: it was called back.
    pub(crate) fn begin(pool: &PoolState, worker: WorkerId) -> Option<usize> {
        let batch = pool.batch_for(worker)?;
        // SAFETY: by its own worker, as often as the claim says: the engine counts.
        let (item, _) = unsafe { batch.begin(pool.id()) }?;
        match Self::name_of(item) {
            Name::Item(id) => Some(id),
            Name::Barrier(_) => unreachable!("barriers do not come through an inbox"),
        }
    }

    /// Takes an item off the pool's lists.
    pub(crate) fn try_grab(&self, pool: &mut PoolState, id: usize) -> Grab {
        // SAFETY: (pinned), (alone).
        unsafe { pool.try_grab(self.work(Name::Item(id))) }
    }

    /// Glues a new barrier to `target`; its number, unless there is nothing to wait for.
    pub(crate) fn insert_barrier(&mut self, pool: &mut PoolState, target: usize) -> Option<usize> {
        let id = self.free_barriers.pop().unwrap_or_else(|| {
            let slot = Slot::new(Name::Barrier(self.barriers.len()));
            self.barriers.push(NonNull::from(Box::leak(Box::new(slot))));
            self.barriers.len() - 1
        });
        let (target, barrier) = (self.work(Name::Item(target)), self.work(Name::Barrier(id)));
        // SAFETY: (pinned), (alone), (whole); the barrier is idle, because it is on the free list
        // or new.
        if unsafe { pool.insert_barrier(target, barrier) } == FlushTarget::Idle {
            self.free_barriers.push(id);
            return None;
        }
        Some(id)
    }

    /// The barrier has run.
    pub(crate) fn free_barrier(&mut self, id: usize) {
        self.free_barriers.push(id);
    }

    // ---- timers

    pub(crate) fn arm(&self, wheel: &mut Wheel, id: usize, at: Nanos) {
        // SAFETY: (pinned), (alone); the caller owns `PENDING`, so the timer is not armed.
        unsafe { wheel.arm(self.timer(id), at) };
    }

    pub(crate) fn is_armed(&self, wheel: &Wheel, id: usize) -> bool {
        // SAFETY: (pinned), (alone); a run has one wheel.
        unsafe { wheel.is_armed(self.timer(id)) }
    }

    /// `false`: the timer was not armed.
    pub(crate) fn disarm(&self, wheel: &mut Wheel, id: usize) -> bool {
        // SAFETY: (pinned), (alone); a run has one wheel.
        unsafe { wheel.cancel(self.timer(id)) }
    }

    /// The item whose timer is due, see [`Wheel::expire_some`].
    pub(crate) fn expire_some(wheel: &mut Wheel, now: Nanos, budget: &mut usize) -> Option<usize> {
        let timer = wheel.expire_some(now, budget)?;
        // SAFETY: every timer on the wheel is a member of a slot: (whole), (pinned).
        let name =
            unsafe { timer.byte_sub(offset_of!(Slot, timer)).cast::<Slot>().as_ref() }.name();
        match name {
            Name::Item(id) => Some(id),
            Name::Barrier(_) => unreachable!("barriers have no timer"),
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for slot in &self.barriers {
            // SAFETY: allocated by `Box` in `insert_barrier`, freed once, on no list by (pinned).
            drop(unsafe { Box::from_raw(slot.as_ptr()) });
        }
        // SAFETY: allocated by `Box` in `new`, freed once, on no list by (pinned).
        drop(unsafe { Box::from_raw(self.items.as_ptr()) });
    }
}
