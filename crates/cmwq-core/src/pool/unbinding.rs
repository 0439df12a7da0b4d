//! Where workers of managed pools that blocked in an item wake up.
//!
//! Items start on their pool's CPU, one at a time. But how many of the blocked workers come back at
//! once, and when, is unknown: bound to their pool's CPU they would queue up behind each other
//! there, while other CPUs are idle. The system's scheduler sees that, and moves them if it may. So
//! a worker that is found blocked is *unbound*: it wakes up on any CPU that managed queues use, and
//! is bound to its pool again when it has been idle.
//!
//! That takes two system calls for each wait. Items that end right after their wait do not need it,
//! so a pool leaves the workers bound while its last few items were of that kind. What an item has
//! used of the CPU since it was first found blocked is measured whether its worker was unbound or
//! not, so the pool finds out when items change.
//!
//! A hog is unbound, too, when it is taken out of the count: others start beside it, and it would
//! share its pod's CPU with them while other CPUs are idle.
//!
//! KERNEL: `WORKER_UNBOUND` — differs: there only workers whose CPU has left.
//!
//! Why: docs/decisions/blocked-workers-wake-anywhere.md

use super::PoolState;
use crate::consts::MANY_SHORT_WAKES;
use crate::ids::WorkerId;
use crate::work::WorkItem;

impl PoolState {
    /// Whether worker `id`, reported blocked in run `seq` or found to be a hog, is to be unbound.
    /// Never a rescuer, which belongs to no pool that would bind it again. Nor a worker that stands
    /// for a process: the process runs where it likes, and the worker itself hardly computes.
    #[must_use]
    pub fn is_unbound(&self, id: WorkerId, seq: u64) -> bool {
        let Some(worker) = self.workers.get(id.0).filter(|worker| worker.seq == seq) else {
            return false;
        };
        let is_own = !worker.guest && !worker.stands_for_process();
        let computes_later = worker.sleeping && self.short_wakes < MANY_SHORT_WAKES;
        self.config.unbinds && is_own && (self.is_hog(worker) || computes_later)
    }

    /// Counts, for the first waiting item, a worker that was woken outside of its pod and is
    /// brought back. `false`: no item waits.
    ///
    /// KERNEL: `PWQ_STAT_REPATRIATED` in `kick_pool` — same.
    pub fn count_repatriated(&mut self) -> bool {
        let Some(first) = self.worklist.first() else { return false };
        // SAFETY: `first` is linked on the worklist, so its item is alive and ours.
        let word = unsafe { WorkItem::of_node(first).as_ref() }.word();
        if let Some(at) = word.pwq() {
            self.pwq(at.pwq).rare_stats().repatriated += 1;
            self.touch(at.pwq);
        }
        true
    }
}
