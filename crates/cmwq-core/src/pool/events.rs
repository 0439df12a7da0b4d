//! What happens to workers: birth, failed birth, blocking, resuming, culling.
//!
//! Why: docs/decisions/failed-creation-keeps-working.md, woken-at-once.md

use super::headcount::LIMIT_RETRY_NS;
use super::{Kick, PoolState, Rule};
use crate::batch::Batch;
use crate::consts::CREATE_COOLDOWN_NS;
use crate::ids::{Nanos, WorkerId};
use crate::policy;
use crate::worker::{Phase, Worker};

/// What to do where a creation has failed.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Nothing: no creation has failed, or a worker stands by.
    Nothing,
    /// Look again at this time, in nanoseconds.
    At(Nanos),
    /// Try again.
    Create,
}

impl Retry {
    /// When to try again to create a thread that is no worker: a BH context, or the watchdog.
    #[must_use]
    pub const fn after_failure(now: Nanos) -> Nanos {
        now.saturating_add(CREATE_COOLDOWN_NS)
    }

    /// The same where a pool has let a worker go for it.
    #[must_use]
    pub const fn after_yield(now: Nanos) -> Nanos {
        now.saturating_add(LIMIT_RETRY_NS)
    }
}

impl PoolState {
    /// Registers a worker before its thread exists. It is neither idle nor running until
    /// [`worker_created`](Self::worker_created), which makes it idle. Allocates.
    #[must_use]
    pub fn worker_new(&mut self) -> WorkerId {
        self.nr_workers += 1;
        self.changed = true;
        // Its end says whether another one is needed.
        self.is_retried_on_need = false;
        let mut worker = Worker::new(false);
        worker.batch = self.config.batches.map(|_| Batch::new());
        WorkerId(self.workers.insert(worker))
    }

    /// The thread of the registered worker `id` runs. `manager`: the worker of this pool that
    /// created it, if one did; it is manager no longer.
    ///
    /// The new worker goes idle at once, as the kernel's do: the creator, not the created, starts
    /// the item. KERNEL: end of `create_worker` and `manage_workers` — differs: there the new
    /// worker is woken too, and may be first.
    pub fn worker_created(&mut self, id: WorkerId, manager: Option<WorkerId>, now: Nanos) -> Kick {
        self.no_create_before = 0;
        self.is_retried_on_need = false;
        if self.manager == manager {
            self.manager = None;
        }
        debug_assert_eq!(self.worker(id).phase, Phase::Prep, "{id:?} asked for work before");
        let is_one_woken = self.is_one_woken() && self.keeps(Rule::OneIsWoken);
        self.enter_idle(id, now);
        // A manager takes the item itself: the new worker is its standby. So does a worker that was
        // woken, maybe under this hold of the lock, and it wakes the new one for what else waits.
        if manager.is_some() || is_one_woken { Kick::None } else { self.kick() }
    }

    /// Whether the registered worker `id` may ask for work: its creator has said that it is there.
    ///
    /// Its thread may run before, because of a wake-up that was meant for another thread.
    #[must_use]
    pub fn is_created(&self, id: WorkerId) -> bool {
        let worker = self.workers.get(id.0);
        // A worker that was told to leave before it had begun is in `Prep`, too.
        worker.is_some_and(|worker| worker.phase != Phase::Prep || worker.die)
    }

    /// No thread could be created for the registered worker `id`.
    ///
    /// KERNEL: `maybe_create_worker`'s failure — differs: the kernel's manager sleeps for the
    /// cooldown and retries; ours keeps working without a standby and the next attempt is made
    /// after the cooldown, because in a process the pool's only worker may be the only one that can
    /// make progress.
    pub fn create_failed(&mut self, id: WorkerId, manager: Option<WorkerId>, now: Nanos) {
        self.workers.remove(id.0);
        self.nr_workers -= 1;
        self.changed = true;
        self.no_create_before = now.saturating_add(self.config.create_cooldown);
        self.is_retried_on_need = false;
        if self.manager == manager {
            self.manager = None;
        }
        self.assert_standby();
    }

    /// Until when no creation is tried, if a recent one failed.
    #[must_use]
    pub fn create_retry_at(&self) -> Option<Nanos> {
        (self.no_create_before != 0).then_some(self.no_create_before)
    }

    /// Whether to try again now to create a worker, after a creation has failed. Also where no work
    /// waits: a pool whose workers are all busy needs a standby before the last of them blocks,
    /// since no event asks for one then. But not before work waits if it was
    /// [refused](Self::create_refused).
    ///
    /// Where a worker stands by when the pause is over, the failure is forgotten: the pool is as
    /// one in which no creation has failed.
    pub fn retry(&mut self, now: Nanos) -> Retry {
        match self.create_retry_at() {
            None => Retry::Nothing,
            Some(at) if at > now => Retry::At(at),
            Some(_) if self.nr_idle > 0 => {
                self.no_create_before = 0;
                self.is_retried_on_need = false;
                Retry::Nothing
            }
            Some(_) if self.is_retried_on_need && !self.need_to_create_worker() => Retry::Nothing,
            Some(_) => Retry::Create,
        }
    }

