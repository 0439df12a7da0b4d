//! A pool as those see it who only look: nothing is listed, called back or woken for them.
//!
//! Holders of the lock who decide put what is in the inbox on the lists first, and call back a
//! batch that is out. That acts: it takes slots, ends a batch, and may demand that somebody is
//! woken. A [`Reading`] counts what is not listed yet where it is, and what was begun of a batch as
//! begun, so that it tells what the lists would say.
//!
//! KERNEL: no twin; what is queued there is on a list at once.

use core::ptr;

use super::{PoolState, WorkerView};
use crate::ids::{PwqId, WorkerId, WqKey};
use crate::inbox::Inbox;
use crate::pwq::{Pwq, PwqLoad, PwqStats, PwqWaiting};
use crate::work::{WorkFn, WorkItem};
use crate::worker::{Current, Worker};

/// See the module header. Whoever has one holds the pool's lock.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    pub(super) core: &'a PoolState,
    inbox: &'a Inbox,
    batch: Option<Progress>,
}

/// How far the batch is that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) worker: WorkerId,
    pub(super) pwq: PwqId,
    pub(super) begun: u32,
    pub(super) count: u32,
    /// Of all its items, the oldest, which have a colour.
    pub(super) nr_colored: u32,
}

/// An item that waits and is on no list yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unlisted {
    pub(super) pwq: PwqId,
    pub(super) item: *const WorkItem,
    pub(super) func: WorkFn,
}

impl Progress {
    /// How many of its items were not begun.
    const fn nr_left(self) -> u32 {
        self.count - self.begun
    }
}

impl PoolState {
    /// The pool, to look at. `inbox`: its own.
    #[must_use]
    pub fn reading<'a>(&'a self, inbox: &'a Inbox) -> Reading<'a> {
        Reading { core: self, inbox, batch: self.batch_progress() }
    }
}

impl<'a> Reading<'a> {
    /// What lies outside of the lists, oldest first, in two parts: the second one backwards.
    pub(super) fn unlisted(
        self,
    ) -> (impl Iterator<Item = Unlisted> + 'a, impl Iterator<Item = Unlisted> + 'a) {
        let of_batch = self.batch.into_iter().flat_map(move |batch| {
            (batch.begun..batch.count).map(move |number| {
                // The worker may be about to begin it: the item is not touched.
                let (item, func) = self.core.member(batch.worker, number);
                Unlisted { pwq: batch.pwq, item: item.as_ptr(), func }
            })
        });
        let arrived = self.core.arrived.iter().map(Unlisted::in_transit);
        (of_batch.chain(arrived), self.inbox.newest_first().map(Unlisted::in_transit))
    }

    /// How many items of one pwq lie there. Linear in what is in the inbox, which is little.
    fn nr_unlisted(self, pwq: PwqId, p: &Pwq) -> u32 {
        let of_batch = self.batch.filter(|batch| batch.pwq == pwq).map_or(0, Progress::nr_left);
        let pushed = self.inbox.newest_first().filter(|(by, _)| *by == pwq).count();
        of_batch + p.arrived.len() + pushed as u32
    }

    /// How many of these are counted among those in flight.
    fn nr_colored(self, pwq: PwqId, p: &Pwq) -> u32 {
        let of_batch = self.batch.filter(|batch| batch.pwq == pwq);
        let of_batch = of_batch.map_or(0, |batch| batch.nr_colored.saturating_sub(batch.begun));
        of_batch + p.arrived.nr_colored()
    }

    /// Queued or running items and barriers.
    pub(super) fn nr_in_flight(self, pwq: PwqId, p: &Pwq) -> u32 {
        let uncounted = self.nr_unlisted(pwq, p) - self.nr_colored(pwq, p);
        p.nr_in_flight.iter().sum::<u32>() + uncounted
    }

    /// How many of the items in flight by that pwq, as its counts say, have ended in a batch.
    fn nr_ended_in_flight(self, pwq: PwqId) -> u32 {
        self.batch.filter(|batch| batch.pwq == pwq).map_or(0, |b| b.begun.min(b.nr_colored))
    }

    /// How many runs the counts of a worker do not know of.
    fn nr_unknown_runs(self, id: WorkerId) -> u32 {
        self.batch.filter(|batch| batch.worker == id).map_or(0, |batch| batch.begun)
    }

    // ---- pwqs

    /// What a pwq has here.
    #[must_use]
    pub fn load(self, pwq: PwqId) -> Option<PwqLoad> {
        let p = self.core.pwqs.get(pwq.0)?;
        let unlisted = self.nr_unlisted(pwq, p);
        let held_up = p.nr_held_up(unlisted);
        Some(PwqLoad {
            nr_active: p.nr_active + unlisted - held_up,
            has_inactive: !p.inactive.is_empty() || held_up > 0,
            is_in_flight: !p.is_idle() || unlisted > 0,
        })
    }

    /// What waits in a pwq. Linear in the number of workers, and of items that are not listed yet.
    #[must_use]
    pub fn waiting(self, pwq: PwqId) -> Option<PwqWaiting> {
        let runs = |w: &Worker| w.current.is_some_and(|c| c.pwq == pwq && !c.is_barrier);
        let running = self.core.workers.iter().filter(|(_, w)| runs(w)).count() as u64;
        let p = self.core.pwqs.get(pwq.0)?;
        let (unlisted, colored) = (self.nr_unlisted(pwq, p), self.nr_colored(pwq, p));
        let listed =
            p.nr_items().saturating_sub(self.nr_ended_in_flight(pwq).saturating_add(colored));
        let for_limit = listed.saturating_sub(p.nr_active) + p.nr_held_up(unlisted);
        let items = u64::from(listed) + u64::from(unlisted);
        Some(PwqWaiting { queued: items.saturating_sub(running), for_limit: for_limit.into() })
    }

