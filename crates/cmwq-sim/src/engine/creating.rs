//! Workers come and go: creation by managers and from outside, failures and retries, culling.

use cmwq_core::{Retry, WorkerId, may_add_worker};

use super::working::Turn;
use super::{Due, Engine, Mode};
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
use crate::machine::Tid;

/// Who creates a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creator {
    /// A worker of the pool, as its manager.
    Manager,
    /// A worker of the pool that is to be lent and must leave a standby behind.
    Lender,
    /// A thread outside, because the pool has no worker to come for its work.
    Outside,
    /// A thread outside, so that the pool has workers to lend.
    OutsideToLend,
}

/// A worker in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creation {
    pub(crate) id: WorkerId,
    pub(crate) by: Creator,
}

impl Engine<'_> {
    /// Creates a worker if the pool has none to come for its work.
    pub(super) fn create_from_outside(&mut self, pool: PoolNo) {
        if self.pools.list[pool].lock_only().may_create_from_outside() {
            self.begin_outside(pool, Creator::Outside);
        }
    }

    /// Creates a worker if the pool has too few to stand by or to be lent.
    pub(super) fn create_spare(&mut self, pool: PoolNo, by: Creator) {
        if self.pools.list[pool].lock_only().may_create_spare(self.now) {
            self.begin_outside(pool, by);
        }
    }

    fn begin_outside(&mut self, pool: PoolNo, by: Creator) {
        let id = self.pools.list[pool].lock_only().worker_new();
        self.gauges[pool].transit += 1;
        self.checkers.touch(pool);
        self.wanted(pool);
        let at = self.now + self.config.costs.create;
        self.agenda.add(at, Rank::Wake, Due::Created(pool, Creation { id, by }));
    }

    fn wanted(&mut self, pool: PoolNo) {
        self.gauges[pool].creating += 1;
        self.note(What::WorkerWanted(pool));
        self.plan_mayday(pool);
    }

    /// A creation from outside has come to its end.
    pub(super) fn created(&mut self, pool: PoolNo, creation: Creation) {
        self.gauges[pool].transit -= 1;
        self.checkers.touch(pool);
        if self.create(pool, creation, None) && creation.by == Creator::OutsideToLend {
            self.call_created(pool);
        }
    }

    /// A worker begins to create another.
    pub(super) fn begin_creation(&mut self, tid: Tid, by: Creator) -> Turn {
        let home = self.threads[tid].home;
        let id = self.pools.list[home].lock_only().worker_new();
        self.wanted(home);
        self.threads[tid].mode = Mode::Create(Creation { id, by });
        Turn::Burn(self.config.costs.create)
    }

    /// A worker's attempt to create another has come to its end.
    pub(super) fn creation_done(&mut self, tid: Tid, creation: Creation) -> Turn {
        let (home, id) = (self.threads[tid].home, self.threads[tid].id);
        self.threads[tid].mode = Mode::Ask;
        let manager = (creation.by == Creator::Manager).then_some(id);
        self.create(home, creation, manager);
        Turn::Again
    }

    /// Makes the thread, or fails to. `true`: it is there.
    fn create(&mut self, pool: PoolNo, creation: Creation, manager: Option<WorkerId>) -> bool {
        self.gauges[pool].creating -= 1;
        let is_refused = self.is_refused(pool);
        if is_refused || self.creation_fails() {
            let core = self.pools.list[pool].lock();
            if is_refused {
                core.create_refused(creation.id, manager, self.now);
            } else {
                core.create_failed(creation.id, manager, self.now);
            }
            let retry_at = core.create_retry_at();
            self.check_pool(pool);
            // The worker in the making counted as busy, so fewer idle workers may stay now.
            self.plan_cull(pool);
            self.note(What::CreateFailed(pool));
            self.plan_mayday(pool);
            self.plan_retry(retry_at.unwrap_or(self.now));
            self.dismiss_if_closed(pool);
            if is_refused {
                self.yield_for(pool);
            }
            return false;
        }
        self.introduce(pool, creation.id, manager);
        if self.config.sabotage == Some(Sabotage::CreateTwice) {
            let second = self.pools.list[pool].lock_only().worker_new();
            self.introduce(pool, second, None);
        }
        true
    }

    fn introduce(&mut self, pool: PoolNo, id: WorkerId, manager: Option<WorkerId>) {
        let tid = self.spawn_worker(pool, id);
        self.gauges[pool].nr_workers += 1;
        self.note(What::WorkerMade(pool, tid + 1));
        let kick = self.pools.list[pool].lock().worker_created(id, manager, self.now);
        // The worker is idle now, and may never be woken.
        self.plan_cull(pool);
        self.kick(pool, kick);
        self.dismiss_if_closed(pool);
    }

    /// Whether the process has as many workers as it may, and this pool has one.
    fn is_refused(&self, pool: PoolNo) -> bool {
        let Some(max) = self.config.max_workers else { return false };
        let of_process = self.gauges.iter().map(|gauge| gauge.nr_workers).sum();
        // One is in the making.
        let of_pool = self.pools.list[pool].read().nr_staying() - 1;
        !may_add_worker(of_process, max, of_pool)
    }

    /// Another pool lets an idle worker go, if one has any to spare.
    fn yield_for(&mut self, refused: PoolNo) {
        for pool in (0..self.pools.list.len()).filter(|&pool| pool != refused) {
            let Some(id) = self.pools.list[pool].lock_only().yield_one() else { continue };
            return self.send_away(pool, id);
        }
    }

    fn creation_fails(&mut self) -> bool {
        let faults = &self.config.faults;
        let in_outage = |(from, to): (u64, u64)| (from..to).contains(&self.now);
        faults.create_outage.is_some_and(in_outage) || self.rng.chance(faults.create_fails)
    }

    // ---- trying again

    fn plan_retry(&mut self, at: u64) {
        if self.retry_planned.is_none_or(|planned| at < planned) {
            self.retry_planned = Some(at);
            self.agenda.add(at, Rank::Wake, Due::Retry);
        }
    }

    /// Tries again for every pool where creation failed and no worker stands by.
    pub(super) fn retry(&mut self) {
        if self.retry_planned.is_none_or(|planned| self.now < planned) {
            return;
        }
        self.retry_planned = None;
        for pool in 0..self.pools.list.len() {
            // In the runtime one thread makes all these attempts, one after the other.
            if self.gauges[pool].creating > 0 {
                continue;
            }
            match self.pools.list[pool].lock_only().retry(self.now) {
                Retry::Nothing => {}
                Retry::At(at) => self.plan_retry(at),
                Retry::Create => self.create_spare(pool, Creator::Outside),
            }
        }
    }

    // ---- culling

    pub(super) fn plan_cull(&mut self, pool: PoolNo) {
        let entry = &mut self.pools.list[pool];
        let Some(at) = entry.read().cull_at() else { return };
        if self.config.sabotage != Some(Sabotage::NeverCull)
            && entry.cull_planned.is_none_or(|planned| at < planned)
        {
            entry.cull_planned = Some(at);
            self.agenda.add(at.max(self.now), Rank::Wake, Due::Cull(pool));
        }
    }

    /// Lets surplus idle workers leave.
    pub(super) fn cull(&mut self, pool: PoolNo) {
        self.pools.list[pool].cull_planned = None;
        while let Some(id) = self.pools.list[pool].lock_only().cull_one(self.now) {
            self.send_away(pool, id);
        }
        self.plan_cull(pool);
    }
}
