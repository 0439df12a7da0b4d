//! The driver: virtual threads that act on what the core decides, as the real runtime's threads do.
//!
//! Owns all state of a run. One event happens at a time; after it, every CPU that became free takes
//! its next thread, and when no more events are due at this moment, time moves on. Split by topic
//! as the real runtime is: `queueing`, `pushing`, `caller_computes`, `working` (the worker's loop),
//! `creating`, `detecting`, `learning`, `lending`, `short_items`, `rescuing`, `bh`, `waiting`,
//! `delaying`, `hotplug`, `calling`, `issuing` (who keeps blocks in flight), `lives` (queues that
//! come and go), `closing`, `teardown`, `processes` (that items stand for), `watchdog`.

use std::collections::BTreeMap;

use cmwq_core::detect::HogWatch;
use cmwq_core::help;
use cmwq_core::{Effects, Kick, Wheel, WorkerId};

use crate::Nanos;
use crate::agenda::{Agenda, Rank};
use crate::arena::Arena;
use crate::checkers::{Checkers, Gauge, Scene};
use crate::config::{Config, Sabotage};
use crate::event::{PoolNo, Queueing, Runner, Site, Ticket, What, WorkerNo};
use crate::machine::{Machine, State, Tid};
use crate::places::{CpuPwq, Pools, Queue};
use crate::plan::{ItemId, Op, Plan, QueueId};
use crate::report::{Helping, Memory, Outcome, Progress, Violation};
use crate::rng::Rng;

mod bh;
mod caller_computes;
mod calling;
mod closing;
mod creating;
mod delaying;
mod detecting;
mod hotplug;
mod issuing;
mod learning;
mod lending;
mod lives;
mod processes;
mod pushing;
mod queueing;
mod rescuing;
mod short_items;
mod teardown;
mod waiting;
mod watchdog;
mod working;

use bh::Context;
use creating::Creation;
use detecting::{Looked, Report, Ticking};
use hotplug::Storm;
use issuing::Issuing;
pub(crate) use issuing::{Issuers, Traffic};
use learning::Marks;
use pushing::Pushing;
use rescuing::Rescuer;
use waiting::{Flush, Wait, Waiter};
use watchdog::{Awaits, StallWatchdog};

/// Things that happen at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// The next call from outside.
    Call(usize),
    /// A thread's sleep is over.
    Wake(Tid),
    /// The thread on this CPU has burnt so much, in this burst.
    Burnt(u32, Nanos, u64),
    Report(Report),
    /// The tick looks at the worker of a report that nobody has heard.
    LateReport(Report),
    /// A CPU of the pool may be idle beside workers at whom nobody has looked.
    Alarm(PoolNo),
    Created(PoolNo, Creation),
    Cull(PoolNo),
    Retry,
    /// Perhaps rescuers have to be called.
    Mayday(PoolNo),
    /// A rescuer, by its index, may answer its next call.
    Rescuer(usize),
    Tick,
    /// The CPU of a pod with `caller_computes` has been idle for so long that its sentinel may run.
    Sentinel(PoolNo),
    /// The watchdog looks.
    Watchdog,
    Wheel,
    /// A queuer pushes into an inbox, by the number of the push.
    Push(usize),
    /// Some CPU goes offline.
    CpuLeaves,
    CpuReturns(u32),
    /// A CPU that has nothing to run looks at other caches again.
    Look(u32),
    /// A flusher that is no worker continues.
    Flusher(usize),
    /// An owner of queues goes on, by its index.
    Owner(usize),
    /// A pwq could not be removed: try again.
    Release(QueueId),
    /// A queue that is being dropped could not end yet: look again.
    Drop(QueueId),
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// Asks the core what to do.
    Ask,
    /// Creates another worker.
    Create(Creation),
    /// In an item's function.
    Item(Run),
    /// After an item, without the lock.
    Unlocked(Unlocked),
    /// Asks the core what to rescue.
    Rescue,
    /// Serves a CPU's BH pools, as this context.
    Serve(usize),
    /// Another program; `true`: it computes.
    Foreign(bool),
    /// An issuer, by its index.
    Issuer(usize),
    /// Gone.
    Dead,
}

