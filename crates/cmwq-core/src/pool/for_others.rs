//! What a managed pool does because other pods have more work than they may run.
//!
//! Whoever calls this says first that the pod has a CPU to spare, if it has, and looks then whether
//! others have a backlog: see [`help::board`](crate::help::board). Both answers may be late.
//!
//! KERNEL: no twin.

use super::{Kick, PoolState};

impl PoolState {
    /// Whether anybody has to be watched: work waits here, or somebody runs on a CPU that another
    /// pod could use. `caller_computes`: whether that is a thread outside of the pools;
    /// `others_wait`: whether another pod has a backlog.
    #[inline]
    #[must_use]
    pub fn has_to_watch(
        &self,
        caller_computes: impl FnOnce() -> bool,
        others_wait: impl FnOnce() -> bool,
    ) -> bool {
        let is_used = || self.nr_running > 0 || caller_computes();
        self.work_waits() || (is_used() && others_wait())
    }

    /// A worker that serves another pod has ended an item there: whether its own pool wants it back.
    /// Work of its own comes first, and so does its concurrency: another worker may have taken its
    /// place while it was blocked. `caller_computes`: as for [`has_to_watch`](Self::has_to_watch).
    #[must_use]
    pub fn wants_back(&self, caller_computes: impl FnOnce() -> bool) -> bool {
        let is_crowded = self.is_over_capacity() && !self.items_wait_first();
        self.work_waits() || is_crowded || caller_computes()
    }

    /// A worker of this pool was reported blocked, which demanded `kick`: whom to wake. Where
    /// nothing is to be done here, that is somebody who looks for work in other pods; while a
    /// caller computes on the CPU, only its sentinel calls workers.
    pub fn replace_blocked(
        &mut self,
        kick: Kick,
        caller_computes: impl FnOnce() -> bool,
        others_wait: impl FnOnce() -> bool,
    ) -> Kick {
        if kick == Kick::None && !caller_computes() && others_wait() {
            return self.kick_to_lend();
        }
        kick
    }
}
