//! Into the pool: queueing, and which worker to wake for it.
//!
//! Why: docs/decisions/one-wake-up-at-a-time.md

use core::ptr::NonNull;

use super::{Kick, PoolState, Rule};
use crate::ids::{PwqId, WorkerId, WqKey};
use crate::inbox::Transit;
use crate::list;
use crate::word::WorkWord;
use crate::work::WorkItem;
use crate::worker::Claim;

/// What became of an attempt to queue an item that seemed idle.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// This call queued it.
    Queued(Kick),
    /// The word changed meanwhile: [`WorkItem::claim`] it and decide again.
    Changed,
}

/// What became of an item that was [offered](PoolState::offer).
#[must_use]
#[derive(Debug)]
pub enum Offered {
    /// It is the guest's, who runs it now.
    Begun(Claim),
    /// It is queued.
    Queued(Kick),
}

impl PoolState {
    /// Queues an item for which the caller, guest `id`, is going to wait. It is the guest's at once
    /// if no other item waits in the pool and its queue's limits have room: nobody is woken then,
    /// and all counts are as if a worker had claimed it.
    ///
    /// KERNEL: none.
    ///
    /// # Safety
    /// As for [`enqueue`](Self::enqueue).
    pub unsafe fn offer(&mut self, id: WorkerId, pwq: PwqId, item: NonNull<WorkItem>) -> Offered {
        if self.work_waits() {
            // SAFETY: passed on to the caller.
            return Offered::Queued(unsafe { self.enqueue(pwq, item) });
        }
        let word = self.admit(pwq, None);
        // SAFETY: the caller promises a valid item.
        unsafe { item.as_ref() }.set_queued(word);
        if word.is_inactive() {
            // SAFETY: the caller owns the item and keeps it alive.
            return Offered::Queued(unsafe { self.insert(pwq, item, word) });
        }
        self.record_activation(pwq, item);
        Offered::Begun(self.start(id, WorkItem::node(item)))
    }

    /// Queues an item whose `PENDING` the caller owns.
    ///
    /// KERNEL: `__queue_work` from step 9 on, `insert_work` — same.
    ///
    /// # Safety
    /// `item` must be valid and stay where it is until its function is entered or it is taken back;
    /// the caller must own its `PENDING` bit.
    #[inline]
    pub unsafe fn enqueue(&mut self, pwq: PwqId, item: NonNull<WorkItem>) -> Kick {
        if self.has_to_arrive() {
            // SAFETY: the caller owns the item's PENDING.
            unsafe { item.as_ref() }.set_in_transit(self.config.id);
            // SAFETY: as above.
            return self.queue_to_arrive(unsafe { Transit::one(item, pwq) });
        }
        // SAFETY: passed on to the caller.
        unsafe { self.enqueue_now(pwq, item) }
    }

    /// Whether what is queued now [arrives](super::arrived): its turn comes behind other items, and
    /// a worker that comes for those may take it along.
    #[inline]
    pub(super) fn has_to_arrive(&self) -> bool {
        let are_others = self.work_waits() && self.keeps(Rule::QueuesBehindOthers);
        self.makes_batches() && are_others
    }

    /// Queues items in transit behind all that wait.
    #[inline(never)]
    pub(super) fn queue_to_arrive(&mut self, items: Transit) -> Kick {
        self.arrive(items);
        // Behind a batch that is out an item waits for its worker, which runs.
        if !self.has_batch_out() {
            let _ = self.first_to_start();
        }
        self.kick()
    }

    /// As [`enqueue`](Self::enqueue), but ahead of the arrived items.
    ///
    /// # Safety
    /// As for [`enqueue`](Self::enqueue).
    #[inline]
    pub(super) unsafe fn enqueue_now(&mut self, pwq: PwqId, item: NonNull<WorkItem>) -> Kick {
        // SAFETY: passed on to the caller.
        if unsafe { self.list(pwq, item, None) } { self.kick() } else { Kick::None }
    }