/// A run of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) what: Queueing,
    pub(crate) site: crate::event::Site,
    /// The next step of its program.
    pub(crate) pc: usize,
    /// The item itself has told the pool that it blocks.
    pub(crate) is_announced: bool,
    /// Blocked since it was last on a CPU.
    pub(crate) has_slept: bool,
    pub(crate) has_yielded: bool,
    /// Begun without the lock, after another item of its batch.
    pub(crate) is_taken_along: bool,
    pub(crate) is_intensive: bool,
    /// Was seen to hog the CPU.
    pub(crate) is_hog: bool,
    /// The item stands for a process, which the thread plays.
    pub(crate) stands_for_process: bool,
}

/// The effects of an item or a barrier that are left to act on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unlocked {
    site: Site,
    /// `None`: they were acted on, and the lock was not taken again yet.
    effects: Option<Effects>,
}

/// A worker's stay in another pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) host: PoolNo,
    pub(crate) id: WorkerId,
}

/// A virtual thread, as the driver sees it.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) home: PoolNo,
    pub(crate) id: WorkerId,
    pub(crate) mode: Mode,
    /// The number of its run in its own pool, for reports.
    pub(crate) seq: u64,
    /// How many items it has run as a helper since its visit was last judged.
    ran: u32,
    /// How many items of its batch may still be begun.
    more: u32,
    /// It has ended an item, and asks for the next one under the same hold of the lock.
    is_behind_item: bool,
    pub(crate) visit: Option<Visit>,
    /// Measures whether the items of the other pool are short.
    helping_visit: help::Visit,
    pub(crate) is_parked: bool,
    /// Was woken while it was not parked.
    pub(crate) token: bool,
    /// The flush of a queue for which it waits.
    pub(crate) flush: Option<usize>,
    /// What its item waits for, if the watchdog is to know.
    awaits: Option<Awaits>,
    role: Role,
    pub(crate) hog: HogWatch,
    looked: Looked,
    marks: Marks,
    class: Class,
    /// When its item began to stand for a process that was not found waiting yet.
    process_since: Option<Nanos>,
}

impl Thread {
    /// Whether it belongs to a pool: no rescuer and no BH context.
    pub(crate) fn is_worker(&self) -> bool {
        self.role == Role::Worker
    }
}

/// Whether a thread belongs to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It does, or it is another program's thread.
    Worker,
    /// It serves the pools that call for it.
    Rescuer,
    /// It serves a CPU's BH pools: this context.
    BhContext(usize),
}

/// What a thread is to the checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    None,
    Transit,
    Waking,
    Computing,
    Intensive,
}

/// What the driver knows of an item.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ItemState {
    /// The queueing that is pending.
    pub(crate) pending: Option<Ticket>,
    /// The queueing that runs.
    pub(crate) running: Option<Ticket>,
    /// The CPU to queue it for when its timer expires.
    pub(crate) cpu: Option<u32>,
    /// How many items its runs may still queue.
    pub(crate) budget: u32,
}

/// Steps between two reports of progress.
const STEPS_PER_PROGRESS: u64 = 1 << 16;

/// See the module header.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    plan: &'a Plan,
    config: &'a Config,
    now: Nanos,
    last_item: Nanos,
    agenda: Agenda<Due>,
    machine: Machine,
    threads: Vec<Thread>,
    pools: Pools,
    queues: Vec<Queue>,
    arena: Arena,
    items: Vec<ItemState>,
    wheel: Wheel,
    wheel_planned: Option<Nanos>,
    retry_planned: Option<Nanos>,
    /// It is a rescuer that acts.
    is_rescuing: bool,
    /// Items may run at other pools than their words name.
    runs_stay_behind: bool,
    rescuers: Vec<Rescuer>,
    contexts: Vec<Context>,
    flushes: Vec<Flush>,
    waits: Vec<Wait>,
    /// By owner, what it does next; see `Plan::owners`.
    owners: Vec<usize>,
    owners_left: usize,
    /// By barrier, the wait that it ends.
    wait_of_barrier: Vec<usize>,
    rng: Rng,
    storm: Storm,
    next_ticket: Ticket,
    nr_groups: usize,
    /// Spreads items over pods that are all busy.
    turn: usize,
    /// How often the tick has looked.
    nr_ticks: usize,
    /// The plan has reports; and by item, the run that they may be about.
    is_told_reports: bool,
    last_runs: BTreeMap<ItemId, Report>,
    calls_left: usize,
    outstanding: usize,
    steps: u64,
    next_progress: u64,
    sabotage_count: u32,
    nr_pushed: u64,
    pushing: Pushing,
    nr_taken_along: u64,
    /// The item that a sabotaged driver has not queued yet.
    held_back: Option<(usize, CpuPwq)>,
    issuing: Issuing,
    ticking: Option<Ticking>,
    watchdog: Option<StallWatchdog>,
    gauges: Vec<Gauge>,
    checkers: Checkers,
    violation: Option<Violation>,
    memory: Memory,
    /// Occasions and visits; the boards count the rest.
    helping: Helping,
    /// The run came to its end, and so did all items.
    is_complete: bool,
}

