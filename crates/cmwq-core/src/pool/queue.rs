//! Into the pool: queueing, which worker to wake for it, `max_active`, activation, and the counts
//! of a leaving item.
//!
//! Why: docs/decisions/one-wake-up-at-a-time.md

use core::ptr::NonNull;

use super::{Effects, Kick, PoolState, Rule};
use crate::ids::{PwqId, PwqRef, WorkerId, WqKey};
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

/// How an item has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Its function has returned. A barrier's, too, if that was run.
    Finished,
    /// It is a barrier, and was [passed](PoolState::pass_barrier).
    Passed,
    /// It was taken back.
    Cancelled,
}

impl PoolState {
    /// Queues an item for which the caller, guest `id`, is going to wait. It is the guest's at once
    /// if no other item waits in the pool and its queue's limits have room: nobody is woken then,
    /// and all books are as if a worker had claimed it.
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
        if self.is_behind_others() {
            // SAFETY: the caller owns the item's PENDING.
            unsafe { item.as_ref() }.set_in_transit(self.config.id);
            // SAFETY: as above.
            return self.queue_behind(unsafe { Transit::one(item, pwq) });
        }
        // SAFETY: passed on to the caller.
        unsafe { self.enqueue_now(pwq, item) }
    }

    /// Whether what is queued now [arrives](super::arrived): its turn comes behind other items, and
    /// a worker that comes for those may take it along.
    #[inline]
    pub(super) fn is_behind_others(&self) -> bool {
        let are_others = self.work_waits() && self.keeps(Rule::QueuesBehindOthers);
        self.makes_batches() && are_others
    }

    /// Queues items in transit behind all that wait.
    #[inline(never)]
    pub(super) fn queue_behind(&mut self, items: Transit) -> Kick {
        self.arrive(items);
        // Behind a batch that is out an item waits for its worker, which runs.
        if !self.is_behind() {
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
        if self.is_behind_others() {
            // SAFETY: the caller promises a valid item.
            if !unsafe { item.as_ref() }.claim_for(seen, self.config.id) {
                return Enqueued::Changed;
            }
            // SAFETY: the item is now ours, and in transit.
            return Enqueued::Queued(self.queue_behind(unsafe { Transit::one(item, pwq) }));
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

    #[inline(never)]
    unsafe fn insert_inactive(&mut self, pwq: PwqId, node: list::Node) {
        let p = self.pwq(pwq);
        let is_first = p.inactive.is_empty();
        // SAFETY: (alive) by the caller's promise, (locked) by `&mut self`.
        unsafe { p.inactive.push_back(node) };
        if is_first {
            self.touch(pwq);
        }
        self.had_inactive = true;
    }

    /// Activates inactive items of a pwq as long as it gets slots.
    pub(crate) fn activate_inactive(&mut self, pwq: PwqId) {
        let (at, keeps_plug) = (self.pwq_ref(pwq), self.keeps(Rule::PluggedStartsNothing));
        loop {
            let p = self.pwq(pwq);
            if p.inactive.is_empty() || !p.try_activate_one(at, keeps_plug) {
                return;
            }
            self.activate_first(pwq);
        }
    }

    /// Moves the first inactive item, with its barriers, to the worklist. The slot is already
    /// taken.
    fn activate_first(&mut self, pwq: PwqId) {
        let first = self.pwq(pwq).inactive.first().expect("nothing to activate");
        // SAFETY: `first` is a linked item of this pool.
        let at = unsafe { WorkItem::of_node(first) };
        // SAFETY: as above.
        let item = unsafe { at.as_ref() };
        item.update_queued(item.word().with_inactive(false));
        // SAFETY: as above.
        unsafe { self.move_chain_to_worklist(first) };
        self.record_activation(pwq, at);
        if self.pwq(pwq).inactive.is_empty() {
            self.touch(pwq);
        }
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

    /// The last step of an item that has left: counters, colours, flushes, slots.
    ///
    /// KERNEL: `pwq_dec_nr_in_flight` — same, but a freed slot of the node is handed to another
    /// pool by the returned effect instead of under two locks.
    #[inline(always)]
    pub(crate) fn dec_in_flight(
        &mut self,
        pwq: PwqId,
        color: u8,
        inactive: bool,
        how: Left,
    ) -> Effects {
        let mut effects = Effects::NONE;
        let (flushed, retired) = (self.keeps(Rule::FlushedTells), self.keeps(Rule::RetiredTells));
        let p = self.pwq(pwq);
        match how {
            Left::Finished => p.counts.count_completed(),
            Left::Passed => p.counts.count_batch(1),
            Left::Cancelled => {}
        }
        if inactive && how != Left::Cancelled {
            p.nr_barriers -= 1;
        }
        let n = &mut p.nr_in_flight[usize::from(color)];
        *n -= 1;
        if *n == 0 && p.flush_color == Some(color) {
            p.flush_color = None;
            effects.flush_done = flushed.then_some(p.wq);
        }
        if p.retired && p.is_idle() && retired {
            effects.retired = Some(p.wq);
        }
        if !inactive {
            if p.node.is_none() && p.inactive.is_empty() {
                p.set_active(p.nr_active - 1);
            } else {
                effects.grant = self.dec_active(pwq);
            }
        }
        effects
    }

    #[inline]
    fn dec_active(&mut self, pwq: PwqId) -> Option<PwqRef> {
        let p = self.pwq(pwq);
        p.set_active(p.nr_active - 1);
        if let Some(node) = &p.node {
            let has_use = !p.inactive.is_empty() && !p.plugged && p.nr_active < p.max_active;
            if !has_use || !node.may_keep(p.node_waiting, p.kept) {
                p.kept = 0;
                let has_inactive = !p.inactive.is_empty();
                let grant = self.put_shared_slot(pwq);
                if has_inactive {
                    // Items that the pwq's own limit held up stand in line now.
                    self.activate_inactive(pwq);
                }
                return grant;
            }
            p.kept = p.kept.saturating_add(1);
            p.set_active(p.nr_active + 1);
            self.activate_first(pwq);
            self.leave_line(pwq);
            return None;
        }
        if self.keeps(Rule::SlotsActivate) {
            self.activate_inactive(pwq);
        }
        None
    }

    /// A pwq without inactive items leaves the line for slots: its later items go to the end of the
    /// line.
    #[inline]
    fn leave_line(&mut self, pwq: PwqId) {
        let at = self.pwq_ref(pwq);
        let p = self.pwq(pwq);
        if p.node_waiting && p.inactive.is_empty() {
            // If the pwq is not in the line any more, a slot is on its way to it.
            p.node_waiting = !p.node.as_ref().is_some_and(|node| node.leave(at));
        }
    }

    fn put_shared_slot(&mut self, pwq: PwqId) -> Option<PwqRef> {
        let p = self.pwqs.get(pwq.0)?;
        let mut granted = p.node.as_ref()?.put()?;
        // A slot that comes back to this pool is used at once; `grant` may pass it on.
        while granted.pool == self.config.id {
            granted = self.accept_slot(granted.pwq)?;
        }
        Some(granted)
    }

    /// A pwq of this pool was given a slot of its node (by
    /// [`NodeSlots::put`](crate::NodeSlots::put) or a raised limit). Returns which worker to wake,
    /// and the next pwq, of another pool, if this one does not need the slot any more.
    ///
    /// KERNEL: `node_activate_pending_pwq` — same fairness: one item, then to the end of the line.
    pub fn grant(&mut self, pwq: PwqId) -> (Kick, Option<PwqRef>) {
        let mut grant = self.accept_slot(pwq);
        while let Some(next) = grant.filter(|next| next.pool == self.config.id) {
            grant = self.accept_slot(next.pwq);
        }
        (self.kick(), grant)
    }

    fn accept_slot(&mut self, pwq: PwqId) -> Option<PwqRef> {
        let passes_on = self.keeps(Rule::GrantsArePassedOn);
        let Some(p) = self.pwqs.get_mut(pwq.0) else {
            debug_assert!(false, "a removed pwq waited for a slot");
            return None;
        };
        p.node_waiting = false;
        if p.inactive.is_empty() || p.plugged || p.nr_active >= p.max_active {
            return p.node.as_ref().filter(|_| passes_on)?.put();
        }
        if let Some(node) = p.node.as_ref().filter(|node| node.is_exceeded()) {
            let grant = node.put();
            // It stands in line again.
            self.activate_inactive(pwq);
            return grant;
        }
        p.set_active(p.nr_active + 1);
        self.activate_first(pwq);
        self.activate_inactive(pwq);
        None
    }

    /// Changes `max_active` of a pwq with a limit of its own; inactive items start in order if it
    /// rose.
    pub fn set_max_active(&mut self, pwq: PwqId, max_active: u32) -> Kick {
        self.pwq(pwq).max_active = max_active;
        self.activate_inactive(pwq);
        self.kick()
    }

    /// Prepares a pwq for a flush; `true` if the flush has to wait for it.
    ///
    /// KERNEL: `flush_workqueue_prep_pwqs`, one pwq — same.
    #[must_use]
    pub(crate) fn flush_prep(
        &mut self,
        pwq: PwqId,
        flush: Option<u8>,
        work_color: Option<u8>,
    ) -> bool {
        self.assert_caught_up();
        self.color_arrived(pwq);
        let p = self.pwq(pwq);
        if let Some(color) = work_color {
            p.work_color = color;
        }
        let Some(color) = flush else { return false };
        debug_assert!(p.flush_color.is_none(), "two flushes wait for one pwq");
        if p.nr_in_flight[usize::from(color)] == 0 {
            return false;
        }
        p.flush_color = Some(color);
        true
    }

    /// The queue of a pwq.
    #[must_use]
    pub fn pwq_wq(&self, pwq: PwqId) -> Option<WqKey> {
        self.pwqs.get(pwq.0).map(|p| p.wq)
    }
}

impl crate::pwq::Pwq {
    /// Takes a slot for one item. KERNEL: `pwq_tryinc_nr_active` — same.
    #[inline]
    fn try_activate_one(&mut self, at: PwqRef, keeps_plug: bool) -> bool {
        if (self.plugged && keeps_plug) || self.nr_active >= self.max_active {
            return false;
        }
        let got = match &self.node {
            None => true,
            Some(_) if self.node_waiting => false,
            Some(node) => {
                let got = node.try_get(at);
                self.node_waiting = !got;
                got
            }
        };
        if got {
            self.set_active(self.nr_active + 1);
        }
        got
    }
}
