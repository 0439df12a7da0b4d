//! An idle pod helps a busy one: its workers visit the other pool and run items there.

use super::working::Turn;
use super::{Engine, Visit};
use crate::board::Board;
use crate::config::Sabotage;
use crate::event::PoolNo;
use crate::machine::Tid;
use crate::places::{Kind, Pool, PoolKind, Queue, managed_pod};
use crate::plan::Attrs;
use cmwq_core::help::{self, Asking};
use cmwq_core::place::OwnCpus;
use cmwq_core::{Creator, Kick, Lend, LockFor};

/// A pod asks others of its priority for help.
struct ForHelp<'a, 'p> {
    engine: &'a mut Engine<'p>,
    is_high: bool,
}

impl Asking for ForHelp<'_, '_> {
    type Pool = PoolNo;

    fn pool(&mut self, pod: usize) -> Option<PoolNo> {
        self.engine.helping.visits += 1;
        Some(self.engine.pool(PoolKind::Managed(pod as u32), self.is_high))
    }

    fn caller_computes(&mut self, pool: PoolNo) -> bool {
        self.engine.pools.list[pool].caller_computes
    }

    fn ask_when_idle(&mut self, pool: PoolNo) {
        self.engine.ask_when_idle(pool);
    }

    fn ask(&mut self, pool: PoolNo) -> bool {
        self.engine.ask_to_help(pool)
    }
}

