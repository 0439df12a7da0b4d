//! Batches: items that a worker takes along under one hold of the lock, and their way back. See
//! [`crate::batch`].
//!
//! What is taken out of the pool's inbox while its worker is busy has *arrived*: it is younger than
//! the worklist, and still in transit. Mostly it is never on a list, because a batch takes it.
//!
//! - *(lag)* While a batch is out, the books are behind by what was begun of it: `current` and
//!   `seq` of its worker, and the counts of its pwq. [`PoolState::call_back`] makes them right;
//!   every event needs that, and so does queueing, since what comes to the worklist is younger.
//!   What is not called back before does not last: while a batch is out something waits behind it,
//!   so whoever watches the pool looks, and calls it back.
//! - *(one slot)* The items of a batch run one after the other, by one pwq and in one colour. So
//!   they need no slot and no place among those in flight but those of the item that was claimed
//!   first, which go from one to the next. The last one gives them back.
//! - *(coloured)* What a flush found arrived has its colour in its link, and is counted among those
//!   in flight. It is older than what has none.
//! - One batch is out of a pool at a time, and only while its worker is the only one that may run:
//!   nobody else could have started its items. Who finds that one may asks with the lock.
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

/// LIMIT: more than this does not arrive, since some holder of the lock has to list it all.
pub(super) const ARRIVED_MAX: u32 = 1024;

impl PoolState {
    /// Whether batches are made here.
    #[inline]
    #[must_use]
    pub fn makes_batches(&self) -> bool {
        self.config.batches.is_some() && self.config.concurrency == 1
    }

    /// Whether more may [`arrive`](Self::arrive): its worker runs, and will come for it.
    #[inline]
    #[must_use]
    pub(crate) fn may_arrive(&self) -> bool {
        self.makes_batches() && self.is_at_capacity() && !self.is_crowded()
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.arrived.len() >= self.config.arrived_max
    }

    /// What was in the pool's inbox.
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

    /// Makes the books right and puts what has arrived on the worklist, where it can be found: to
    /// be called before anything is queued, which is younger, and by whoever looks for an item or
    /// waits for one. The worker for which it arrived is at work and comes for it, so nobody has to
    /// be kicked. What is in the inbox is left there.
    #[inline]
    pub fn catch_up(&mut self) {
        if self.is_behind() {
            self.call_back();
        }
        self.list_arrived();
    }

    /// As [`catch_up`](Self::catch_up), for who is about to append to the worklist.
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

    /// The first of what has arrived goes to the worklist, or behind its limit.
    #[inline]
    pub(super) fn list_first_arrived(&mut self) -> bool {
        let Some((tag, item)) = self.arrived.pop() else { return false };
        if let Some(color) = tag.color() {
            self.pwq(tag.pwq()).nr_in_flight[usize::from(color)] -= 1;
        }
        // SAFETY: who pushed it into the inbox owned its PENDING and keeps it alive.
        let _ = unsafe { self.enqueue_in(tag.pwq(), item, tag.color()) };
        true
    }

    /// The colour of a pwq is about to change, or to be waited for.
    pub(super) fn color_arrived(&mut self, pwq: PwqId) {
        let color = self.pwq(pwq).work_color;
        self.pwq(pwq).nr_in_flight[usize::from(color)] += self.arrived.color(pwq, color);
    }

    /// Debug builds check that nobody looks at books that are behind.
    #[inline]
    pub(crate) fn assert_caught_up(&self) {
        debug_assert!(self.out.is_none(), "(lag)");
    }

    /// Calls the batch back: the books are right, and what was not begun has arrived again.
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
            // SAFETY: it was not begun and never will be by that worker: its PENDING is the pool's.
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

    /// The worker has begun so many items more than the books say, and done as many.
    fn turn_to(&mut self, worker: WorkerId, count: u32, nr_colored: u32, now: Current) {
        self.progress += u64::from(count);
        let p = self.pwq(now.pwq);
        p.counts.count_batch(count);
        p.nr_in_flight[usize::from(now.color)] -= nr_colored;
        let worker = self.worker(worker);
        worker.seq += u64::from(count);
        worker.current = Some(now);
    }

    /// A worker has taken the lock behind its item: mostly that of the batch, behind its last one;
    /// or one that was blocked when that began.
    #[inline]
    pub(super) fn end_batch(&mut self, id: WorkerId) {
        let Some(Out { count, nr_colored, .. }) = self.out.take_if(|out| out.worker == id) else {
            return self.call_back();
        };
        let batch = self.batch_of(id);
        let begun = batch.end();
        debug_assert_eq!(begun, count, "a worker left its batch");
        let (_, func) = batch.member(count - 1);
        // Its bucket is that of the first item: it leaves it now.
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
        // One is left, so that work waits and somebody looks while the books are behind.
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

    /// What has arrived first, and whether it has a colour, if it is of the pwq and the colour of
    /// that item, and nobody runs it.
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