/// A run that takes more steps than this per item and call goes round in circles. The longest known
/// run that ended, with all faults at their worst, took 115,000.
const MAX_STEPS_PER_ITEM: u64 = 300_000;

impl<'a> Engine<'a> {
    pub(crate) fn new(plan: &'a Plan, config: &'a Config) -> Self {
        let queues = plan.queues.iter().enumerate();
        let budget = |item: &crate::plan::Item| ItemState {
            budget: item.nr_queueings,
            ..ItemState::default()
        };
        let machine = Machine::with_isolated(config.shape, config.placement, config.isolated);
        let mut engine = Self {
            plan,
            config,
            now: 0,
            last_item: 0,
            agenda: Agenda::new(),
            pools: Pools::new(&machine),
            machine,
            threads: Vec::new(),
            queues: queues.map(|(n, spec)| Queue::new(n, spec, config)).collect(),
            arena: Arena::new(plan.items.len()),
            items: plan.items.iter().map(budget).collect(),
            wheel: Wheel::new(0),
            wheel_planned: None,
            retry_planned: None,
            is_rescuing: false,
            runs_stay_behind: false,
            rescuers: Vec::new(),
            contexts: Vec::new(),
            flushes: Vec::new(),
            waits: Vec::new(),
            owners: vec![0; plan.owners.len()],
            owners_left: plan.owners.len(),
            wait_of_barrier: Vec::new(),
            rng: Rng::new(config.seed),
            storm: Storm::new(config.seed),
            next_ticket: 1,
            nr_groups: 0,
            turn: 0,
            nr_ticks: 0,
            is_told_reports: plan.calls.iter().any(|call| matches!(call.op, Op::Report(..))),
            last_runs: BTreeMap::new(),
            calls_left: plan.calls.len(),
            outstanding: 0,
            steps: 0,
            next_progress: STEPS_PER_PROGRESS,
            sabotage_count: 0,
            nr_pushed: 0,
            pushing: if config.costs.push > 0 { Pushing::new(plan) } else { Pushing::default() },
            nr_taken_along: 0,
            held_back: None,
            issuing: Issuing::default(),
            ticking: config.detect.tick.map(Ticking::new),
            watchdog: config.watchdog.map(StallWatchdog::new),
            gauges: Vec::new(),
            checkers: Checkers::new(plan, config),
            violation: None,
            memory: Memory::default(),
            helping: Helping::default(),
            is_complete: false,
        };
        (0..engine.queues.len()).for_each(|queue| engine.lay_out(queue));
        engine.set_up_caches();
        engine.set_up_machine();
        engine.open_pods();
        engine.set_up_rescuers();
        engine
    }

    /// Leaves one rule out. To be called before the run.
    #[cfg(feature = "explore")]
    pub(crate) fn without(mut self, rule: cmwq_core::Rule) -> Self {
        self.pools.without = Some(rule);
        self
    }

    /// Slow CPUs and other programs.
    fn set_up_machine(&mut self) {
        let faults = &self.config.faults;
        let mut rng = self.rng.fork(1);
        for cpu in 0..self.machine.nr_cpus() {
            if faults.slowness > 100 && rng.chance(faults.slow_cpus) {
                self.machine.set_slowness(cpu, faults.slowness);
            }
            if rng.chance(faults.foreign_cpus) {
                self.spawn_foreign(cpu);
            }
        }
        if let Some(call) = self.plan.calls.first() {
            self.agenda.add(call.at, Rank::Wake, Due::Call(0));
        }
        self.set_up_owners();
        self.plan_hotplug();
    }

    /// Runs to the end, or to the first complaint.
    /// `progress` is told now and then.
    pub(crate) fn run(mut self, progress: &mut dyn FnMut(Progress)) -> Outcome {
        self.run_to_end(progress);
        self.outcome()
    }

