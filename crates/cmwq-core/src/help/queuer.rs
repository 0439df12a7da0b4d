//! What a thread may do with the items that it queues, besides leaving them to its own CPU's pool.

use crate::place::QueueKind;

/// A thread that queues an item, or is about to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queuer {
    /// It is a worker; or, if it is to wait, runs bottom halves.
    pub is_worker: bool,
}

impl Queuer {
    /// Whether an item, which needs the CPU for long and [may leave](QueueKind::may_leave), may go
    /// to the pod of another CPU, if the thread computes. `has_others`: there are such pods;
    /// `is_told`: a sentinel of this pod's CPU tells when the thread computes no longer. A worker
    /// is one of those who may run there: its pool makes room.
    #[must_use]
    pub const fn lets_go(self, has_others: bool, is_told: bool) -> bool {
        !self.is_worker && has_others && is_told
    }

    /// Whether the thread uses the CPU of the pod to which its items usually go, as the pod is then
    /// marked, and lets it go for them: it `computes`, and `is_here`, on that CPU. It is elsewhere
    /// if managed queues do not use its own CPU unasked, for which that pod stands in.
    #[must_use]
    pub const fn takes_cpu(self, computes: bool, is_here: bool) -> bool {
        !self.is_worker && computes && is_here
    }

    /// Whether the thread, which names no CPU, may [run](crate::PoolState::offer) the item in place
    /// of waiting for it: its queue promises no place or order, and is `plain`, so nothing of how
    /// it runs; and the thread is no worker, which could be replaced while it waits.
    #[must_use]
    pub const fn may_run_it(self, kind: QueueKind, plain: Plain) -> bool {
        let Plain { is_intensive, has_rescuer, has_priority } = plain;
        let promises = is_intensive || has_rescuer || has_priority;
        kind.may_leave(false) && !self.is_worker && !promises
    }
}

/// What a queue says of how its items run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// They are CPU-intensive.
    pub is_intensive: bool,
    /// A rescuer runs them, if no worker can be had.
    pub has_rescuer: bool,
    /// They have a priority that is not the usual one.
    pub has_priority: bool,
}
