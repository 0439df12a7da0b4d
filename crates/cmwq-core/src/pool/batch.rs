//! Batches: items that a worker takes along under one hold of the lock, and their way back. See
//! [`crate::batch`].
//!
//! Items that are taken out of the pool's inbox while its worker is busy have *arrived*: they are
//! younger than those on the worklist, and still in transit. Most are never on a list, because a
//! batch takes them.
//!
//! - *(lag)* While a batch is out, the books lack those of its items that were begun: `current` and
//!   `seq` of its worker, and the counts of its pwq. [`PoolState::call_back`] makes the books
//!   right. Every event calls the batch back first, and so does queueing, since an item that comes
//!   to the worklist is younger than the batch. No batch stays out for long: an item always waits
//!   behind it, so the pool is watched, and the next look calls the batch back.
//! - *(one slot)* The items of a batch run one after the other, by one pwq and in one colour. So
//!   they share the slot, and the count in flight, of the item that was claimed first. The last
//!   item of the batch gives both back.
//! - *(coloured)* An arrived item that a flush has found has its colour in its link, and is counted
//!   in flight. It is older than the arrived items without a colour.
//! - One batch is out of a pool at a time, and only while its worker is the only one that may run:
//!   no other worker could have started its items. Another worker that may run takes the lock
//!   first, which calls the batch back.
//!
//! KERNEL: none; `process_one_work` takes the pool's lock for each item.

use alloc::sync::Arc;

use super::reading::Progress;
use super::{PoolState, Rule, bucket};
use crate::batch::{BATCH_MAX, Batch, Member};
use crate::ids::{PwqId, WorkerId};
use crate::inbox::{Tag, Transit};
use crate::worker::{Claim, Current};

/// The batch that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    worker: WorkerId,
    /// How many items it has, besides the one that was claimed first.
    count: u32,
    /// How many of these, the oldest, had a colour.
    nr_colored: u32,
}

/// LIMIT: so many items may have arrived, since one hold of the lock may have to list them all.
pub(super) const ARRIVED_MAX: u32 = 1024;

impl PoolState {
    /// Whether batches are made here.
    #[inline]
    #[must_use]
    pub fn makes_batches(&self) -> bool {
        self.config.batches.is_some() && self.config.concurrency == 1
    }

    /// Whether more items may [`arrive`](Self::arrive): a worker of the pool runs, and will come
    /// for them.
    #[inline]
    #[must_use]
    pub(crate) fn may_arrive(&self) -> bool {
        self.makes_batches() && self.is_at_capacity() && !self.is_crowded()
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.arrived.len() >= self.config.arrived_max
    }

    /// Takes over what was in the pool's inbox.
    #[inline]
    pub(crate) fn arrive(&mut self, items: Transit) {
        self.arrived.append(items);
    }

