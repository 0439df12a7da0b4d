//! The worker's loop: two short matches, one over what the core says, one over an item's program.

use cmwq_core::{Claim, Next, WorkerId};

use super::creating::Creator;
use super::{Engine, Mode, Run, Visit};
use crate::Nanos;
use crate::agenda::Rank;
use crate::arena::{Arena, Name};
use crate::config::Sabotage;
use crate::event::{PoolNo, Queueing, Site, What};
use crate::machine::{Place, Tid};
use crate::plan::Op;

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
        while self.violation.is_none() {
            self.count_step();
            let turn = match self.threads[tid].mode {
                Mode::Ask => self.ask(tid),
                Mode::Create(creation) => self.creation_done(tid, creation),
                Mode::Item(run) => self.run_on(tid, run),
                Mode::Rescue => self.ask_as_rescuer(tid),
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
        let next = self.pools.list[home].core.next(id, || now);
        self.check_pool(home);
        match next {
            Next::Run(claim) => {
                self.threads[tid].seq = claim.seq;
                self.begin(tid, home, id, claim)
            }
            Next::Manage => self.begin_creation(tid, Creator::Manager),
            Next::Sleep { watch } => self.sleep(tid, home, watch),
            Next::Exit => self.exit(tid, home, id),
        }
    }

    /// Nothing to do here: looks around, then parks.
    fn sleep(&mut self, tid: Tid, home: PoolNo, watch: bool) -> Turn {
        if watch {
            self.watch(home);
        } else {
            self.pools.list[home].is_watched = false;
        }
        self.plan_cull(home);
        if !watch && let Some(turn) = self.lend(tid) {
            return turn;
        }
        let thread = &mut self.threads[tid];
        if std::mem::take(&mut thread.token) {
            return Turn::Again;
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
        if self.pools.list[home].core.work_waits() {
            self.watch(home);
        }
        Turn::Off
    }

    // ---- one item

    /// Enters the function of a claimed item, which `id` of `pool` runs.
    pub(super) fn begin(&mut self, tid: Tid, pool: PoolNo, id: WorkerId, claim: Claim) -> Turn {
        self.kick(pool, claim.kick);
        match Arena::name_of(claim.item) {
            Name::Barrier(barrier) => {
                self.wait_is_over(barrier);
                self.leave_function(tid, pool, id);
            }
            Name::Item(item) => {
                let queue = claim.wq.0 as usize;
                let ticket = self.items[item].pending.take().unwrap_or_default();
                self.items[item].running = Some(ticket);
                self.pools.list[pool].nr_listed -= 1;
                let group = self.queues[queue].link(pool).map_or(usize::MAX, |link| link.group);
                let run = Run {
                    what: Queueing { item, ticket, queue },
                    site: Site { pool, group },
                    pc: 0,
                    is_announced: false,
                    has_slept: false,
                    has_yielded: false,
                    is_intensive: self.queues[queue].is_intensive(),
                };
                self.note(What::Started(run.what, run.site, self.runner(tid)));
                self.threads[tid].mode = Mode::Item(run);
                if !self.threads[tid].is_rescuer {
                    self.gauges[self.threads[tid].home].executing += 1;
                    self.regauge(tid);
                    self.report_falsely(tid);
                }
            }
        }
        Turn::Again
    }

    fn run_on(&mut self, tid: Tid, mut run: Run) -> Turn {
        let Some(&op) = self.plan.items[run.what.item].ops.get(run.pc) else {
            return self.end(tid, run);
        };
        run.pc += 1;
        self.threads[tid].mode = Mode::Item(run);
        let here = self.machine.threads[tid].cpu;
        match op {
            Op::Burn(ns) => return Turn::Burn(ns + self.fetch(run.what.item, here)),
            Op::Sleep(ns) => return self.block_for(tid, ns, false),
            Op::Announced(ns) => return self.block_for(tid, ns, true),
            Op::Queue { item, cpu } => {
                if self.may_queue(run.what.item) {
                    self.queue(item, cpu, here);
                }
            }
            Op::QueueDelayed { item, cpu, delay } => {
                if self.may_queue(run.what.item) {
                    self.queue_delayed(item, cpu, delay, here);
                }
            }
            Op::FlushItem(item) => {
                if self.flush_item(item, Some(tid)) {
                    return self.block(tid, true);
                }
            }
            Op::FlushQueue(queue) => {
                if self.flush_queue(queue, Some(tid)) {
                    return self.block(tid, true);
                }
            }
            Op::Cancel(item) => {
                self.cancel(item);
            }
            Op::CancelSync(item) => {
                self.cancel(item);
                if self.flush_item(item, Some(tid)) {
                    return self.block(tid, true);
                }
            }
            Op::SetMaxActive { queue, max_active } => self.set_max_active(queue, max_active),
            Op::Offline(_) | Op::Online(_) => {
                debug_assert!(false, "CPUs come and go by calls from outside");
            }
        }
        Turn::Again
    }

    fn may_queue(&mut self, item: usize) -> bool {
        let budget = &mut self.items[item].budget;
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
            let what = run.what;
            self.note(What::Slept(what, runner));
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

    /// The function returns. Before the books are touched, others may have the CPU: the kernel's
    /// worker calls `cond_resched` here, and a sleeper that has become runnable is ahead of it.
    fn end(&mut self, tid: Tid, mut run: Run) -> Turn {
        if !run.has_yielded && self.machine.has_waiters(self.machine.threads[tid].cpu) {
            run.has_yielded = true;
            self.threads[tid].mode = Mode::Item(run);
            return Turn::Yield;
        }
        let item = run.what.item;
        self.items[item].running = None;
        self.outstanding -= 1;
        self.last_item = self.now;
        self.note(What::Finished(run.what, self.runner(tid)));
        self.threads[tid].mode = self.mode_between_items(tid);
        if !self.threads[tid].is_rescuer {
            self.gauges[self.threads[tid].home].executing -= 1;
            self.regauge(tid);
        }
        let id = self.threads[tid].visit.map_or(self.threads[tid].id, |visit| visit.id);
        self.leave_function(tid, run.site.pool, id);
        self.tell_issuer(item, self.machine.threads[tid].cpu);
        Turn::Again
    }

    /// Corrects the books behind an item or a barrier.
    fn leave_function(&mut self, tid: Tid, pool: PoolNo, id: WorkerId) {
        let effects = self.pools.list[pool].core.finish(id);
        self.act(pool, effects);
        if let Some(visit) = self.threads[tid].visit {
            self.stay_or_go_home(tid, visit);
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

    pub(super) fn visit(&mut self, tid: Tid, visit: Option<Visit>) {
        self.threads[tid].visit = visit;
    }
}
