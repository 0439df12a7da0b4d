//! The worker's loop: two short matches, one over what the core says, one over an item's program.

use cmwq_core::help;
use cmwq_core::{Claim, Creator, Kick, LockFor, Next, PoolState, WorkerId};

use super::{Engine, Mode, Role, Run, Thread, Unlocked, Waiter};
use crate::Nanos;
use crate::agenda::Rank;
use crate::arena::{Arena, Name};
use crate::config::Sabotage;
use crate::event::{PoolNo, Queueing, Site, What};
use crate::machine::{Place, Tid};
use crate::places::PoolKind;
use crate::plan::{Op, QueueId};

/// What a thread that has a CPU does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Goes on at once.
    Again,
    /// Uses the CPU for so long.
    Burn(Nanos),
    /// Waits for something else.
    Off,
    /// Lets others go first.
    Yield,
    /// Goes on near this CPU, or on it.
    Move(u32),
}

impl Engine<'_> {
    /// The thread that has a CPU goes on until it needs time, or waits.
    pub(super) fn step(&mut self, tid: Tid) {
        self.is_rescuing = self.threads[tid].role == Role::Rescuer;
        self.go_on(tid);
        self.is_rescuing = false;
    }

    fn go_on(&mut self, tid: Tid) {
        while self.violation.is_none() {
            self.count_step();
            let turn = match self.threads[tid].mode {
                Mode::Ask => self.ask(tid),
                Mode::Create(creation) => self.creation_done(tid, creation),
                Mode::Item(run) => self.run_on(tid, run),
                Mode::Unlocked(unlocked) => self.go_on_unlocked(tid, unlocked),
                Mode::Rescue => self.ask_as_rescuer(tid),
                Mode::Serve(context) => self.serve(tid, context),
                Mode::Foreign(computes) => self.foreign(tid, computes),
                Mode::Issuer(issuer) => self.issue(tid, issuer),
                Mode::Dead => Turn::Off,
            };
            match turn {
                Turn::Again | Turn::Burn(0) => {}
                Turn::Burn(ns) => {
                    self.machine.threads[tid].burn = ns;
                    return self.burn(tid);
                }
                Turn::Off => {
                    self.machine.leave(tid);
                    return self.regauge(tid);
                }
                Turn::Yield => return self.machine.requeue(tid),
                Turn::Move(cpu) => {
                    self.machine.leave(tid);
                    self.machine.threads[tid].cpu = cpu;
                    return self.wake(tid);
                }
            }
        }
    }

    fn ask(&mut self, tid: Tid) -> Turn {
        if let Some(visit) = self.threads[tid].visit {
            return self.ask_as_guest(tid, visit);
        }
        let (home, id, now) = (self.threads[tid].home, self.threads[tid].id, self.now);
        let pool = &mut self.pools.list[home];
        let is_behind_item = std::mem::take(&mut self.threads[tid].is_behind_item);
        let what_for = if is_behind_item { LockFor::NextItem } else { LockFor::Decide };
        let core = pool.lock(what_for);
        let next = core.next(id, || now);
        self.check_core(home);
        match next {
            Next::Run(claim) => {
                (self.threads[tid].seq, self.threads[tid].more) = (claim.seq, claim.more);
                self.begin(tid, home, id, claim)
            }
            Next::Manage => {
                self.check_pool(home);
                self.begin_creation(tid, Creator::Manager(id))
            }
            Next::Sleep { work_waits } => self.sleep(tid, home, work_waits),
            Next::Exit => self.exit(tid, home, id),
        }
    }

    /// The worker has no work here: looks whether another pod has, then parks.
    fn sleep(&mut self, tid: Tid, home: PoolNo, work_waits: bool) -> Turn {
        self.helping.occasions += 1;
        if self.has_to_watch(home) {
            self.kick(home, Kick::Watch);
        } else {
            self.pools.list[home].is_watched = false;
            self.check_pool(home);
        }
        self.plan_cull(home);
        if !work_waits && let Some(turn) = self.lend(tid) {
            return turn;
        }
        self.dismiss_if_closed(home);
        if work_waits {
            self.cpu_may_idle(home);
        }
        let is_at_home = self.rebind(tid);
        let thread = &mut self.threads[tid];
        if std::mem::take(&mut thread.token) {
            let cpu = self.machine.threads[tid].cpu;
            return if is_at_home { Turn::Again } else { Turn::Move(cpu) };
        }
        thread.is_parked = true;
        Turn::Off
    }

    fn exit(&mut self, tid: Tid, home: PoolNo, id: WorkerId) -> Turn {
        self.threads[tid].mode = Mode::Dead;
        self.pools.list[home].set_thread(id, None);
        self.gauges[home].nr_workers -= 1;
        self.gauges[home].leaving -= 1;
        self.note(What::WorkerLeft(home, tid + 1));
        self.check_pool(home);
        Turn::Off
    }

    // ---- one item

    /// Enters the function of a claimed item, which `id` of `pool` runs.
    pub(super) fn begin(&mut self, tid: Tid, pool: PoolNo, id: WorkerId, claim: Claim) -> Turn {
        self.kick(pool, claim.kick);
        let queue = claim.wq.0 as usize;
        let cpu_pwq = self.queues[queue].cpu_pwq_at(pool, claim.pwq);
        let site = Site { pool, group: cpu_pwq.map_or(usize::MAX, |cpu_pwq| cpu_pwq.group) };
        match Arena::name_of(claim.item) {
            Name::Barrier(barrier) => {
                self.wait_is_over(barrier);
                return self.leave_function(tid, site, id);
            }
            Name::Item(item) => self.enter(tid, site, item, claim.is_to_wait),
        }
        Turn::Again
    }

    /// The function of an item is entered.
    fn enter(&mut self, tid: Tid, site: Site, item: usize, is_to_wait: bool) {
        let queue = self.plan.items[item].queue;
        let ticket = self.items[item].pending.take().unwrap_or_default();
        self.items[item].running = Some(ticket);
        self.pools.list[site.pool].nr_listed -= 1;
        let run = Run {
            what: Queueing { item, ticket, queue },
            site,
            pc: 0,
            is_announced: false,
            has_slept: false,
            has_yielded: false,
            is_taken_along: false,
            is_intensive: self.queues[queue].is_intensive(),
            is_hog: false,
            stands_for_process: false,
        };
        self.note(What::Started(run.what, run.site, self.runner(tid)));
        self.threads[tid].mode = Mode::Item(run);
        self.mark_sleeps(tid, is_to_wait);
        if self.threads[tid].is_worker() {
            self.remember_run(item, tid);
            self.gauges[self.threads[tid].home].executing += 1;
            self.regauge(tid);
            self.report_falsely(tid);
        }
    }

    /// After an item, a worker begins the next one of its batch without the lock. `false`: there is
    /// none, or the batch was called back.
    fn begin_next(&mut self, tid: Tid, site: Site) -> bool {
        let Some(more) = self.threads[tid].more.checked_sub(1) else { return false };
        self.threads[tid].more = more;
        let Thread { home, id, visit, .. } = self.threads[tid];
        let (pool, id) = visit.map_or((home, id), |visit| (visit.host, visit.id));
        let may_begin = visit.is_none() || self.helper_may_begin_next(tid);
        let begun = || Arena::begin(self.pools.list[pool].read(), id);
        let Some(item) = may_begin.then(begun).flatten() else {
            self.threads[tid].more = 0;
            return false;
        };
        match visit {
            // Its own pool knows of one run, whatever it runs as a guest.
            Some(_) => self.threads[tid].ran += 1,
            None => self.threads[tid].seq += 1,
        }
        self.nr_taken_along += 1;
        self.enter(tid, site, item, false);
        if let Mode::Item(run) = &mut self.threads[tid].mode {
            run.is_taken_along = true;
        }
        true
    }

    fn helper_may_begin_next(&self, tid: Tid) -> bool {
        let own = &self.pools.list[self.threads[tid].home];
        let was_blocked = self.threads[tid].marks.was_blocked();
        let is_crowded = own.read().is_crowded();
        let has_backlog = || self.asks_board(self.threads[tid].home, help::wants_help);
        let caller_computes = || own.caller_computes;
        let is_empty = own.inbox.is_empty();
        help::may_begin_next(was_blocked, is_crowded, is_empty, has_backlog, caller_computes)
    }

    /// A worker that was unbound while it was blocked is bound to its pool's CPUs again. `false`:
    /// it is on another one.
    pub(super) fn rebind(&mut self, tid: Tid) -> bool {
        if !self.is_managed(tid) {
            return true;
        }
        self.machine.threads[tid].is_movable = false;
        if self.is_unbound(tid) {
            let place = self.pools.list[self.threads[tid].home].kind.place();
            self.machine.set_place(tid, place);
        }
        self.machine.is_in_place(tid)
    }

    /// Whether the worker may run elsewhere than its pool wants.
    pub(super) fn is_unbound(&self, tid: Tid) -> bool {
        self.machine.threads[tid].place != self.pools.list[self.threads[tid].home].kind.place()
    }

    fn run_on(&mut self, tid: Tid, mut run: Run) -> Turn {
        let Some(&op) = self.plan.items[run.what.item].ops.get(run.pc) else {
            return self.end(tid, run);
        };
        let left = if let Op::BurnUntil(end) = op { end.saturating_sub(self.now) } else { 0 };
        // Others may have had the CPU meanwhile: then the item uses it some more.
        run.pc += usize::from(left == 0);
        self.threads[tid].mode = Mode::Item(run);
        let here = self.machine.threads[tid].cpu;
        match op {
            Op::Burn(ns) => return Turn::Burn(ns + self.fetch(run.what.item, here)),
            Op::BurnUntil(_) => return self.burn_on(tid, run, left),
            Op::Sleep(ns) => return self.block_for(tid, ns, false),
            Op::Announced(ns) => return self.block_for(tid, ns, true),
            Op::Process(runs) => self.process(tid, runs),
            Op::Queue { item, cpu } => {
                let from = Some(run.what.queue);
                if self.lets_in(item, from) && self.may_queue(&run) {
                    self.queue(item, cpu, here);
                }
            }
            Op::QueueDelayed { item, cpu, delay } => {
                let from = Some(run.what.queue);
                if self.lets_arm(item, delay, from) && self.may_queue(&run) {
                    self.queue_delayed(item, cpu, delay, here);
                }
            }
            Op::ModDelayed { item, cpu, delay } => {
                let is_let = self.lets_arm(item, delay, Some(run.what.queue));
                if !is_let || self.may_queue(&run) {
                    self.mod_delayed(item, cpu, delay, here, is_let);
                }
            }
            Op::FlushItem(_)
            | Op::FlushDelayed(_)
            | Op::FlushQueue(_)
            | Op::Cancel(_)
            | Op::CancelSync(_)
            | Op::SetMaxActive { .. }
            | Op::SetMinActive { .. } => {
                if self.do_as_anybody(op, Waiter::Worker(tid)) {
                    self.begin_wait(tid, op);
                    return self.block(tid, true);
                }
            }
            _ => debug_assert!(false, "that is for calls from outside"),
        }
        Turn::Again
    }

    /// Uses the CPU for a slice of what is left, if it may, then lets others go first.
    fn burn_on(&mut self, tid: Tid, mut run: Run, left: Nanos) -> Turn {
        let is_in_turn =
            run.has_yielded || !self.machine.has_waiters(self.machine.threads[tid].cpu);
        run.has_yielded = !is_in_turn;
        self.threads[tid].mode = Mode::Item(run);
        let slice = self.config.costs.slice.unwrap_or(Nanos::MAX);
        if is_in_turn { Turn::Burn(left.min(slice)) } else { Turn::Yield }
    }

    /// The queue of the item that the thread runs.
    pub(super) fn queue_of(&self, tid: Tid) -> Option<QueueId> {
        if let Mode::Item(run) = self.threads[tid].mode { Some(run.what.queue) } else { None }
    }

    /// Whether the run may queue another item: each has a budget.
    fn may_queue(&mut self, run: &Run) -> bool {
        let budget = &mut self.items[run.what.item].budget;
        let may = *budget > 0;
        *budget = budget.saturating_sub(1);
        may
    }

    fn block_for(&mut self, tid: Tid, ns: Nanos, announced: bool) -> Turn {
        self.agenda.add(self.now.saturating_add(ns), Rank::Wake, super::Due::Wake(tid));
        self.block(tid, announced)
    }

    /// The function blocks. `announced`: it tells the pool itself.
    fn block(&mut self, tid: Tid, announced: bool) -> Turn {
        let runner = self.runner(tid);
        if let Mode::Item(run) = &mut self.threads[tid].mode {
            run.is_announced = announced;
            run.has_slept = true;
            let (what, stands_for_process) = (run.what, run.stands_for_process);
            self.note(What::Slept(what, runner));
            if self.is_managed(tid) && !stands_for_process {
                // Who is believed blocked still is not reported again.
                let is_left_bound = self.is_left_bound(tid, self.threads[tid].seq);
                let is_looked_at = announced || self.is_looked_at(tid);
                let is_movable = is_looked_at && !is_left_bound && self.may_wake_elsewhere(tid);
                self.machine.set_movable(tid, is_movable);
            }
        }
        self.report_blocked(tid, announced);
        Turn::Off
    }

    /// The thread has a CPU again after it waited for something.
    pub(super) fn is_back(&mut self, tid: Tid) {
        let Mode::Item(run) = &mut self.threads[tid].mode else { return };
        if !std::mem::take(&mut run.has_slept) {
            return;
        }
        let (what, announced) = (run.what, std::mem::take(&mut run.is_announced));
        self.note(What::Woke(what, self.runner(tid)));
        self.report_resumed(tid, announced);
        self.after_wait(tid);
    }

    /// The function returns. Before anything is counted, others may have the CPU: the kernel's
    /// worker calls `cond_resched` here, and a sleeper that has become runnable is ahead of it.
    fn end(&mut self, tid: Tid, mut run: Run) -> Turn {
        if !run.has_yielded && self.machine.has_waiters(self.machine.threads[tid].cpu) {
            run.has_yielded = true;
            self.threads[tid].mode = Mode::Item(run);
            return Turn::Yield;
        }
        // For a batch the pool learns at its end.
        if !run.is_taken_along {
            self.learn(tid);
        }
        let item = run.what.item;
        self.items[item].running = None;
        self.outstanding -= 1;
        self.last_item = self.now;
        self.note(What::Finished(run.what, self.runner(tid)));
        self.threads[tid].mode = self.mode_between_items(tid);
        if self.threads[tid].is_worker() {
            self.gauges[self.threads[tid].home].executing -= 1;
            self.regauge(tid);
        }
        if self.begin_next(tid, run.site) {
            self.tell_issuer(item, self.machine.threads[tid].cpu);
            return Turn::Again;
        }
        if run.is_taken_along {
            self.learn(tid);
        }
        let id = self.threads[tid].visit.map_or(self.threads[tid].id, |visit| visit.id);
        let turn = self.leave_function(tid, run.site, id);
        self.tell_issuer(item, self.machine.threads[tid].cpu);
        turn
    }

    /// Whether it is a worker of a managed pool.
    pub(super) fn is_managed(&self, tid: Tid) -> bool {
        let thread = &self.threads[tid];
        thread.is_worker() && matches!(self.pools.list[thread.home].kind, PoolKind::Managed(_))
    }

    /// Corrects the counts after an item or a barrier. Remaining effects are acted on without the
    /// lock, so other threads may come in between, before and after.
    fn leave_function(&mut self, tid: Tid, site: Site, id: WorkerId) -> Turn {
        let effects = self.lock_behind_item(tid, site.pool).finish(id);
        if effects.is_none() {
            return self.after_item(tid, site.pool);
        }
        if self.config.costs.unlocked == 0 {
            self.act(site.pool, Kick::None, effects);
            return self.after_item(tid, site.pool);
        }
        self.check_core(site.pool);
        if self.threads[tid].is_worker() {
            self.gauges[self.threads[tid].home].executing += 1;
        }
        self.note(What::Unlocked(site.group));
        self.stay_unlocked(tid, Unlocked { site, effects: Some(effects) })
    }

    fn stay_unlocked(&mut self, tid: Tid, unlocked: Unlocked) -> Turn {
        self.threads[tid].mode = Mode::Unlocked(unlocked);
        self.regauge(tid);
        Turn::Burn(self.rng.between(1, self.config.costs.unlocked))
    }

    /// Acts on the remaining effects; the lock is taken again only a while later.
    fn go_on_unlocked(&mut self, tid: Tid, unlocked: Unlocked) -> Turn {
        if let Some(effects) = unlocked.effects {
            self.act(unlocked.site.pool, Kick::None, effects);
            return self.stay_unlocked(tid, Unlocked { effects: None, ..unlocked });
        }
        self.note(What::Relocked(unlocked.site.group));
        self.threads[tid].mode = self.mode_between_items(tid);
        if self.threads[tid].is_worker() {
            self.gauges[self.threads[tid].home].executing -= 1;
        }
        // A helper may have taken items along meanwhile.
        let _ = self.pools.list[unlocked.site.pool].lock(LockFor::Counts);
        self.after_item(tid, unlocked.site.pool)
    }

    /// The lock of the pool whose item was run.
    fn lock_behind_item(&mut self, tid: Tid, pool: PoolNo) -> &mut PoolState {
        let thread = &self.threads[tid];
        let what_for = match thread.role {
            Role::Worker if thread.visit.is_none() => LockFor::NextItem,
            Role::BhContext(_) => LockFor::Counts,
            Role::Worker | Role::Rescuer => LockFor::Decide,
        };
        self.pools.list[pool].lock(what_for)
    }

    /// The lock is taken again, or still held.
    fn after_item(&mut self, tid: Tid, pool: PoolNo) -> Turn {
        let _ = self.lock_behind_item(tid, pool);
        let thread = &mut self.threads[tid];
        if thread.role == Role::Worker && thread.visit.is_none() {
            self.pass_barriers(tid, pool);
        }
        let thread = &mut self.threads[tid];
        if thread.role != Role::Rescuer && thread.visit.is_none() {
            self.pools.list[pool].take_inbox_after_item();
            thread.is_behind_item = thread.role == Role::Worker;
        }
        if let Role::BhContext(index) = self.threads[tid].role {
            return self.bh_item_done(tid, index);
        }
        if let Some(visit) = self.threads[tid].visit {
            self.stay_or_go_home(tid, visit);
        }
        Turn::Again
    }

    /// Wakes the threads that wait for the item that has just ended. The lock is dropped for each.
    fn pass_barriers(&mut self, tid: Tid, pool: PoolNo) {
        let id = self.threads[tid].id;
        while let Some(passed) = self.lock_behind_item(tid, pool).pass_barrier(id) {
            self.check_core(pool);
            match Arena::name_of(passed.barrier.as_ptr()) {
                Name::Barrier(barrier) => self.wait_is_over(barrier),
                Name::Item(item) => unreachable!("item {item} was passed"),
            }
            self.act(pool, Kick::None, passed.effects);
        }
    }

    // ---- other programs

    /// Another program that competes for `cpu`.
    pub(super) fn spawn_foreign(&mut self, cpu: u32) {
        let tid = self.machine.spawn(Place::Cpu(cpu), false);
        self.spawn_thread(PoolNo::MAX, WorkerId(0), Mode::Foreign(false));
        self.threads[tid].is_parked = false;
        self.machine.wake(tid);
    }

    fn foreign(&mut self, tid: Tid, computes: bool) -> Turn {
        self.threads[tid].mode = Mode::Foreign(!computes);
        let (computing, sleeping) = self.config.faults.foreign;
        if !computes {
            return Turn::Burn(computing);
        }
        if !self.is_quiet() {
            self.agenda.add(self.now + sleeping.max(1), Rank::Wake, super::Due::Wake(tid));
        }
        Turn::Off
    }

    /// Starts a thread for a worker of `pool`.
    pub(super) fn spawn_worker(&mut self, pool: PoolNo, id: WorkerId) -> Tid {
        let (place, is_high) = (self.pools.list[pool].kind.place(), self.pools.list[pool].is_high);
        let tid = self.machine.spawn(place, is_high);
        self.spawn_thread(pool, id, Mode::Ask);
        self.loosen(tid, pool);
        self.pools.list[pool].set_thread(id, Some(tid));
        tid
    }

    fn report_falsely(&mut self, tid: Tid) {
        if self.strikes(Sabotage::FalseReports, 3) {
            self.report_blocked(tid, true);
        } else {
            self.maybe_spurious(tid, true);
        }
    }
}
