//! A pool's state as a value: everything its decisions depend on, and nothing else, so that two
//! histories that lead to the same value have the same future.
//!
//! Left out, because no decision reads them: counters of items, records for tracing, what has
//! changed since the last look. Left out, because the search has only one value of them: when a
//! worker went idle (surplus workers leave at once), and how often a pwq kept a slot of its node
//! (only limits of 64 or more read that); it has no times, so when a worker began to stand for a
//! process is left out, too. Left out, because they are only names: the number of a
//! run, and the free places of the tables.

use alloc::vec::Vec;

use super::PoolState;
use super::closing::Closing;
use crate::consts::MANY_SOON_PROCESSES;
use crate::ids::{Nanos, PwqId, WorkerId, WqKey};
use crate::list::List;
use crate::work::WorkItem;
use crate::worker::Phase;

/// See the module header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolValue {
    /// How many workers may run at once.
    pub concurrency: u32,
    /// Workers counted as running.
    pub nr_running: u32,
    /// Who creates a worker.
    pub manager: Option<WorkerId>,
    /// No creation before this time; 0 if the last creation did not fail.
    pub no_create_before: Nanos,
    /// A creation that was refused is tried again when work needs it.
    pub is_retried_on_need: bool,
    /// Idle workers leave.
    pub is_closed: bool,
    /// A new queue does not open the pool again.
    pub is_closed_for_ever: bool,
    /// Items in a row that hardly computed after their waits.
    pub short_wakes: u8,
    /// Items in a row that waited before they computed.
    pub first_waits: u8,
    /// How many of those, in a row, computed for a while before they waited.
    pub soon_waits: u8,
    /// Processes in a row that waited soon, as far as they matter.
    pub soon_processes: u8,
    /// It was asked to help.
    pub is_asked_to_help: bool,
    /// Ticks that have waited for a worker to come.
    pub ticks_awaiting: u8,
    /// Idle workers, the one that is woken next first.
    pub idle: Vec<WorkerId>,
    /// All workers, by id.
    pub workers: Vec<WorkerValue>,
    /// What waits for a worker, in order.
    pub worklist: Vec<Listed>,
    /// What has arrived: address, pwq, colour. In order.
    pub arrived: Vec<(usize, PwqId, Option<u8>)>,
    /// The batch that is out.
    pub out: Option<BatchValue>,
    /// Claims since a batch was called back, as far as they matter.
    pub calm_claims: u8,
    /// All pwqs, by id.
    pub pwqs: Vec<PwqValue>,
}

/// What is on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listed {
    /// The item at this address.
    Item(usize),
    /// The mark of the rescuer that visits this pwq.
    Mark(PwqId),
}

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BatchValue {
    /// Whose.
    pub worker: WorkerId,
    /// The addresses of its items.
    pub items: Vec<usize>,
    /// How many of them were begun.
    pub begun: u32,
    /// How many of them have a colour.
    pub nr_colored: u32,
}

/// A worker's or guest's record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerValue {
    /// Which.
    pub id: WorkerId,
    /// 0: idle, 1: awake, 2: in the inner loop.
    pub phase: u8,
    /// Believed blocked.
    pub sleeping: bool,
    /// Does not count, because of its item.
    pub cpu_intensive: bool,
    /// Stands for others in this run.
    pub stands_for_process: bool,
    /// None of those was found waiting yet.
    pub is_process_new: bool,
    /// It was told to leave.
    pub die: bool,
    /// Woken from idle, and not here yet.
    pub woken: bool,
    /// Woken to begin an item although enough workers run.
    pub begins_anyway: bool,
    /// Of another pool.
    pub guest: bool,
    /// Serves another pool.
    pub lent: bool,
    /// The item it runs (its address), by which pwq, of which colour, and whether it holds no slot.
    pub current: Option<(usize, PwqId, u8, bool)>,
    /// What only this worker can run, in order.
    pub scheduled: Vec<Listed>,
}