    /// As [`run`](Self::run), for a run with issuers, without checkers.
    pub(crate) fn run_traffic(mut self) -> Traffic {
        self.run_to_end(&mut |_| ());
        assert!(self.is_complete && self.violation.is_none(), "{:?}", self.violation);
        self.traffic()
    }

    fn run_to_end(&mut self, progress: &mut dyn FnMut(Progress)) {
        while self.violation.is_none() {
            if self.steps >= self.next_progress {
                self.next_progress = self.steps + STEPS_PER_PROGRESS;
                progress(self.progress());
            }
            let Some((at, due)) = self.agenda.pop() else { break };
            if at > self.now {
                self.end_moment(Some(at));
                self.now = at;
            }
            self.handle(due);
            while let Some(cpu) = self.machine.next_ready() {
                self.dispatch(cpu);
            }
            self.count_step();
        }
        if self.violation.is_none() {
            self.end_moment(None);
        }
        self.measure();
        if self.violation.is_none() {
            self.check_end();
        }
    }

    fn progress(&self) -> Progress {
        let nr_calls = self.plan.calls.len();
        let nr_called = (nr_calls - self.calls_left) as u64;
        Progress { nr_calls: nr_calls as u64, nr_called, outstanding: self.outstanding as u64 }
    }

    fn handle(&mut self, due: Due) {
        match due {
            Due::Call(index) => self.call(index),
            Due::Wake(tid) => self.wake(tid),
            Due::Burnt(cpu, burnt, burst) => self.burnt(cpu, burnt, burst),
            Due::Report(report) => self.deliver(report),
            Due::LateReport(report) => self.look_at_blocked(report),
            Due::Alarm(pool) => self.alarm_if_unseen(pool),
            Due::Created(pool, creation) => self.created(pool, creation),
            Due::Cull(pool) => self.cull(pool),
            Due::Retry => self.retry(),
            Due::Mayday(pool) => self.mayday(pool),
            Due::Rescuer(index) => self.answer_call(index),
            Due::Tick => self.tick(),
            Due::Sentinel(pool) => self.end_caller_computes(pool),
            Due::Watchdog => self.look_for_stalls(),
            Due::Wheel => self.turn_wheel(),
            Due::Push(number) => self.push_late(number),
            Due::CpuLeaves => self.some_cpu_leaves(),
            Due::CpuReturns(cpu) => self.cpu_returns(cpu),
            Due::Look(cpu) => self.look_around(cpu),
            Due::Flusher(flush) => self.flusher_continues(flush),
            Due::Owner(owner) => self.owner_goes_on(owner),
            Due::Release(queue) => self.release(queue),
            Due::Drop(queue) => self.go_on_dropping(queue),
        }
    }

    /// Whether all calls, owners and items are done: hotplug and other disturbances may stop.
    fn is_quiet(&self) -> bool {
        self.calls_left == 0 && self.owners_left == 0 && self.outstanding == 0
    }

    fn count_step(&mut self) {
        self.steps += 1;
        let owners = self.plan.owners.iter().map(|owner| owner.ops.len());
        let work = self.plan.items.len() + self.plan.calls.len() + owners.sum::<usize>() + 100;
        if self.steps > MAX_STEPS_PER_ITEM * work as u64 {
            self.complain("progress", format!("no end after {} steps", self.steps));
        }
    }

    // ---- threads and CPUs

    fn spawn_thread(&mut self, home: PoolNo, id: WorkerId, mode: Mode) {
        self.threads.push(Thread {
            home,
            id,
            mode,
            seq: 0,
            ran: 0,
            more: 0,
            is_behind_item: false,
            visit: None,
            helping_visit: help::Visit::begin(self.now, 0, false),
            is_parked: matches!(mode, Mode::Ask),
            token: false,
            flush: None,
            awaits: None,
            role: Role::Worker,
            hog: HogWatch::default(),
            looked: Looked::default(),
            marks: Marks::default(),
            class: Class::None,
            process_since: None,
        });
    }

    /// The thread's wait is over; it wants a CPU.
    fn wake(&mut self, tid: Tid) {
        self.machine.wake(tid);
        self.regauge(tid);
    }

    /// Wakes a parked worker, or leaves it a token.
    fn unpark(&mut self, tid: Tid) {
        let thread = &mut self.threads[tid];
        if thread.is_parked {
            thread.is_parked = false;
            self.wake(tid);
        } else {
            thread.token = true;
        }
    }

