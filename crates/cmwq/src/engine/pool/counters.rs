//! Counters of pwqs, with the CPU time that was not charged yet.

use cmwq_core::{LockFor, PoolState, PwqId, PwqStats, Stays};

use super::{Locked, Pool};

impl Pool {
    /// Counters of a pwq, with the CPU time that was not charged yet.
    pub(crate) fn stats_of(&self, pwq: PwqId) -> PwqStats {
        self.read(|core, locked| {
            let mut stats = core.stats(pwq).unwrap_or_default();
            let pending = locked.threads.iter().flatten().map(|thread| thread.pending_time(pwq));
            stats.cpu_time += pending.sum::<u64>();
            stats
        })
    }

    /// How many workers there are, how many of them are idle, and how many run.
    pub(crate) fn headcount(&self) -> [u32; 3] {
        let count = |core: &PoolState| [core.nr_workers(), core.nr_idle(), core.nr_running()];
        self.read(|_, locked| count(&locked.core))
    }

    /// Removes a pwq, and returns its final counters.
    ///
    /// # Errors
    /// Why it has to stay for now.
    pub(crate) fn remove_pwq(&self, pwq: PwqId) -> Result<PwqStats, Stays> {
        let mut guard = self.lock(LockFor::Counts);
        let Locked { core, threads, mirror, .. } = &mut *guard;
        // Otherwise the pending time would be charged to the next pwq with this id.
        threads.iter().flatten().for_each(|thread| thread.forget_pwq(pwq, core));
        let removed = core.remove_pwq(pwq);
        if removed.is_ok() {
            mirror.remove_pwq(pwq);
        }
        removed
    }
}