impl Engine<'_> {
    pub(super) fn lends(&self, pool: PoolNo) -> bool {
        let is_managed = matches!(self.pools.list[pool].kind, PoolKind::Managed(_));
        is_managed && self.config.lending && self.config.sabotage != Some(Sabotage::NeverLend)
    }

    /// Which pod of the board a managed pool is.
    fn pod_of(&self, pool: PoolNo) -> Option<(u32, bool)> {
        let Pool { kind, is_high, .. } = self.pools.list[pool];
        if let PoolKind::Managed(domain) = kind { Some((domain, is_high)) } else { None }
    }

    /// Pods that no pool was made for yet help, too, from the start.
    pub(super) fn open_pods(&mut self) {
        for cpu in 0..self.machine.nr_cpus() {
            self.open_pods_of(cpu);
        }
        self.pools.boards.iter().for_each(|board| board.set_writes(0));
    }

    /// The pods of `cpu` that managed queues lead to may help as long as they have CPUs.
    pub(super) fn open_pods_of(&mut self, cpu: u32) {
        for queue in 0..self.queues.len() {
            let Queue { kind, is_high, attrs: Attrs { scope, .. }, .. } = self.queues[queue];
            if kind == Kind::Managed {
                let domain = managed_pod(cpu, scope, &self.machine);
                let domains = self.machine.domains();
                let (allowed, managed) = (domains.nr_online(domain), domains.nr_managed(domain));
                let is_open = OwnCpus { allowed, managed }.may_help();
                self.pools.open(domain, is_high, is_open);
            }
        }
    }

    /// A managed pool of another pod that has a backlog.
    fn who_wants_help(&mut self, pool: PoolNo) -> Option<PoolNo> {
        let (me, is_high) = self.pod_of(pool)?;
        if self.config.sabotage == Some(Sabotage::WalkPods) {
            return self.walk_pods(me, is_high);
        }
        let board = &self.pools.boards[usize::from(is_high)];
        let pool_of = |pod: usize| self.pools.find(PoolKind::Managed(pod as u32), is_high);
        let inbox_is_empty = |&pool: &PoolNo| self.pools.list[pool].inbox.is_empty();
        let pools: Vec<_> = help::to_visit(board, me as usize, pool_of, inbox_is_empty).collect();
        pools.into_iter().find(|&pool| {
            self.helping.visits += 1;
            self.has_backlog(pool)
        })
    }

    /// Whether the pool has to be watched.
    pub(super) fn has_to_watch(&self, pool: PoolNo) -> bool {
        let it = &self.pools.list[pool];
        it.read().has_to_watch(|| it.caller_computes, || self.others_wait(pool))
    }

    /// What the board says of the pool's pod. `false` where pods do not help each other.
    pub(super) fn asks_board(&self, pool: PoolNo, what: fn(&Board, usize) -> bool) -> bool {
        let pod = self.pod_of(pool).filter(|_| self.lends(pool));
        pod.is_some_and(|(me, is_high)| what(&self.pools.boards[usize::from(is_high)], me as usize))
    }

    /// Another pod has more work than it may run, so that a CPU which somebody leaves here matters.
    fn others_wait(&self, pool: PoolNo) -> bool {
        self.asks_board(pool, help::others_wait)
    }

    /// A worker of the pool was reported blocked, which demanded `kick`. Returns which worker to
    /// wake.
    pub(super) fn replace_blocked(&mut self, pool: PoolNo, kick: Kick) -> Kick {
        // First the pool posts that it has a CPU to spare, then it looks which pod wants that.
        let has_posted = self.pools.post_entry(pool);
        let others_wait = self.others_wait(pool);
        let it = &mut self.pools.list[pool];
        let caller_computes = it.caller_computes;
        it.lock(LockFor::Counts).replace_blocked(
            kick,
            has_posted,
            || caller_computes,
            || others_wait,
        )
    }

    /// Work waits in `pool` at capacity: has the workers of other pods watched, for their CPUs.
    pub(super) fn watch_other_pods(&mut self, pool: PoolNo) {
        let Some((me, is_high)) = self.pod_of(pool).filter(|_| self.lends(pool)) else { return };
        if self.config.sabotage == Some(Sabotage::NeverWatchOthers) {
            return;
        }
        let board = &self.pools.boards[usize::from(is_high)];
        let others: Vec<_> = help::to_watch(board, me as usize, self.nr_ticks).collect();
        for pod in others {
            let Some(other) = self.pools.find(PoolKind::Managed(pod as u32), is_high) else {
                continue;
            };
            let it = &self.pools.list[other];
            if it.read().watch_for_others(it.is_watched) == Kick::Watch {
                self.kick(other, Kick::Watch);
            }
        }
    }

    /// Whether items wait that the pool may not start. The caller is about to help it.
    fn has_backlog(&mut self, pool: PoolNo) -> bool {
        let has_backlog = self.pools.list[pool].lock(LockFor::Decide).has_backlog();
        self.check_pool(pool);
        has_backlog
    }

    /// The same by a sabotaged driver, which looks at all pods.
    fn walk_pods(&mut self, me: u32, is_high: bool) -> Option<PoolNo> {
        let others = (0..self.machine.domains().len()).filter(|&pod| pod != me);
        let pools = others.filter_map(|pod| self.pools.find(PoolKind::Managed(pod), is_high));
        pools.into_iter().find(|&other| {
            self.helping.visits += 1;
            self.pools.list[other].read().has_backlog()
        })
    }

    /// Work waits here at capacity: wakes a worker of a pod that has a CPU to spare.
    pub(super) fn ask_for_help(&mut self, pool: PoolNo) {
        let Some((me, is_high)) = self.pod_of(pool).filter(|_| self.lends(pool)) else { return };
        let board = &self.pools.boards[usize::from(is_high)];
        let asks: Vec<_> = help::to_ask(board, me as usize).collect();
        help::ask_until_one_comes(asks.into_iter(), &mut ForHelp { engine: self, is_high });
    }

    /// As [`ask_to_help`](Self::ask_to_help), but once its CPU is idle: the CPU's sentinel then
    /// wakes the standby.
    fn ask_when_idle(&mut self, pool: PoolNo) {
        let is_watched = self.pools.list[pool].is_watched;
        let kick = self.pools.list[pool].lock(LockFor::Decide).kick_when_idle(is_watched);
        match kick {
            Kick::NeedFirst => self.create_from_outside(pool, Creator::Spare, true),
            kick => self.kick(pool, kick),
        }
    }

    /// A worker was created to be called.
    pub(super) fn call_created(&mut self, pool: PoolNo) {
        if self.pools.list[pool].caller_computes {
            self.ask_when_idle(pool);
        } else {
            let kick = self.pools.list[pool].lock(LockFor::Decide).ask_to_help();
            self.kick(pool, kick);
        }
    }

    /// Wakes a worker of the pod to look for work in others. `false`: no worker can come.
    fn ask_to_help(&mut self, pool: PoolNo) -> bool {
        let kick = self.pools.list[pool].lock(LockFor::Decide).ask_to_help();
        self.check_pool(pool);
        match kick {
            Kick::Wake(id) => self.unpark_worker(pool, id),
            Kick::NeedFirst => self.create_from_outside(pool, Creator::Spare, true),
            Kick::None | Kick::Watch => return false,
        }
        true
    }

    /// An idle worker looks whether another pod has a backlog. `None`: it may sleep.
    pub(super) fn lend(&mut self, tid: Tid) -> Option<Turn> {
        let (home, id) = (self.threads[tid].home, self.threads[tid].id);
        // While a caller computes on its CPU, only the sentinel calls its workers.
        let Pool { caller_computes, may_help, .. } = self.pools.list[home];
        if !self.lends(home) || caller_computes || !may_help {
            return None;
        }
        let host = self.who_wants_help(home)?;
        debug_assert!(self.pools.list[host].read().has_backlog(), "the index of pools is stale");
        if self.may_create(home, Creator::Spare) {
            return Some(self.begin_creation(tid, Creator::Spare));
        }
        let is_unbound = self.is_unbound(tid);
        let lend = self.pools.list[home].lock(LockFor::Decide).lend(id, is_unbound);
        self.check_pool(home);
        let seq = match lend {
            Lend::Lent(seq) => seq,
            Lend::Rebind if self.rebind(tid) => return Some(Turn::Again),
            Lend::Rebind => return Some(Turn::Move(self.machine.threads[tid].cpu)),
            Lend::No => return None,
        };
        self.threads[tid].seq = seq;
        let batch = self.pools.list[home].read().batch_for(id);
        let core = self.pools.list[host].lock(LockFor::Decide);
        let (guest, nr_started) = (core.helper_enter(batch), core.nr_started());
        self.threads[tid].helping_visit =
            help::Visit::begin(self.now, nr_started, self.ticking.is_some());
        self.threads[tid].ran = 0;
        self.threads[tid].visit = Some(Visit { host, id: guest });
        self.kick(home, Kick::Watch);
        Some(Turn::Again)
    }

    pub(super) fn ask_as_guest(&mut self, tid: Tid, visit: Visit) -> Turn {
        let waits_first = self.pools.list[self.threads[tid].home].read().items_wait_first();
        let claim =
            self.pools.list[visit.host].lock(LockFor::Decide).guest_next(visit.id, waits_first);
        self.check_pool(visit.host);
        if let Some(claim) = claim {
            self.threads[tid].more = claim.more;
            self.threads[tid].ran += 1;
            return self.begin(tid, visit.host, visit.id, claim);
        }
        self.go_home(tid, visit);
        Turn::Again
    }

    /// Between two items of the other pool: the worker goes back if its own pool wants it.
    pub(super) fn stay_or_go_home(&mut self, tid: Tid, visit: Visit) {
        let (home, id) = (self.threads[tid].home, self.threads[tid].id);
        let caller_computes = self.pools.list[home].caller_computes;
        let core = self.pools.list[home].lock(LockFor::Decide);
        self.threads[tid].seq = core.lend_again(id);
        let is_wanted = core.wants_back(|| caller_computes);
        self.check_pool(home);
        let _ = self.pools.list[visit.host].lock(LockFor::Decide);
        let progress = self.progress_of(visit.host);
        let may_leave = || self.pools.list[visit.host].read().guest_may_leave(visit.id);
        let thread = &mut self.threads[tid];
        let (ran, length) = (std::mem::take(&mut thread.ran), &mut thread.helping_visit);
        if length.is_over(ran, is_wanted, || progress, may_leave) {
            return self.go_home(tid, visit);
        }
        if length.stays_alone() && !self.pools.list[visit.host].has_short_items {
            self.set_short(visit.host, true);
        }
    }

    /// A helper in the pool was found blocked: what it has taken along comes back, and the items
    /// are not short.
    pub(super) fn helper_blocked(&mut self, host: PoolNo) {
        let _ = self.pools.list[host].lock(LockFor::Decide);
        if self.pools.list[host].has_short_items {
            self.set_short(host, false);
        }
        self.kick(host, Kick::None);
    }

    fn go_home(&mut self, tid: Tid, visit: Visit) {
        let work_waits = self.pools.list[visit.host].lock(LockFor::Decide).work_waits();
        let is_short = self.threads[tid].helping_visit.finds_short(self.now, work_waits);
        if is_short {
            self.set_short(visit.host, true);
        } else if self.threads[tid].helping_visit.leaves_nobody() {
            self.set_short(visit.host, false);
        }
        let kick = self.pools.list[visit.host].lock(LockFor::Decide).guest_leave(visit.id);
        self.kick(visit.host, kick);
        let (home, id) = (self.threads[tid].home, self.threads[tid].id);
        self.pools.list[home].lock(LockFor::Decide).lend_end(id);
        self.check_pool(home);
        self.threads[tid].visit = None;
        if is_short {
            self.tick_soon();
        }
    }
}
