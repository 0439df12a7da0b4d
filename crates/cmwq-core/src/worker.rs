//! The worker's record in its pool, and what a worker may do next.

use alloc::sync::Arc;

use crate::batch::Batch;
use crate::ids::{Nanos, PwqId, WorkerId, WqKey};
use crate::list::List;
use crate::pool::Kick;
use crate::work::{WorkFn, WorkItem};

/// What the worker that asked must do now.
#[must_use]
#[derive(Debug)]
pub enum Next {
    /// Call the claimed item's function, then [`finish`](crate::PoolState::finish).
    Run(Claim),
    /// Be the manager: create a worker, then report
    /// [`worker_created`](crate::PoolState::worker_created) or
    /// [`create_failed`](crate::PoolState::create_failed) and ask again.
    Manage,
    /// Park until woken.
    Sleep {
        /// Work waits that the worker may not start: a running worker that blocks must be noticed,
        /// and this one need not look whether other pods have work.
        work_waits: bool,
    },
    /// Leave: the record is gone.
    Exit,
}

/// The right to run one item, once. All that is needed after the function was entered is in the
/// worker's record; `item` may be dangling by then.
#[must_use]
#[derive(Debug)]
pub struct Claim {
    /// To be passed to `func`, and not to be touched otherwise.
    pub item: *mut WorkItem,
    /// The item's function.
    pub func: WorkFn,
    /// The workqueue it was queued on.
    pub wq: WqKey,
    /// The pwq, in this pool, by which it came.
    pub pwq: PwqId,
    /// Identifies this run of this worker in reports of blocking and resuming.
    pub seq: u64,
    /// To be acted on after the lock is dropped and before the function is entered.
    pub kick: Kick,
    /// The pool believes that the item will wait first, and asks for a report when it has ended:
    /// see [`learn_wait`](crate::PoolState::learn_wait).
    pub is_to_wait: bool,
    /// How many items were taken along. After this item's function each is to be
    /// [begun](crate::Batch::begin), in runs with the next numbers, until the batch is called back.
    /// Then [`finish`](crate::PoolState::finish), once.
    pub more: u32,
    /// It was taken along: it becomes active as it begins, with the slot of the one before.
    pub is_along: bool,
}

// SAFETY: a claim has only the address; the caller of the function vouches for the item.
unsafe impl Send for Claim {}

/// Where a worker is in its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// On the idle list.
    Idle,
    /// Awake, but not counted in `nr_running` (`WORKER_PREP`).
    Prep,
    /// In the inner loop, counted unless sleeping or CPU-intensive.
    Working,
}

/// What a worker runs, remembered because the item must not be touched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub(crate) addr: usize,
    pub(crate) func: WorkFn,
    pub(crate) pwq: PwqId,
    pub(crate) color: u8,
    pub(crate) is_barrier: bool,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) phase: Phase,
    /// Believed blocked since a report about run `seq`.
    pub(crate) sleeping: bool,
    /// The number of that report, in the pool.
    pub(crate) blocked_nr: u64,
    /// Runs an item of a `WQ_CPU_INTENSIVE` queue, or one that was seen to hog the CPU.
    pub(crate) cpu_intensive: bool,
    /// Told to leave at its next look.
    pub(crate) die: bool,
    /// Already woken from idle; a second kick would be wasted.
    pub(crate) woken: bool,
    /// Woken to begin an item although enough workers run, see `pool/wait_first` and
    /// `pool/processes`.
    pub(crate) begins_anyway: bool,
    /// Serves this pool but belongs to another: not in `nr_workers`, never counted in `nr_running`.
    pub(crate) guest: bool,
    /// At work in another pool.
    pub(crate) lent: bool,
    pub(crate) current: Option<Current>,
    /// What it ran last. KERNEL: `last_func` — same.
    pub(crate) last_func: Option<WorkFn>,
    pub(crate) scheduled: List,
    pub(crate) seq: u64,
    /// The run in which it stands for processes, see `pool/processes`; 0: none.
    pub(crate) process_in: u64,
    /// When it began to, if none of them was found waiting yet.
    pub(crate) process_since: Option<Nanos>,
    pub(crate) last_active: Nanos,
    pub(crate) idle_prev: Option<WorkerId>,
    pub(crate) idle_next: Option<WorkerId>,
    pub(crate) hash_next: Option<WorkerId>,
    /// Its batch, if its pool makes any. Shared, because the worker reads it without the lock.
    pub(crate) batch: Option<Arc<Batch>>,
}

impl Worker {
    pub(crate) fn new(guest: bool) -> Self {
        Self {
            phase: Phase::Prep,
            sleeping: false,
            blocked_nr: 0,
            cpu_intensive: false,
            die: false,
            woken: false,
            begins_anyway: false,
            guest,
            lent: false,
            current: None,
            last_func: None,
            scheduled: List::new(),
            seq: 0,
            process_in: 0,
            process_since: None,
            last_active: 0,
            idle_prev: None,
            idle_next: None,
            hash_next: None,
            batch: None,
        }
    }

    /// In the inner loop of its own pool.
    #[inline]
    pub(crate) fn is_working(&self) -> bool {
        self.phase == Phase::Working && !self.guest
    }

    /// Whether it stands for processes in its present run.
    pub(crate) fn stands_for_process(&self) -> bool {
        self.process_in != 0 && self.process_in == self.seq
    }

    /// Between two items: it looks for the next one before anything else.
    pub(crate) fn is_about_to_look(&self) -> bool {
        self.phase == Phase::Working && self.current.is_none() && !self.lent
    }

    /// Whether it counts in `nr_running`.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        self.phase == Phase::Working && !self.sleeping && !self.cpu_intensive && !self.guest
    }
}

/// What tools and detectors may know of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerView {
    /// Which worker.
    pub id: WorkerId,
    /// On the idle list.
    pub idle: bool,
    /// Believed blocked.
    pub sleeping: bool,
    /// Counts in `nr_running`.
    pub running: bool,
    /// Was counted until it was seen to hog the CPU.
    pub hog: bool,
    /// Stands for processes, and counts as running while these run.
    pub stands_for_process: bool,
    /// The run a report must name.
    pub seq: u64,
    /// The queue whose item it runs.
    pub wq: Option<WqKey>,
}
