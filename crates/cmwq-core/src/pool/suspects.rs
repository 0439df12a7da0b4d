//! Which workers a look is about.

use super::PoolState;
use crate::ids::WorkerId;
use crate::worker::{Worker, WorkerView};

/// Workers believed blocked that one look checks, to see whether they are back.
const SLEEPERS_PER_LOOK: usize = 8;

impl PoolState {
    /// Calls `look` for each worker that has to be looked at: first some of those believed blocked,
    /// which may be back, then those that are believed to run, which may be blocked. A hog that is
    /// blocked makes room for another one, which matters only in managed pools.
    ///
    /// A guest is looked at in its own pool. Workers that have waited for longest are most likely
    /// back, so the oldest eight are chosen. While a worker that is back is believed blocked, the
    /// pool takes the CPU for free, and starts others that only crowd on it.
    ///
    /// `true`: some of them wait for processes, which are dear to look at.
    ///
    /// KERNEL: no twin. There the scheduler says who sleeps and who is back.
    pub fn suspects(&self, mut look: impl FnMut(WorkerView)) -> bool {
        let mut has_processes = false;
        let mut look = |view: WorkerView| {
            has_processes |= view.stands_for_process;
            look(view);
        };
        self.assert_caught_up();
        let mut oldest = [(u64::MAX, WorkerId(0)); SLEEPERS_PER_LOOK];
        let sleeps = |worker: &Worker| worker.sleeping && !worker.guest;
        for (id, worker) in self.workers.iter().filter(|(_, worker)| sleeps(worker)) {
            let last = &mut oldest[SLEEPERS_PER_LOOK - 1];
            if worker.blocked_nr < last.0 {
                *last = (worker.blocked_nr, WorkerId(id));
                oldest.sort_unstable();
            }
        }
        let sleepers = oldest.iter().filter(|sleeper| sleeper.0 != u64::MAX);
        sleepers.filter_map(|&(_, id)| self.worker_view(id)).for_each(&mut look);
        let is_looked_at = |view: &WorkerView| {
            view.running || (self.config.is_managed() && view.hog && !view.sleeping)
        };
        self.workers().filter(is_looked_at).for_each(look);
        has_processes
    }
}
