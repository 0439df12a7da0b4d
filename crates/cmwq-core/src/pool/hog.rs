//! CPU hogs: items that use the CPU for long without ever sleeping. They stop counting in
//! `nr_running`, as if their queue were `WQ_CPU_INTENSIVE`, until they end.
//!
//! In a managed pool, which has room for a few hogs only, a hog that waits gives its room back.
//! When it is back it takes room again, or counts if there is none. So hogs are looked at there as
//! others are.

use super::{Kick, PoolState, Rule};
use crate::detect::hogs;
use crate::ids::{WorkerId, WqKey};
use crate::policy::UNMANAGED;
use crate::work::WorkFn;
use crate::worker::Worker;

/// What a worker that hogs its CPU is running.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct Hog {
    /// Which worker to wake, now that this one does not count.
    pub kick: Kick,
    /// The item's function and queue. `None` for a lent worker: ask the pool that it serves, by
    /// [`PoolState::guest_cpu_intensive`].
    pub item: Option<(WorkFn, WqKey)>,
}

impl PoolState {
    /// How many more workers of this pool may be taken for hogs.
    #[must_use]
    pub fn room_for_hogs(&self) -> u32 {
        let is_hog = |worker: &Worker| !worker.sleeping && self.is_hog(worker);
        let nr_hogs = || self.workers.iter().filter(|(_, worker)| is_hog(worker)).count() as u32;
        hogs::room(self.config.kind, self.config.concurrency, nr_hogs)
    }

    /// How many workers a look may take for hogs. None while the pool's items are found short: then
    /// they are being run, by its own workers or by a [helper](crate::help::short_items), and so
    /// wait for no hog. A worker more would only take the hog's CPU.
    #[must_use]
    pub fn room_for_new_hogs(&self, has_short_items: bool) -> u32 {
        if has_short_items { 0 } else { self.room_for_hogs() }
    }

    /// Whether worker `id`, which has slept, does not count now that it is back.
    ///
    /// KERNEL: `WORKER_CPU_INTENSIVE` — differs: there it stays set until the item ends.
    pub(super) fn stays_uncounted(&self, id: WorkerId) -> bool {
        let Some(worker) = self.workers.get(id.0) else { return false };
        let has_room = || self.room_for_hogs() > 0 || !self.keeps(Rule::HogsNeedRoom);
        worker.cpu_intensive && (self.is_cpu_intensive(worker) || has_room())
    }

    /// Worker `id` was seen to hog the CPU in run `seq`. `None`: nothing changed, because the
    /// report is about an earlier run, or because the worker does not count anyway: it sleeps, it
    /// is known as a hog, or its pool starts every item at once.
    ///
    /// KERNEL: `wq_worker_tick` above the threshold — same.
    #[must_use]
    pub fn worker_cpu_intensive(&mut self, id: WorkerId, seq: u64) -> Option<Hog> {
        let worker = self.workers.get(id.0)?;
        if worker.seq != seq || !worker.is_counted() || self.config.concurrency == UNMANAGED {
            return None;
        }
        let current = worker.current;
        self.update(id, |w| w.cpu_intensive = true);
        let kick = self.kick();
        let item = current.map(|current| {
            self.touch(current.pwq);
            let pwq = self.pwq(current.pwq);
            pwq.rare_stats().cpu_intensive += 1;
            if matches!(kick, Kick::Wake(_)) {
                pwq.rare_stats().cm_wakeup += 1;
            }
            (current.func, pwq.wq)
        });
        Some(Hog { kick, item })
    }

    /// The worker that is guest `id` here was found to be a hog by its own pool: counts that for
    /// the item that it runs here. `None`: the guest has left, or runs nothing.
    #[must_use]
    pub fn guest_cpu_intensive(&mut self, id: WorkerId) -> Option<(WorkFn, WqKey)> {
        let current = self.workers.get(id.0).filter(|worker| worker.guest)?.current?;
        self.touch(current.pwq);
        let pwq = self.pwq(current.pwq);
        pwq.rare_stats().cpu_intensive += 1;
        Some((current.func, pwq.wq))
    }
}
