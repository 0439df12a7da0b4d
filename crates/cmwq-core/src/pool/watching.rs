//! Workers that stand for somebody else: an item that starts a process and waits for it is blocked,
//! and its CPU is not free. Such a worker *watches* the process, and counts as running while the
//! process does.
//!
//! What is reported of it ([`PoolState::worker_blocked`], [`PoolState::worker_resumed`]) is then
//! about both: it is blocked when neither itself nor what it watches uses a CPU, see
//! [`evidence::look_for`](crate::detect::evidence::look_for). What it says of itself alone does not
//! make room for anybody.
//!
//! KERNEL: no twin. There a worker that waits for a process of user space
//! (`call_usermodehelper_exec_work`) does not count while it waits.

use super::{Kick, PoolState, Rule};
use crate::ids::WorkerId;

impl PoolState {
    /// Worker `id`, in run `seq`, begins to watch others (`watches`), or does not any more. It says
    /// so itself, so it runs now. A watch ends with its run at the latest.
    pub fn worker_watches(&mut self, id: WorkerId, seq: u64, watches: bool) {
        if self.workers.get(id.0).is_some_and(|worker| worker.seq == seq) {
            self.update(id, |w| {
                w.watching_in = if watches { seq } else { 0 };
                w.sleeping = false;
            });
        }
    }

    /// Whether worker `id` watches others in run `seq`.
    #[must_use]
    pub fn is_watching(&self, id: WorkerId, seq: u64) -> bool {
        self.workers.get(id.0).is_some_and(|w| w.seq == seq && w.is_watching())
    }

    /// Worker `id` says in run `seq` that it is about to wait itself, as
    /// [`worker_blocked`](Self::worker_blocked). Nothing changes if it watches others: those that
    /// look at them tell when they wait, too.
    pub fn worker_waits(&mut self, id: WorkerId, seq: u64) -> Kick {
        if self.is_watching(id, seq) && self.keeps(Rule::WatchersStandForOthers) {
            return Kick::None;
        }
        self.worker_blocked(id, seq)
    }
}
