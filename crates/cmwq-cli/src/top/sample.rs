//! What `cmwq top` knows of a process at one instant: plain values, which tests can make.

use std::rc::Rc;

use cmwq_observe::inspect::Reason;

pub(super) use crate::look::threads::{Sched, Thread};

/// One look at a process. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) taken_ns: u64,
    pub(super) born_ns: u64,
    pub(super) pid: u32,
    pub(super) command: String,
    pub(super) process: Process,
    pub(super) cpus: usize,
    /// How blocking workers are noticed.
    pub(super) detect: &'static str,
    pub(super) hog_thresh_ns: u64,
    pub(super) is_frozen: bool,
    pub(super) is_shut: bool,
    pub(super) queues: Vec<Queue>,
    pub(super) pools: Vec<Pool>,
    pub(super) workers: Vec<Worker>,
    /// Queues, pools and workers that the mapping had no room for, and records that were changing
    /// all the time.
    pub(super) not_shown: u64,
}

/// Of the process as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Process {
    Runs,
    Stopped,
    Ended,
}

/// A workqueue, summed over its ways into pools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Queue {
    pub(super) key: u32,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) max_active: u32,
    pub(super) min_active: u32,
    pub(super) is_mem_reclaim: bool,
    pub(super) started: u64,
    pub(super) completed: u64,
    pub(super) cpu_ns: u64,
    pub(super) cpu_intensive: u64,
    pub(super) cm_wakeup: u64,
    pub(super) repatriated: u64,
    pub(super) mayday: u64,
    pub(super) rescued: u64,
    /// Items admitted and not finished.
    pub(super) nr_active: u64,
    /// Items that wait for it outside of the process.
    pub(super) outside: u64,
    /// Pools that it leads to, in order.
    pub(super) pools: Vec<u32>,
    /// Pools where items wait behind its limit.
    pub(super) behind: Vec<u32>,
}

/// A worker pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pool {
    pub(super) id: u32,
    /// Its CPU or CPUs, as a list.
    pub(super) cpus: String,
    pub(super) kind: &'static str,
    pub(super) nice: i32,
    pub(super) nr_workers: u32,
    pub(super) nr_idle: u32,
    pub(super) nr_running: u32,
    /// How many may run at once; `None`: all.
    pub(super) concurrency: Option<u32>,
    pub(super) work_waits: bool,
    /// When an item was last started; 0: never.
    pub(super) progress_ns: u64,
    pub(super) created: u64,
    pub(super) culled: u64,
    pub(super) failed: u64,
    pub(super) errno: i32,
    /// Oldest first.
    pub(super) decisions: Vec<Decision>,
}

/// Why a pool did or did not put another worker to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) reason: Reason,
    pub(super) count: u64,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

/// A worker, a rescuer or a BH context.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Worker {
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) pool: Option<u32>,
    pub(super) activity: Option<Activity>,
    /// Since when it has been idle, if it is.
    pub(super) idle_since_ns: u64,
    pub(super) is_blocked: bool,
    pub(super) is_hog: bool,
    /// Items started.
    pub(super) runs: u64,
    /// `None`: the thread has not begun, or is gone.
    pub(super) thread: Option<Thread>,
}

/// What a worker runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Activity {
    pub(super) function: Rc<str>,
    pub(super) queue: u32,
    pub(super) since_ns: u64,
}