    /// Puts an item on the worklist, or behind the limit of its pwq, in `color`, or the current
    /// colour of the pwq if that is `None`. `true`: it may start. Nobody is woken.
    ///
    /// # Safety
    /// As for [`enqueue`](Self::enqueue).
    #[inline(always)]
    pub(super) unsafe fn list(
        &mut self,
        pwq: PwqId,
        item: NonNull<WorkItem>,
        color: Option<u8>,
    ) -> bool {
        let word = self.admit(pwq, color);
        // SAFETY: the caller promises a valid item.
        unsafe { item.as_ref() }.set_queued(word);
        // SAFETY: the caller owns the item and keeps it alive.
        unsafe { self.put(pwq, item, word) }
    }

    /// Queues an item in one step if its word is still `seen`, an idle word whose last pool is this
    /// one or none. If the last pool is another one, the caller must own `PENDING` before it looks
    /// whether that pool runs the item; otherwise the item could be queued, started and finished
    /// there in between.
    ///
    /// # Safety
    /// As for [`enqueue`](Self::enqueue), except for `PENDING`.
    #[inline]
    pub unsafe fn enqueue_idle(
        &mut self,
        pwq: PwqId,
        item: NonNull<WorkItem>,
        seen: WorkWord,
    ) -> Enqueued {
        debug_assert!(seen.pool().is_none_or(|pool| pool == self.config.id));
        if self.pwq(pwq).node.is_some() {
            // Giving a shared slot back could hand it to another pool; owning `PENDING` first
            // avoids that.
            return Enqueued::Changed;
        }
        if self.has_to_arrive() {
            // SAFETY: the caller promises a valid item.
            if !unsafe { item.as_ref() }.claim_for(seen, self.config.id) {
                return Enqueued::Changed;
            }
            // SAFETY: the item is now ours, and in transit.
            return Enqueued::Queued(self.queue_to_arrive(unsafe { Transit::one(item, pwq) }));
        }
        let word = self.admit(pwq, None);
        // SAFETY: the caller promises a valid item.
        if unsafe { item.as_ref() }.queue_from_idle(seen, word) {
            // SAFETY: the item is now ours.
            return Enqueued::Queued(unsafe { self.insert(pwq, item, word) });
        }
        self.unadmit(pwq, word);
        Enqueued::Changed
    }

    /// Counts an item in, takes a slot for it if order allows, and makes the word.
    #[inline(always)]
    fn admit(&mut self, pwq: PwqId, color: Option<u8>) -> WorkWord {
        let at = self.pwq_ref(pwq);
        let keeps_plug = self.keeps(Rule::PluggedStartsNothing);
        let p = self.pwq(pwq);
        let color = color.unwrap_or(p.work_color);
        let active = p.inactive.is_empty() && p.try_activate_one(at, keeps_plug);
        p.nr_in_flight[usize::from(color)] += 1;
        WorkWord::queued(at, color, !active)
    }

    #[cold]
    fn unadmit(&mut self, pwq: PwqId, word: WorkWord) {
        let p = self.pwq(pwq);
        p.nr_in_flight[usize::from(word.color())] -= 1;
        if !word.is_inactive() {
            p.set_active(p.nr_active - 1);
        }
    }

    /// Puts an admitted item on the worklist, or behind the limit of its pwq, as its word says.
    /// `true`: it may start.
    ///
    /// # Safety
    /// As for [`enqueue`](Self::enqueue).
    #[inline(always)]
    unsafe fn put(&mut self, pwq: PwqId, item: NonNull<WorkItem>, word: WorkWord) -> bool {
        let node = WorkItem::node(item);
        // SAFETY: the item is owned by this call, so its link may be read.
        debug_assert!(!unsafe { list::is_linked(node) }, "a queued item was queued again");
        if word.is_inactive() {
            // SAFETY: passed on to the caller.
            unsafe { self.insert_inactive(pwq, node) };
            return false;
        }
        // SAFETY: as above.
        unsafe { self.push_work(node) };
        self.record_activation(pwq, item);
        true
    }

