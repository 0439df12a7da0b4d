//! What a pool holds, as values: for dumps, which are written after the lock was dropped.

use alloc::vec::Vec;
use core::ptr::NonNull;

use super::reading::Unlisted;
use super::{PoolState, Reading};
use crate::ids::{PwqId, WorkerId, WqKey};
use crate::list::{List, Node};
use crate::work::{WorkFn, WorkItem};

/// LIMIT: items of a list that are looked at, because the lock is held meanwhile.
const NR_LOOKED_AT: usize = 1_024;

/// What a pool holds at one moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PoolReport {
    /// Workers, idle and busy, without guests.
    pub nr_workers: u32,
    /// Idle workers, the one that is woken next first.
    pub idle: Vec<WorkerId>,
    /// The worker that creates another one.
    pub manager: Option<WorkerId>,
    /// Workers and guests that run an item.
    pub busy: Vec<BusyWorker>,
    /// Items on the worklist, in order.
    pub worklist: Waiting,
    /// All pwqs.
    pub pwqs: Vec<PwqReport>,
}

/// A worker that runs an item.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BusyWorker {
    /// Which worker.
    pub id: WorkerId,
    /// By which pwq its item came.
    pub pwq: PwqId,
    /// The item's function.
    pub func: WorkFn,
    /// The item's address. The item may have gone.
    pub item: usize,
    /// Believed blocked.
    pub is_blocked: bool,
    /// Items that only this worker can run, in order.
    pub scheduled: Waiting,
}

/// A pwq's state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PwqReport {
    /// Which pwq.
    pub id: PwqId,
    /// Its queue.
    pub wq: WqKey,
    /// Items that hold a slot.
    pub nr_active: u32,
    /// How many may; `u32::MAX` if a node's limit counts them.
    pub max_active: u32,
    /// Queued or running items and barriers.
    pub nr_in_flight: u32,
    /// An ordered queue's newer pwq, while the older one drains.
    pub is_plugged: bool,
    /// Its rescuer has been called, or is here.
    pub is_rescued: bool,
    /// Items behind the limit, in order.
    pub inactive: Waiting,
}

/// Items of a list, in order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Waiting {
    /// Neighbours of one kind are counted together.
    pub items: Vec<WaitingItems>,
    /// There are more, which were not looked at.
    pub is_cut: bool,
}

/// Some items in a row that have the same function and came by the same pwq.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WaitingItems {
    /// By which pwq they came.
    pub pwq: PwqId,
    /// Their function.
    pub func: WorkFn,
    /// They are barriers: a thread waits for the item before them.
    pub are_barriers: bool,
    /// How many.
    pub count: u32,
}

impl Reading<'_> {
    /// What this pool holds. Linear in the size of the pool; allocates. For dumps.
    #[must_use]
    pub fn report(self) -> PoolReport {
        let mut report = self.listed();
        let (older, newer) = self.unlisted();
        let newer: Vec<_> = newer.collect();
        let mut unlisted = older.chain(newer.into_iter().rev());
        for one in unlisted.by_ref().take(NR_LOOKED_AT) {
            self.list(&one, &mut report);
        }
        report.worklist.is_cut |= unlisted.next().is_some();
        report
    }

    /// What is on the lists.
    fn listed(self) -> PoolReport {
        let core = self.core;
        let mut idle = Vec::new();
        let mut at = core.idle_head;
        while let Some(id) = at {
            idle.push(id);
            at = core.workers.get(id.0).and_then(|worker| worker.idle_next);
        }
        let busy = core.workers.iter().filter_map(|(id, worker)| {
            let current = self.current(WorkerId(id), worker)?;
            Some(BusyWorker {
                id: WorkerId(id),
                pwq: current.pwq,
                func: current.func,
                item: current.addr,
                is_blocked: worker.sleeping,
                scheduled: core.waiting(&worker.scheduled, true),
            })
        });
        let pwqs = core.pwqs.iter().map(|(id, pwq)| PwqReport {
            id: PwqId(id),
            wq: pwq.wq,
            nr_active: pwq.nr_active,
            max_active: pwq.max_active,
            nr_in_flight: self.nr_in_flight(PwqId(id), pwq),
            is_plugged: pwq.plugged,
            is_rescued: pwq.rescue.as_ref().is_some_and(|rescue| rescue.is_wanted()),
            inactive: core.waiting(&pwq.inactive, false),
        });
        PoolReport {
            nr_workers: core.nr_workers,
            idle,
            manager: core.manager,
            busy: busy.collect(),
            worklist: core.waiting(&core.worklist, true),
            pwqs: pwqs.collect(),
        }
    }

    /// Puts an item where it will be when it is listed.
    fn list(self, one: &Unlisted, report: &mut PoolReport) {
        let Some(at) = report.pwqs.iter_mut().find(|pwq| pwq.id == one.pwq) else { return };
        let Some(p) = self.core.pwqs.get(one.pwq.0) else { return };
        let before = at.nr_active - p.nr_active;
        let is_held_up = !at.inactive.items.is_empty() || p.nr_held_up(before + 1) > 0;
        at.nr_active += u32::from(!is_held_up);
        let list = if is_held_up { &mut at.inactive } else { &mut report.worklist };
        list.add(WaitingItems { pwq: one.pwq, func: one.func, are_barriers: false, count: 1 });
    }

    /// The queue of the item at this address, where there may be anything, if one waits here. Walks
    /// all lists: for debugging.
    #[must_use]
    pub fn queue_of_item_at(self, item: usize) -> Option<WqKey> {
        let (older, newer) = self.unlisted();
        let unlisted = older.chain(newer).find(|one| one.item as usize == item);
        let pwq = unlisted.map(|one| one.pwq).or_else(|| self.core.pwq_of_listed(item))?;
        self.core.pwq_wq(pwq)
    }
}