    /// Whether a batch is out, so that the books may be behind.
    #[inline]
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.out.is_some()
    }

    /// Makes the books right, and puts the arrived items on the worklist, where they can be found.
    /// To be called before an item is queued, since the arrived ones are older, and before an item
    /// is looked for or waited for. The worker that the items arrived for is at work and comes for
    /// them, so nobody has to be kicked. The inbox stays as it is.
    #[inline]
    pub fn catch_up(&mut self) {
        if self.is_behind() {
            self.call_back();
        }
        self.list_arrived();
    }

    /// As [`catch_up`](Self::catch_up), before an item is appended to the worklist.
    #[inline]
    pub(super) fn catch_up_to_queue(&mut self) {
        if self.keeps(Rule::QueueingCallsBack) {
            self.catch_up();
        } else {
            self.list_arrived();
        }
    }

    #[inline]
    fn list_arrived(&mut self) {
        if !self.arrived.is_empty() {
            while self.list_first_arrived() {}
        }
    }

    /// Puts the first arrived item on the worklist, or behind the limit of its pwq.
    #[inline]
    pub(super) fn list_first_arrived(&mut self) -> bool {
        let Some((tag, item)) = self.arrived.pop() else { return false };
        if let Some(color) = tag.color() {
            self.pwq(tag.pwq()).nr_in_flight[usize::from(color)] -= 1;
        }
        // SAFETY: the thread that pushed the item into the inbox owned its PENDING and keeps it
        // alive.
        let _ = unsafe { self.enqueue_in(tag.pwq(), item, tag.color()) };
        true
    }

    /// Gives the arrived items of a pwq its colour, which is about to change or to be waited for.
    pub(super) fn color_arrived(&mut self, pwq: PwqId) {
        let color = self.pwq(pwq).work_color;
        self.pwq(pwq).nr_in_flight[usize::from(color)] += self.arrived.color(pwq, color);
    }

    /// Debug builds check that the books are not read while they are behind.
    #[inline]
    pub(crate) fn assert_caught_up(&self) {
        debug_assert!(self.out.is_none(), "(lag)");
    }

    /// Calls the batch back: afterwards the books are right, and the items that were not begun have
    /// arrived again.
    #[cold]
    pub fn call_back(&mut self) {
        let Some(Out { worker, count, nr_colored }) = self.out.take() else { return };
        let begun = self.batch_of(worker).call_back().min(count);
        if begun < count {
            self.calm_claims = 0;
        }
        let before = self.current_of(worker);
        let first = if self.keeps(Rule::BatchesComeBack) { begun } else { count };
        for number in (first..count).rev() {
            let (item, _) = self.batch_of(worker).member(number);
            let tag = Tag::new(before.pwq, (number < nr_colored).then_some(before.color));
            // SAFETY: the item was not begun and never will be by that worker: its PENDING is the
            // pool's.
            unsafe { self.arrived.push_front(item, tag) };
        }
        if begun > 0 {
            let batch = self.batch_of(worker);
            let (item, func) = batch.member(begun - 1);
            let last_func = if begun == 1 { before.func } else { batch.member(begun - 2).1 };
            let addr = item.as_ptr() as usize;
            self.leave_bucket(worker, before.addr);
            let behind = self.busy[bucket(addr)].replace(worker);
            self.worker(worker).hash_next = behind;
            self.worker(worker).last_func = Some(last_func);
            self.turn_to(worker, begun, nr_colored.min(begun), Current { addr, func, ..before });
        }
    }

    /// Where the batches of worker `id` are, for the worker itself.
    #[must_use]
    pub fn batch_for(&self, id: WorkerId) -> Option<Arc<Batch>> {
        self.workers.get(id.0)?.batch.clone()
    }

    fn batch_of(&self, worker: WorkerId) -> &Batch {
        let worker = self.workers.get(worker.0).and_then(|worker| worker.batch.as_deref());
        worker.expect("a batch of nobody")
    }

    /// An item of the worker's batch, and its function.
    pub(super) fn member(&self, worker: WorkerId, number: u32) -> Member {
        self.batch_of(worker).member(number)
    }

    /// How far the batch is that is out.
    pub(super) fn batch_progress(&self) -> Option<Progress> {
        let Out { worker, count, nr_colored } = self.out?;
        let pwq = self.workers.get(worker.0)?.current?.pwq;
        let begun = self.batch_of(worker).begun().min(count);
        Some(Progress { worker, pwq, begun, count, nr_colored })
    }

    fn current_of(&mut self, worker: WorkerId) -> Current {
        self.worker(worker).current.expect("a batch of an idle worker")
    }

    /// Brings the books up to date: the worker has begun `count` more items, and finished as many.
    fn turn_to(&mut self, worker: WorkerId, count: u32, nr_colored: u32, now: Current) {
        self.progress += u64::from(count);
        let p = self.pwq(now.pwq);
        p.counts.count_batch(count);
        p.nr_in_flight[usize::from(now.color)] -= nr_colored;
        let worker = self.worker(worker);
        worker.seq += u64::from(count);
        worker.current = Some(now);
    }

    /// A worker has taken the lock behind its item. Usually the batch's worker after its last item;
    /// otherwise a worker that was blocked when the batch began, and the batch is called back.
    #[inline]
    pub(super) fn end_batch(&mut self, id: WorkerId) {
        let Some(Out { count, nr_colored, .. }) = self.out.take_if(|out| out.worker == id) else {
            return self.call_back();
        };
        let batch = self.batch_of(id);
        let begun = batch.end();
        debug_assert_eq!(begun, count, "a worker left its batch");
        let (_, func) = batch.member(count - 1);
        // The worker is still in the bucket of the first item. `finish` takes it out.
        let now = Current { func, ..self.current_of(id) };
        self.turn_to(id, count, nr_colored, now);
    }

    /// Lets the worker that has just claimed an item take others along.
    #[inline]
    pub(super) fn take_along(&mut self, id: WorkerId, claim: &mut Claim) {
        let Some(after) = self.config.batches.filter(|_| !self.arrived.is_empty()) else { return };
        self.calm_claims = self.calm_claims.saturating_add(1);
        let Some(doublings) = self.calm_claims.checked_sub(after) else { return };
        let most = 1 << doublings.min(BATCH_MAX.ilog2() as u8);
        let Some(out) = self.gather(id, most) else { return };
        claim.more = out.count;
        self.batch_of(id).open();
        self.out = Some(out);
    }

    /// Fills the worker's batch, with items that may use the slot of its current one.
    fn gather(&mut self, id: WorkerId, most: u32) -> Option<Out> {
        let is_only = self.makes_batches() && self.nr_running == 1 && self.worklist.is_empty();
        let has_barriers = !self.worker(id).scheduled.is_empty();
        if !is_only || has_barriers || self.items_wait_first() {
            return None;
        }
        let current = self.current_of(id);
        if current.inactive || !self.pwq(current.pwq).may_pass_on() {
            return None;
        }
        let mut out = Out { worker: id, count: 0, nr_colored: 0 };
        // One item is left, so that work waits and the pool is watched while the books are behind.
        while out.count < most && self.arrived.len() > 1 {
            let Some((member, is_colored)) = self.first_like(&current) else { break };
            let _ = self.arrived.pop();
            self.batch_of(id).set(out.count, member);
            out.count += 1;
            out.nr_colored += u32::from(is_colored);
        }
        let pwq = self.pwq(current.pwq);
        pwq.kept = pwq.kept.saturating_add(out.count);
        (out.count > 0).then_some(out)
    }

    /// The first arrived item, and whether it has a colour. `None` if its pwq or colour is not that
    /// of `current`, or a worker is running it.
    #[inline]
    fn first_like(&mut self, current: &Current) -> Option<(Member, bool)> {
        let (tag, item) = self.arrived.first().filter(|(tag, _)| tag.pwq() == current.pwq)?;
        if tag.color().unwrap_or(self.pwq(current.pwq).work_color) != current.color {
            return None;
        }
        // SAFETY: in transit to here, hence alive.
        let func = unsafe { item.as_ref() }.func();
        let is_running = self.find_executing(item.as_ptr() as usize, func).is_some();
        (!is_running).then_some(((item, func), tag.color().is_some()))
    }
}

#[cfg(feature = "explore")]
impl PoolState {
    /// The batch that is out, as a value.
    pub(super) fn batch_value(&self) -> Option<super::value::BatchValue> {
        let Out { worker, count, nr_colored } = self.out?;
        let batch = self.workers.get(worker.0)?.batch.as_deref()?;
        let items = (0..count).map(|number| batch.member(number).0.as_ptr() as usize).collect();
        Some(super::value::BatchValue { worker, items, begun: batch.begun(), nr_colored })
    }
}

impl crate::pwq::Pwq {
    /// Whether the slot of an item may go to the next one that arrives.
    #[inline]
    fn may_pass_on(&self) -> bool {
        let is_in_turn = self.inactive.is_empty() && !self.plugged;
        let may_keep = match &self.node {
            Some(node) => node.may_keep(self.node_waiting, self.kept),
            None => true,
        };
        is_in_turn && !self.cpu_intensive && self.nr_active <= self.max_active && may_keep
    }
}