/// A pwq's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PwqValue {
    /// Which.
    pub id: PwqId,
    /// Its queue.
    pub wq: WqKey,
    /// The colour of what is queued now.
    pub work_color: u8,
    /// The colour that a flush waits for.
    pub flush_color: Option<u8>,
    /// Queued and running, by colour; colours that have none are left out.
    pub in_flight: Vec<(u8, u32)>,
    /// Items that hold a slot.
    pub nr_active: u32,
    /// How many may.
    pub max_active: u32,
    /// In line for a slot of the node.
    pub node_waiting: bool,
    /// Starts nothing.
    pub plugged: bool,
    /// Takes nothing new.
    pub retired: bool,
    /// The rescuer was called, or is here.
    pub is_rescued: bool,
    /// The rescuer is here.
    pub is_visited: bool,
    /// Items behind the limit, in order.
    pub inactive: Vec<Listed>,
}

impl PoolState {
    /// The whole state. Linear in its size; allocates.
    #[must_use]
    pub fn value(&self) -> PoolValue {
        let idle = core::iter::successors(self.idle_head, |id| {
            self.workers.get(id.0).and_then(|worker| worker.idle_next)
        });
        PoolValue {
            concurrency: self.config.concurrency,
            nr_running: self.nr_running,
            manager: self.manager,
            no_create_before: self.no_create_before,
            is_retried_on_need: self.is_retried_on_need,
            is_closed: self.is_closed(),
            is_closed_for_ever: self.closing == Closing::ForEver,
            short_wakes: self.short_wakes,
            first_waits: self.first_waits,
            soon_waits: self.soon_waits,
            soon_processes: self.soon_processes.min(MANY_SOON_PROCESSES),
            is_asked_to_help: self.is_asked_to_help,
            ticks_awaiting: self.ticks_awaiting,
            idle: idle.collect(),
            workers: self.workers.iter().map(|(id, _)| self.worker_value(WorkerId(id))).collect(),
            worklist: self.listed(&self.worklist),
            arrived: self.arrived_value(),
            out: self.batch_value(),
            calm_claims: self.calm_claims.min(self.config.batches.unwrap_or(0).saturating_add(3)),
            pwqs: self.pwqs.iter().map(|(id, _)| self.pwq_value(PwqId(id))).collect(),
        }
    }

    fn worker_value(&self, id: WorkerId) -> WorkerValue {
        let worker = self.workers.get(id.0).expect("a worker that does not exist");
        let phase = match worker.phase {
            Phase::Idle => 0,
            Phase::Prep => 1,
            Phase::Working => 2,
        };
        WorkerValue {
            id,
            phase,
            sleeping: worker.sleeping,
            cpu_intensive: worker.cpu_intensive,
            stands_for_process: worker.stands_for_process(),
            is_process_new: worker.process_since.is_some(),
            die: worker.die,
            woken: worker.woken,
            begins_anyway: worker.begins_anyway,
            guest: worker.guest,
            lent: worker.lent,
            current: worker.current.map(|c| (c.addr, c.pwq, c.color, c.is_barrier)),
            scheduled: self.listed(&worker.scheduled),
        }
    }

    fn pwq_value(&self, id: PwqId) -> PwqValue {
        let pwq = self.pwqs.get(id.0).expect("a pwq that does not exist");
        let counts = pwq.nr_in_flight.iter().enumerate().filter(|&(_, &n)| n > 0);
        PwqValue {
            id,
            wq: pwq.wq,
            work_color: pwq.work_color,
            flush_color: pwq.flush_color,
            in_flight: counts.map(|(color, &n)| (color as u8, n)).collect(),
            nr_active: pwq.nr_active,
            max_active: pwq.max_active,
            node_waiting: pwq.node_waiting,
            plugged: pwq.plugged,
            retired: pwq.retired,
            is_rescued: pwq.rescue.as_ref().is_some_and(|rescue| rescue.is_wanted()),
            is_visited: pwq.rescue.as_ref().is_some_and(|rescue| rescue.is_visited()),
            inactive: self.listed(&pwq.inactive),
        }
    }

    fn listed(&self, list: &List) -> Vec<Listed> {
        let of_node = |node| {
            let mark = self
                .pwqs
                .iter()
                .find(|(_, pwq)| pwq.rescue.as_ref().is_some_and(|rescue| rescue.is_mark(node)));
            match mark {
                Some((id, _)) => Listed::Mark(PwqId(id)),
                // SAFETY: a linked node that is no mark is an item's, and alive.
                None => Listed::Item(unsafe { WorkItem::of_node(node) }.as_ptr() as usize),
            }
        };
        list.iter().map(of_node).collect()
    }
}