    /// Worker `id` was seen blocked in run `seq`. Late and wrong reports are harmless: one about an
    /// earlier run is ignored, a wrong one costs an extra running worker until the item ends.
    ///
    /// KERNEL: `wq_worker_sleeping` — same.
    pub fn worker_blocked(&mut self, id: WorkerId, seq: u64) -> Kick {
        self.assert_caught_up();
        let (counts, any_run) =
            (self.keeps(Rule::BlockedMakesRoom), !self.keeps(Rule::ReportsNameTheirRun));
        let Some(worker) = self.workers.get_mut(id.0).filter(|_| counts) else {
            return Kick::None;
        };
        if (worker.seq != seq && !any_run) || worker.sleeping || worker.phase != Phase::Working {
            return Kick::None;
        }
        let pwq = worker.current.map(|c| c.pwq);
        self.nr_blocked_reports += 1;
        let nr = self.nr_blocked_reports;
        self.update(id, |w| (w.sleeping, w.blocked_nr) = (true, nr));
        let kick = self.kick();
        if let (Kick::Wake(_), Some(pwq)) = (kick, pwq) {
            self.pwq(pwq).rare_stats().cm_wakeup += 1;
            self.touch(pwq);
        }
        kick
    }

    /// Worker `id`, reported blocked in run `seq`, was seen running again.
    ///
    /// KERNEL: `wq_worker_running` — same, but says that the pool is to be watched if work waits
    /// that nobody is to start now. Who would have started it may never come: it was not to be had,
    /// and is not asked for again while enough run.
    pub fn worker_resumed(&mut self, id: WorkerId, seq: u64) -> Kick {
        if !self.is_blocked(id, seq) {
            return Kick::None;
        }
        let is_uncounted = self.stays_uncounted(id);
        self.update(id, |w| (w.sleeping, w.cpu_intensive) = (false, is_uncounted));
        self.watch_when_full(false)
    }

    /// Whether the pool is to be watched since work waits that nobody is to start now.
    pub fn watch_when_full(&self, is_watched: bool) -> Kick {
        let is_to_watch = !is_watched && self.work_waits() && self.is_at_capacity();
        if is_to_watch && self.keeps(Rule::WatchAtCapacity) { Kick::Watch } else { Kick::None }
    }

    /// Whether worker `id` is believed blocked in run `seq`.
    #[must_use]
    pub fn is_blocked(&self, id: WorkerId, seq: u64) -> bool {
        self.workers.get(id.0).is_some_and(|w| w.seq == seq && w.sleeping)
    }

    /// When the oldest surplus idle worker is to leave.
    ///
    /// KERNEL: `idle_worker_timeout` — same.
    #[must_use]
    pub fn cull_at(&self) -> Option<Nanos> {
        if !self.too_many_workers() {
            return None;
        }
        let oldest = self.workers.get(self.oldest_idle()?.0)?;
        Some(oldest.last_active.saturating_add(self.config.idle_timeout))
    }

    /// Of the idle workers that were not woken, the one that has been idle for longest. One that
    /// was woken is about to look, and *(coming)* relies on that.
    pub(super) fn oldest_idle(&self) -> Option<WorkerId> {
        let mut at = self.idle_tail;
        while let Some(id) = at {
            let worker = self.workers.get(id.0)?;
            if !worker.woken {
                return at;
            }
            at = worker.idle_prev;
        }
        None
    }

    /// Tells the oldest surplus idle worker to leave, if its time is up: wake it. Call until
    /// `None`.
    ///
    /// KERNEL: `idle_cull_fn` — same.
    #[must_use]
    pub fn cull_one(&mut self, now: Nanos) -> Option<WorkerId> {
        if self.cull_at()? > now {
            return None;
        }
        let id = self.oldest_idle()?;
        self.dismiss(id);
        Some(id)
    }

    /// An idle worker is to leave: it learns so when it looks. The caller keeps *(standby)*.
    pub(super) fn dismiss(&mut self, id: WorkerId) {
        self.leave_idle(id);
        self.worker(id).die = true;
        self.nr_dying += 1;
        self.assert_standby();
    }

    fn too_many_workers(&self) -> bool {
        policy::too_many_workers(
            self.nr_workers - self.nr_dying,
            self.nr_idle,
            self.manager.is_some(),
            self.config.idle_ratio,
        )
    }

    pub(super) fn forget(&mut self, id: WorkerId) {
        let gone = self.workers.remove(id.0);
        self.nr_workers -= 1;
        self.changed = true;
        if gone.is_some_and(|worker| worker.die) {
            self.nr_dying -= 1;
        }
    }
}