impl Unlisted {
    /// One of an inbox, or that has arrived from there.
    pub(super) fn in_transit((pwq, item): (PwqId, NonNull<WorkItem>)) -> Self {
        // SAFETY: whoever would free it has to take it out first, with the lock.
        let func = unsafe { item.as_ref() }.func();
        Self { pwq, item: item.as_ptr(), func }
    }
}

impl PoolState {
    /// By which pwq the item at this address came, if one is on a list here.
    fn pwq_of_listed(&self, item: usize) -> Option<PwqId> {
        let scheduled = self.workers.iter().map(|(_, worker)| &worker.scheduled);
        let inactive = self.pwqs.iter().map(|(_, pwq)| &pwq.inactive);
        let mut nodes = scheduled.chain(inactive).chain([&self.worklist]).flat_map(List::iter);
        // SAFETY: a linked node is an item's, and alive.
        let item = nodes.find_map(|node| unsafe {
            let listed = WorkItem::of_node(node);
            // Not read before: a rescuer's mark is no item.
            if listed.as_ptr() as usize == item { Some(listed.as_ref()) } else { None }
        })?;
        Some(item.word().pwq()?.pwq)
    }

    /// `is_active`: an item of this list that holds no slot is a barrier, or a rescuer's mark.
    fn waiting(&self, list: &List, is_active: bool) -> Waiting {
        let mut waiting = Waiting::default();
        let mut is_glued = false;
        let mut at = list.first();
        for _ in 0..NR_LOOKED_AT {
            let Some(node) = at else { return waiting };
            at = list.after(node);
            if self.is_cursor(node) {
                continue;
            }
            // SAFETY: linked on a list of this pool, hence an item, and alive.
            let item = unsafe { WorkItem::of_node(node).as_ref() };
            let word = item.word();
            let Some(place) = word.pwq() else { continue };
            let are_barriers = is_glued || (is_active && word.is_inactive());
            is_glued = word.is_linked();
            let one = WaitingItems { pwq: place.pwq, func: item.func(), are_barriers, count: 1 };
            waiting.add(one);
        }
        waiting.is_cut = at.is_some();
        waiting
    }

    fn is_cursor(&self, node: Node) -> bool {
        self.nr_cursors > 0
            && self.pwqs.iter().any(|(_, pwq)| pwq.rescue.as_ref().is_some_and(|r| r.is_mark(node)))
    }
}

impl Waiting {
    fn add(&mut self, one: WaitingItems) {
        match self.items.last_mut().filter(|last| last.is_like(&one)) {
            Some(last) => last.count += one.count,
            None => self.items.push(one),
        }
    }
}

impl WaitingItems {
    fn is_like(&self, other: &Self) -> bool {
        self.pwq == other.pwq
            && core::ptr::fn_addr_eq(self.func, other.func)
            && self.are_barriers == other.are_barriers
    }
}
