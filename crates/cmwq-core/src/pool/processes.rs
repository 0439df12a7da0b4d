//! Workers that stand for processes. An item that starts a process and waits for it is blocked, but
//! the process has the CPU. Such a worker *stands for* the process: it counts as running while the
//! process runs.
//!
//! Reports ([`PoolState::worker_blocked`], [`PoolState::worker_resumed`]) are then about both: the
//! worker is blocked when neither its own thread nor the process uses a CPU, see
//! [`evidence::look_for`](crate::detect::evidence::look_for). The worker's own report of its wait
//! makes no room.
//!
//! KERNEL: no twin. There a worker that waits for a process of user space
//! (`call_usermodehelper_exec_work`) does not count while it waits.

use super::{Kick, PoolState, Rule};
use crate::ids::WorkerId;

impl PoolState {
    /// Worker `id`, in run `seq`, begins (`stands`) or ends to stand for processes. The worker
    /// itself reports that, so it runs now. It ends with the run at the latest.
    pub fn worker_stands_for_process(&mut self, id: WorkerId, seq: u64, stands: bool) {
        if self.workers.get(id.0).is_some_and(|worker| worker.seq == seq) {
            self.update(id, |w| {
                w.process_in = if stands { seq } else { 0 };
                w.sleeping = false;
            });
        }
    }

    /// Whether worker `id` stands for processes in run `seq`.
    #[must_use]
    pub fn stands_for_process(&self, id: WorkerId, seq: u64) -> bool {
        self.workers.get(id.0).is_some_and(|w| w.seq == seq && w.stands_for_process())
    }

    /// Worker `id` reports in run `seq` that it is about to wait, as
    /// [`worker_blocked`](Self::worker_blocked). Changes nothing if it stands for processes: looks
    /// at these find out when they wait, too.
    pub fn worker_waits(&mut self, id: WorkerId, seq: u64) -> Kick {
        if self.stands_for_process(id, seq) && self.keeps(Rule::WaitersStandForProcesses) {
            return Kick::None;
        }
        self.worker_blocked(id, seq)
    }
}
