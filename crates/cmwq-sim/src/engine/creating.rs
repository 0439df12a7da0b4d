//! Workers come and go: creation by managers and from outside, failures and retries, culling.

use cmwq_core::{Create, Creator, LockFor, Retry, WorkerId, may_add_worker, yield_for};

use super::working::Turn;
use super::{Due, Engine, Mode};
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
use crate::machine::Tid;

/// A worker in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creation {
    pub(crate) id: WorkerId,
    pub(crate) by: Creator,
    /// Somebody wants to call it to help another pod.
    pub(crate) is_to_be_called: bool,
}

impl Engine<'_> {
    /// Whether `by`, who has the CPU now or is no thread of the run, creates a worker.
    pub(super) fn may_create(&mut self, pool: PoolNo, by: Creator) -> bool {
        let create =
            self.pools.list[pool].lock(LockFor::Counts).may_create(by, self.is_rescuing, self.now);
        if let Create::Later(at) = create {
            self.plan_retry(at);
            self.plan_mayday(pool);
        }
        create == Create::Now
    }

    /// The pool is new, or is used again, and gets its first worker, if it has any, before anything
    /// is queued there. Whoever made the pool has waited for that.
    pub(super) fn create_first(&mut self, pool: PoolNo) {
        let kind = self.pools.list[pool].kind.in_core();
        let is_to_begin = self.pools.list[pool].read().is_to_begin(kind);
        if !is_to_begin || !self.may_create(pool, Creator::Begin) {
            return;
        }
        let id = self.pools.list[pool].lock(LockFor::Counts).worker_new();
        self.wanted(pool);
        self.create(pool, Creation { id, by: Creator::Begin, is_to_be_called: false });
    }

    /// Somebody who is not a worker of the pool would create one.
    pub(super) fn create_from_outside(&mut self, pool: PoolNo, by: Creator, is_to_be_called: bool) {
        if !self.may_create(pool, by) {
            return;
        }
        let id = self.pools.list[pool].lock(LockFor::Counts).worker_new();
        self.gauges[pool].transit += 1;
        self.checkers.touch(pool);
        self.wanted(pool);
        let at = self.now + self.config.costs.create;
        let creation = Creation { id, by, is_to_be_called };
        self.agenda.add(at, Rank::Wake, Due::Created(pool, creation));
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
        if self.create(pool, creation) && creation.is_to_be_called {
            self.call_created(pool);
        }
    }

    /// A worker begins to create another.
    pub(super) fn begin_creation(&mut self, tid: Tid, by: Creator) -> Turn {
        let home = self.threads[tid].home;
        let id = self.pools.list[home].lock(LockFor::Counts).worker_new();
        self.wanted(home);
        self.threads[tid].mode = Mode::Create(Creation { id, by, is_to_be_called: false });
        Turn::Burn(self.config.costs.create)
    }

    /// A worker's attempt to create another has come to its end.
    pub(super) fn creation_done(&mut self, tid: Tid, creation: Creation) -> Turn {
        self.threads[tid].mode = Mode::Ask;
        self.create(self.threads[tid].home, creation);
        Turn::Again
    }

    /// Makes the thread, or fails to. `true`: it is there.
    fn create(&mut self, pool: PoolNo, creation: Creation) -> bool {
        self.gauges[pool].creating -= 1;
        let manager = creation.by.manager();
        let is_refused = self.is_refused(pool);
        if is_refused || self.creation_fails() {
            let core = self.pools.list[pool].lock(LockFor::Decide);
            if is_refused {
                core.create_refused(creation.id, manager, self.now);
            } else {
                core.create_failed(creation.id, manager, self.now);
            }
            self.check_pool(pool);
            // The worker in the making counted as busy, so fewer idle workers may stay now.
            self.plan_cull(pool);
            self.note(What::CreateFailed(pool));
            self.plan_mayday(pool);
            self.dismiss_if_closed(pool);
            if self.has_other_yielded(pool) {
                self.pools.list[pool].lock(LockFor::Counts).retry_soon(self.now);
            }
            let retry_at = self.pools.list[pool].read().create_retry_at();
            self.plan_retry(retry_at.unwrap_or(self.now));
            return false;
        }
        self.introduce(pool, creation.id, manager);
        if self.config.sabotage == Some(Sabotage::CreateTwice) {
            let second = self.pools.list[pool].lock(LockFor::Counts).worker_new();
            self.introduce(pool, second, None);
        }
        true
    }

    fn introduce(&mut self, pool: PoolNo, id: WorkerId, manager: Option<WorkerId>) {
        let tid = self.spawn_worker(pool, id);
        self.gauges[pool].nr_workers += 1;
        self.note(What::WorkerMade(pool, tid + 1));
        let kick =
            self.pools.list[pool].lock(LockFor::Decide).worker_created(id, manager, self.now);
        // The worker is idle now, and may never be woken.
        self.plan_cull(pool);
        self.kick(pool, kick);
        self.dismiss_if_closed(pool);
    }

    /// Whether the process has as many workers as it may, and this pool has one.
    fn is_refused(&self, pool: PoolNo) -> bool {
        let for_now = self.config.faults.limit.filter(|&(_, until)| self.now < until);
        let max = self.config.max_workers.or(for_now.map(|(max, _)| max));
        let Some(max) = max else { return false };
        let of_process = self.nr_workers();
        // One is in the making.
        let of_pool = self.pools.list[pool].read().nr_staying() - 1;
        !may_add_worker(of_process, max, of_pool)
    }

    fn nr_workers(&self) -> u32 {
        self.gauges.iter().map(|gauge| gauge.nr_workers).sum()
    }

    /// Another pool lets an idle worker go, if one has any to spare.
    fn has_other_yielded(&mut self, refused: PoolNo) -> bool {
        let has_none = self.pools.list[refused].read().nr_staying() == 0;
        let nr_pools = self.pools.list.len();
        let yields = yield_for(
            &refused,
            has_none,
            || 0..nr_pools,
            |&pool, may_be_last| {
                let leaving = self.pools.list[pool].lock(LockFor::Counts).yield_one(may_be_last);
                if let Some(id) = leaving {
                    self.send_away(pool, id);
                }
                leaving.is_some()
            },
        );
        yields.is_some()
    }

    fn creation_fails(&mut self) -> bool {
        let faults = &self.config.faults;
        let in_outage = |(from, to): (u64, u64)| (from..to).contains(&self.now);
        faults.create_outage.is_some_and(in_outage)
            || faults.max_threads.is_some_and(|max| self.nr_workers() >= max)
            || self.rng.chance(faults.create_fails)
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
            match self.pools.list[pool].lock(LockFor::Counts).retry(self.now) {
                Retry::Nothing => {}
                Retry::At(at) => self.plan_retry(at),
                Retry::Create => self.create_from_outside(pool, Creator::Spare, false),
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
        while let Some(id) = self.pools.list[pool].lock(LockFor::Counts).cull_one(self.now) {
            self.send_away(pool, id);
        }
        self.plan_cull(pool);
    }
}