    /// As [`put`](Self::put), and says who is to be woken for it.
    ///
    /// # Safety
    /// As for [`enqueue`](Self::enqueue).
    #[inline(always)]
    unsafe fn insert(&mut self, pwq: PwqId, item: NonNull<WorkItem>, word: WorkWord) -> Kick {
        // SAFETY: passed on to the caller.
        if unsafe { self.put(pwq, item, word) } { self.kick() } else { Kick::None }
    }

    /// Which worker to wake as things stand.
    ///
    /// KERNEL: `kick_pool` — same decision; the wake itself is the driver's, after the unlock.
    #[inline]
    pub fn kick(&mut self) -> Kick {
        if !self.work_waits() {
            return Kick::None;
        }
        if self.nr_running >= self.config.concurrency {
            return if self.keeps(Rule::WatchAtCapacity) { Kick::Watch } else { Kick::None };
        }
        self.wake_idle()
    }

    /// Whether the idle worker that stands by has been woken, so that nobody else is.
    #[inline]
    pub(super) fn is_one_woken(&self) -> bool {
        let standby = self.idle_head.and_then(|id| self.workers.get(id.0));
        standby.is_some_and(|worker| worker.woken)
    }

    /// Wakes the idle worker that stands by.
    #[inline]
    pub(super) fn wake_idle(&mut self) -> Kick {
        let Some(id) = self.idle_head else {
            let is_needed = self.none_to_come() || self.is_refused_one_needed();
            return if is_needed { Kick::NeedFirst } else { Kick::None };
        };
        let worker = self.worker(id);
        if worker.woken {
            return Kick::None;
        }
        worker.woken = true;
        Kick::Wake(id)
    }

    /// Every worker has left or is leaving, and none is being created. Workers at work need not be
    /// asked whether they ever look again: by *(standby)* another one does.
    pub(super) fn none_to_come(&self) -> bool {
        let nr_dying = if self.keeps(Rule::DyingDoNotCount) { self.nr_dying } else { 0 };
        self.nr_workers == nr_dying && self.manager.is_none()
    }

    /// Moves `first` and what is linked to it to the end of the worklist.
    ///
    /// # Safety
    /// `first` must be linked on a list of this pool.
    pub(crate) unsafe fn move_chain_to_worklist(&mut self, first: list::Node) {
        // SAFETY: passed on to the caller; each node comes unlinked, (alive).
        unsafe { self.move_chain(first, |pool, node| pool.push_work(node)) };
    }

    /// Takes `first` and what is linked to it off their list, and has `put` put each elsewhere.
    ///
    /// KERNEL: `move_linked_works` — same.
    ///
    /// # Safety
    /// `first` must be linked on a list of this pool.
    pub(super) unsafe fn move_chain(
        &mut self,
        first: list::Node,
        mut put: impl FnMut(&mut Self, list::Node),
    ) {
        let mut node = first;
        loop {
            // `next` may be the sentinel of another list; it is used only if `linked` says it is an
            // item. SAFETY: `node` is linked on a list of this pool; (ring) gives its successor.
            let (linked, next) = unsafe {
                (WorkItem::of_node(node).as_ref().word().is_linked(), self.worklist.after(node))
            };
            // SAFETY: linked, (locked) by `&mut self`.
            unsafe { list::unlink(node) };
            put(self, node);
            match next {
                Some(next) if linked && self.keeps(Rule::ChainsMoveTogether) => node = next,
                _ => return,
            }
        }
    }

    /// The queue of a pwq.
    #[must_use]
    pub fn pwq_wq(&self, pwq: PwqId) -> Option<WqKey> {
        self.pwqs.get(pwq.0).map(|p| p.wq)
    }
}
