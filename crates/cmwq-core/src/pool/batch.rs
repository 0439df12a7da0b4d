//! Batches: items that a worker takes along under one hold of the lock, and their way back. See
//! [`crate::batch`].
//!
//! A batch is made of items that have [arrived](super::arrived).
//!
//! - *(lag)* While a batch is out, the counts lack those of its items that were begun: `current`
//!   and `seq` of its worker, and those of its pwq. [`PoolState::call_back`] makes them right.
//!   Every event calls the batch back first, but queueing does not: its item comes behind what has
//!   arrived. No batch stays out for long: an item always waits behind it, so the pool is watched,
//!   and the next look calls the batch back.
//! - *(one slot)* The items of a batch run one after the other, by one pwq and in one colour. So
//!   they share the slot, and the count in flight, of the item that was claimed first. The last
//!   item of the batch gives both back.
//! - One batch is out of a pool at a time, and only while its worker is the only one that may start
//!   items: another worker takes the lock first, which calls the batch back.
//! - A *helper's* batch is made of items for which the pool has no worker, since that is in another
//!   item; when it asks for work, it calls the batch back. The helper's own pool sees one run.
//!
//! KERNEL: none; `process_one_work` takes the pool's lock for each item.

use alloc::sync::Arc;

use super::reading::Progress;
use super::{PoolState, Rule, bucket};
use crate::batch::{BATCH_MAX, Batch, Member};
use crate::ids::WorkerId;
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

impl PoolState {
    /// Whether batches are made here.
    #[inline]
    #[must_use]
    pub fn makes_batches(&self) -> bool {
        self.config.batches.is_some() && self.config.concurrency == 1
    }

    /// Whether a batch is out, so that the counts may be behind.
    #[inline]
    #[must_use]
    pub(crate) fn has_batch_out(&self) -> bool {
        self.out.is_some()
    }

    /// Debug builds check that the counts are not read while they are behind.
    #[inline]
    pub(crate) fn assert_caught_up(&self) {
        debug_assert!(self.out.is_none(), "(lag)");
    }

    /// Calls the batch back: afterwards the counts are right, and the items that were not begun
    /// have arrived again.
    #[cold]
    pub(crate) fn call_back(&mut self) {
        let Some(Out { worker, count, nr_colored }) = self.out.take() else { return };
        let begun = self.batch_of(worker).call_back().min(count);
        if begun < count {
            self.calm_claims = 0;
        }
        let before = self.current_of(worker);
        let first = if self.keeps(Rule::BatchesComeBack) { begun } else { count };
        for number in (first..count).rev() {
            let (item, _) = self.batch_of(worker).member(number);
            let color = (number < nr_colored).then_some(before.color);
            // SAFETY: the item was not begun and never will be by that worker: its PENDING is the
            // pool's.
            unsafe { self.arrive_again(before.pwq, item, color) };
        }
        if begun > 0 {
            let batch = self.batch_of(worker);
            let (item, func) = batch.member(begun - 1);
            let last_func = if begun == 1 { before.func } else { batch.member(begun - 2).1 };
            let addr = item.as_ptr() as usize;
            let behind = self.worker(worker).hash_next.take();
            self.leave_bucket(worker, before.addr, behind);
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

    /// Brings the counts up to date: the worker has begun `count` more items, and finished as many.
    fn turn_to(&mut self, worker: WorkerId, count: u32, nr_colored: u32, now: Current) {
        self.nr_started += u64::from(count);
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
        if current.is_barrier || !self.pwq(current.pwq).may_pass_on() {
            return None;
        }
        let p = self.pwq(current.pwq);
        let (colored, plain) = p.arrived.first_of(current.color, p.work_color);
        // One item is left, so that work waits and the pool is watched while the counts are behind.
        let most = most.min(colored + plain).min(self.arrived.len().saturating_sub(1));
        let mut count = 0;
        while count < most {
            let Some(member) = self.first_like(&current) else { break };
            let _ = self.arrived.pop();
            self.batch_of(id).set(count, member);
            count += 1;
        }
        let nr_colored = colored.min(count);
        let p = self.pwq(current.pwq);
        p.arrived.remove_first(nr_colored, count - nr_colored);
        p.kept = p.kept.saturating_add(count);
        (count > 0).then_some(Out { worker: id, count, nr_colored })
    }

    /// The first arrived item. `None` if its pwq is not that of `current`, or a worker is running
    /// it.
    #[inline]
    fn first_like(&self, current: &Current) -> Option<Member> {
        let (_, item) = self.arrived.first().filter(|(pwq, _)| *pwq == current.pwq)?;
        // SAFETY: in transit to here, hence alive.
        let func = unsafe { item.as_ref() }.func();
        let is_running = self.find_executing(item.as_ptr() as usize, func).is_some();
        (!is_running).then_some((item, func))
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
