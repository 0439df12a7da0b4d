//! Where workers of managed pools wake up that blocked in an item.
//!
//! Items start where their pool is, one on each CPU that has nobody running. But how many of those
//! that wait come back at once, and when, nobody knows: bound to their pool's CPU they would queue
//! up behind each other there, and other CPUs would be idle. The system's scheduler sees that, and
//! moves them if it may. So a worker that is found blocked is *unbound*: it wakes up on any CPU
//! that managed queues use, and is bound to its pool again when it has been idle.
//!
//! That takes two system calls for each wait. Items that do nothing after their wait but end do not
//! need it, so a pool leaves it out while the last few items were of that kind. What an item has
//! used of the CPU since it was first found blocked is measured whether its worker was unbound or
//! not, so the pool finds out when items change.
//!
//! Measurements and what was rejected: docs/decisions/blocked-workers-wake-anywhere.md.
//!
//! KERNEL: `WORKER_UNBOUND` — differs: there only workers whose CPU has left.

use super::PoolState;
use crate::consts::MANY_SHORT_WAKES;
use crate::ids::WorkerId;

impl PoolState {
    /// Whether worker `id`, reported blocked in run `seq`, is to be unbound. Never a rescuer: it
    /// belongs to no pool that would bind it again. Nor one that watches others: they are back
    /// where they like, and it hardly computes itself.
    #[must_use]
    pub fn is_unbound(&self, id: WorkerId, seq: u64) -> bool {
        let is_own =
            self.workers.get(id.0).is_some_and(|worker| !worker.guest && !worker.is_watching());
        self.config.unbinds
            && is_own
            && self.short_wakes < MANY_SHORT_WAKES
            && self.is_blocked(id, seq)
    }
}