    /// Wakes the thread of a pool's worker, if it has one yet.
    fn unpark_worker(&mut self, pool: PoolNo, id: WorkerId) {
        if let Some(tid) = self.pools.list[pool].thread(id) {
            self.unpark(tid);
        }
    }

    /// A CPU may have become free.
    fn dispatch(&mut self, cpu: u32) {
        self.machine.set_time(self.now);
        let Some((tid, is_switch)) = self.machine.dispatch(cpu) else {
            self.arm_sentinels(cpu);
            return self.plan_look(cpu);
        };
        if is_switch {
            self.machine.threads[tid].burn += self.config.costs.switch;
        }
        if std::mem::take(&mut self.machine.threads[tid].is_fresh) {
            self.is_back(tid);
        }
        self.regauge(tid);
        match self.machine.threads[tid].burn {
            0 => self.step(tid),
            _ => self.burn(tid),
        }
    }

    /// Lets the thread on a CPU use it, for a slice or as long as it wants.
    fn burn(&mut self, tid: Tid) {
        let (cpu, wanted) = (self.machine.threads[tid].cpu, self.machine.threads[tid].burn);
        let slice = self.config.costs.slice.unwrap_or(Nanos::MAX);
        let burnt = wanted.min(self.machine.cpu_time(cpu, slice).max(1));
        let wall = self.machine.wall_time(cpu, burnt);
        self.count_busy(wall);
        let burst = self.machine.begin_burst(cpu, self.now);
        let due = Due::Burnt(cpu, burnt, burst);
        self.agenda.add(self.now.saturating_add(wall), Rank::CpuFree, due);
    }

    fn burnt(&mut self, cpu: u32, burnt: Nanos, burst: u64) {
        if !self.machine.is_in_burst(cpu, burst) {
            return;
        }
        let Some(tid) = self.machine.running(cpu) else { return };
        self.machine.set_time(self.now);
        self.machine.count_used(tid, burnt);
        if self.machine.threads[tid].burn == 0 {
            self.step(tid);
        } else if self.machine.has_waiters(cpu) {
            self.machine.requeue(tid);
        } else {
            self.burn(tid);
        }
    }

    fn runner(&self, tid: Tid) -> Runner {
        Runner { worker: tid as WorkerNo + 1, cpu: self.machine.threads[tid].cpu }
    }

    // ---- telling the checkers

    /// Updates the class in which a thread is counted for its pool.
    fn regauge(&mut self, tid: Tid) {
        let thread = &self.threads[tid];
        let sched = &self.machine.threads[tid];
        let class = match thread.mode {
            // The pool's own workers do not wait for the rescuer.
            _ if sched.state == State::Off || thread.role == Role::Rescuer => Class::None,
            Mode::Ask | Mode::Create(_) | Mode::Unlocked(..) | Mode::Serve(_) => Class::Transit,
            Mode::Item(_) if sched.is_fresh => Class::Waking,
            // A lent worker is counted by its own pool, which does not know what the worker runs.
            Mode::Item(_) if !self.counts(tid) => Class::Intensive,
            Mode::Item(_) => Class::Computing,
            Mode::Rescue | Mode::Foreign(_) | Mode::Issuer(_) | Mode::Dead => return,
        };
        let before = std::mem::replace(&mut self.threads[tid].class, class);
        if before == class {
            return;
        }
        match self.threads[tid].role {
            // While it is at one of its pools, the other one has to wait.
            Role::BhContext(index) => {
                for pool in self.contexts[index].pools.into_iter().flatten() {
                    self.count_class(pool, before, class);
                }
            }
            _ => self.count_class(self.threads[tid].home, before, class),
        }
    }

    /// Counts the thread's present class for `pool`, too.
    fn count_also(&mut self, tid: Tid, pool: PoolNo) {
        self.count_class(pool, Class::None, self.threads[tid].class);
    }

    fn count_class(&mut self, pool: PoolNo, before: Class, class: Class) {
        let gauge = &mut self.gauges[pool];
        if let Some(count) = gauge.count(before) {
            *count -= 1;
        }
        if let Some(count) = gauge.count(class) {
            *count += 1;
        }
        self.checkers.touch(pool);
    }