    /// Counters of a pwq.
    #[must_use]
    pub fn stats(self, pwq: PwqId) -> Option<PwqStats> {
        let mut stats = self.core.pwq_stats(pwq)?;
        if let Some(batch) = self.batch.filter(|batch| batch.pwq == pwq) {
            stats.started += u64::from(batch.begun);
            stats.completed += u64::from(batch.begun);
        }
        Some(stats)
    }

    // ---- what stands still

    /// Whether an item waits for a worker.
    #[must_use]
    pub fn work_waits(self) -> bool {
        let is_listed = !self.core.worklist.is_empty();
        is_listed || self.core.pwqs.iter().any(|(id, pwq)| self.would_start(PwqId(id), pwq))
    }

    /// Whether an item that is not listed has a slot to wait with.
    fn would_start(self, id: PwqId, pwq: &Pwq) -> bool {
        let unlisted = self.nr_unlisted(id, pwq);
        unlisted > pwq.nr_held_up(unlisted)
    }

    /// The queue of each pwq with an item that waits for a slot of `max_active`.
    pub fn queues_with_inactive(self) -> impl Iterator<Item = WqKey> + 'a {
        let waits = move |id, pwq: &Pwq| {
            !pwq.inactive.is_empty() || pwq.nr_held_up(self.nr_unlisted(id, pwq)) > 0
        };
        let all = self.core.pwqs.iter().map(|(id, pwq)| (PwqId(id), pwq));
        all.filter(move |(id, pwq)| waits(*id, pwq)).map(|(_, pwq)| pwq.wq)
    }

    /// Whether nothing waits any more where something did: whoever looks has it
    /// [forgotten](PoolState::forget_inactive).
    #[must_use]
    pub fn waits_no_more(self) -> bool {
        self.core.is_to_be_watched()
            && !self.work_waits()
            && self.queues_with_inactive().next().is_none()
    }

    /// How often an item was started, or began to wait where none waited, see
    /// [`PoolState::progress`]: also if what waits is not listed yet, so that listing it later is
    /// no progress.
    #[must_use]
    pub fn progress(self) -> u64 {
        let begun = self.batch.map_or(0, |batch| u64::from(batch.begun));
        let waits_unlisted = self.core.worklist.is_empty() && self.work_waits();
        self.core.progress() + begun + u64::from(waits_unlisted)
    }

    // ---- workers

    /// All workers.
    pub fn workers(self) -> impl Iterator<Item = WorkerView> + 'a {
        self.core.workers.iter().map(move |(id, worker)| {
            let id = WorkerId(id);
            let view = self.core.view(id, worker);
            let nr_unknown = self.nr_unknown_runs(id);
            let stands_for_process = view.stands_for_process && nr_unknown == 0;
            WorkerView { seq: view.seq + u64::from(nr_unknown), stands_for_process, ..view }
        })
    }

    /// What a worker runs.
    pub(super) fn current(self, id: WorkerId, worker: &Worker) -> Option<Current> {
        let current = worker.current?;
        let Some(last) = self.nr_unknown_runs(id).checked_sub(1) else { return Some(current) };
        let (item, func) = self.core.member(id, last);
        Some(Current { addr: item.as_ptr() as usize, func, ..current })
    }

    /// The flush colour of the item that a worker runs. Those of a batch have one.
    #[must_use]
    pub fn color_of(self, id: WorkerId) -> Option<u8> {
        Some(self.core.workers.get(id.0)?.current?.color)
    }

    /// What a worker runs: its queue, the item's address and function.
    #[must_use]
    pub fn running_of(self, id: WorkerId) -> Option<(WqKey, usize, WorkFn)> {
        let current = self.current(id, self.core.workers.get(id.0)?)?;
        Some((self.core.pwqs.get(current.pwq.0)?.wq, current.addr, current.func))
    }

    /// Whether items can come to wait here without the lock, so that nobody tells the watchdog.
    #[must_use]
    pub fn takes_unseen(self) -> bool {
        self.inbox.is_saturated()
    }

    /// The function that has returned to a worker last. KERNEL: `wq_worker_last_func` — same.
    #[must_use]
    pub fn last_func(self, id: WorkerId) -> Option<WorkFn> {
        let worker = self.core.workers.get(id.0)?;
        match self.nr_unknown_runs(id) {
            0 => worker.last_func,
            1 => worker.current.map(|first| first.func),
            more => Some(self.core.member(id, more - 2).1),
        }
    }

    /// Whether this pool runs the item now (`WORK_BUSY_RUNNING`). Whoever also asks whether it is
    /// pending asks that first: an item of a batch is begun without the lock, and counted as begun
    /// before it stops being pending.
    #[must_use]
    pub fn is_executing(self, item: &WorkItem) -> bool {
        let (addr, func) = (ptr::from_ref(item) as usize, item.func());
        if let Some(id) = self.core.find_executing(addr, func)
            && self.nr_unknown_runs(id) == 0
        {
            return true;
        }
        let of_batch = self.batch.and_then(|batch| {
            self.core.workers.get(batch.worker.0).and_then(|w| self.current(batch.worker, w))
        });
        of_batch.is_some_and(|now| now.addr == addr && ptr::fn_addr_eq(now.func, func))
    }
}