    fn note(&mut self, what: What) {
        let is_occasion = matches!(
            what,
            What::Queued(..)
                | What::Started(..)
                | What::Slept(..)
                | What::Woke(..)
                | What::WorkerWanted(..)
                | What::WorkerMade(..)
                | What::CpuLeft(_)
                | What::CpuReturned(_)
        );
        self.helping.occasions += u64::from(is_occasion);
        let scene = Scene { config: self.config, gauges: &self.gauges, machine: &self.machine };
        if let Err(violation) = self.checkers.observe(self.now, what, scene) {
            self.violation.get_or_insert(violation);
        }
    }

    /// Nothing more happens before `until`.
    fn end_moment(&mut self, until: Option<Nanos>) {
        self.touch_idle_changes();
        self.check_board();
        let scene = Scene { config: self.config, gauges: &self.gauges, machine: &self.machine };
        if let Err(violation) = self.checkers.end_moment(self.now, until, scene) {
            self.violation.get_or_insert(violation);
        }
    }

    /// Whoever changes a pool posts what became of it. Between an item and what its end demands
    /// nobody does.
    fn check_board(&mut self) {
        if self.config.costs.unlocked > 0 {
            return;
        }
        let stale = self.checkers.touched().iter().find(|&&pool| !self.pools.has_posted(pool));
        if let Some(pool) = stale {
            self.complain("board", format!("the board does not say what became of pool {pool}"));
        }
    }

    /// The checkers' expectations of a managed pool depend on its idle CPUs, too.
    fn touch_idle_changes(&mut self) {
        while let Some(cpu) = self.machine.next_idle_change() {
            for &domain in self.machine.domains().of(cpu) {
                for &pool in self.pools.managed_at(domain) {
                    self.checkers.touch(pool);
                }
            }
        }
    }

    fn complain(&mut self, checker: &'static str, message: String) {
        let violation = Violation { checker, at: self.now, message };
        self.violation.get_or_insert(violation);
    }

    /// Whether a sabotaged driver misbehaves this time: every third, fifth, … time.
    fn strikes(&mut self, sabotage: Sabotage, every: u32) -> bool {
        if self.config.sabotage != Some(sabotage) {
            return false;
        }
        self.sabotage_count += 1;
        self.sabotage_count.is_multiple_of(every)
    }

    /// To be called after each call of a pool's core that demands no kick: the lock is dropped.
    /// Acts on items that were found in the inbox.
    fn check_pool(&mut self, pool: PoolNo) {
        self.update_pool(pool);
        if self.pools.list[pool].owes() {
            self.kick(pool, Kick::None);
        }
    }

    /// What is updated before a pool's lock is dropped: the board's entry, and whether pushing into
    /// the inbox is enough; and who is told that work waits.
    fn update_pool(&mut self, pool: PoolNo) {
        self.arm_watchdog(pool);
        self.post(pool);
        let is_saturated = self.pools.list[pool].inbox.is_saturated();
        if !is_saturated || self.config.sabotage != Some(Sabotage::StaySaturated) {
            let may_be_helped = self.may_be_helped(pool);
            self.pools.list[pool].update_saturation(may_be_helped);
        }
        if self.pools.list[pool].inbox.is_saturated() != is_saturated {
            self.post(pool);
        }
        self.check_core(pool);
    }

    /// Posts what became of the pool. One that has posted a backlog calls other pods.
    fn post(&mut self, pool: PoolNo) {
        if self.pools.post_entry(pool) {
            self.pools.list[pool].owe(Kick::Watch);
        }
    }

    /// Checks *(standby)* always, and the core's other invariants oftener in small pools than in
    /// large ones, where it takes long.
    fn check_core(&mut self, pool: PoolNo) {
        if !self.pools.list[pool].read().has_standby() {
            self.complain("standby", format!("the workers of pool {pool} work alone"));
        }
        if !cfg!(debug_assertions) || self.config.checks == crate::config::Checks::None {
            return;
        }
        let pool = &mut self.pools.list[pool];
        pool.calls_unchecked += 1;
        if pool.calls_unchecked * 4 >= pool.read().nr_workers() + pool.nr_listed {
            pool.calls_unchecked = 0;
            pool.read().check();
        }
    }
}

impl Gauge {
    fn count(&mut self, class: Class) -> Option<&mut u32> {
        match class {
            Class::None => None,
            Class::Transit => Some(&mut self.transit),
            Class::Waking => Some(&mut self.waking),
            Class::Computing => Some(&mut self.computing),
            Class::Intensive => Some(&mut self.intensive),
        }
    }
}
