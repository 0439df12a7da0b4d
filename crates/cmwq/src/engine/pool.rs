//! A worker pool with its lock: the core's decisions on one side, threads on the other.
//!
//! Owns [`Locked`], the pool's lock domain (L): the core's [`PoolState`] and the handles of its
//! workers' threads. The pattern of every function here and in `worker`: lock, ask the core, turn
//! the outcome into a [`Todo`] (which needs the lock, to find threads), drop the lock,
//! [`act`](Pool::act). The last three steps are [`unlock`](Pool::unlock); what else there is,
//! [`PoolGuard`] says.
//!
//! Pools live for ever (`&'static`): the id in an idle item's word must stay resolvable. A vacant
//! pool may be given to other queues, under its lock, as a pool of another kind ([`Pool::renew`]).

use std::fmt;
use std::mem;

use cmwq_core::help::board::Entry;
use cmwq_core::help::{Progress, may_saturate};
use cmwq_core::place::Belonging;
use cmwq_core::{
    Claim, Creator, Inbox, Kick, LockFor, MaydayTimer, Nanos, PoolConfig, PoolId, PoolState,
    PwqRef, Reading, WorkerId, place,
};

use crate::detect::method::Detect;
use crate::engine::runtime::Runtime;
use crate::engine::tools::attrs::Priority;
use crate::engine::tools::thread::Thread;
use crate::os::IS_MODEL;
use crate::os::clock;
use crate::os::park::{self, Parker};
use crate::os::sync::{Arc, AtomicBool, Mutex, PlainMutex, leaves_out, lock, lock_plain};
use crate::os::topo::CpuSet;
use crate::record;
use crate::record::trace::{self, Kind};
use crate::record::{PoolMirror, Reason, WorkerMirror};

mod alarms;
mod attach;
pub(crate) mod board;
mod counters;
mod creation;
mod guard;
mod helping;
mod recorded;

use alarms::Alarms;
use attach::Attachment;
use board::Pod;
pub(crate) use guard::PoolGuard;

/// What a pool is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    /// Pinned to one CPU; concurrency 1.
    Cpu(u32),
    /// Served by the BH context of one CPU; no workers, concurrency 0.
    Bh(u32),
    /// Serves a pod, every active item at once.
    Unbound,
    /// Serves a pod, as many running workers as the pod has CPUs.
    Managed,
}

impl PoolKind {
    /// The kind as the core knows it.
    pub(crate) const fn in_core(&self) -> place::PoolKind {
        match self {
            Self::Cpu(_) => place::PoolKind::Percpu,
            Self::Bh(_) => place::PoolKind::Bh,
            Self::Unbound => place::PoolKind::Unbound,
            Self::Managed => place::PoolKind::Managed,
        }
    }
}

/// The constants of a pool.
#[derive(Debug)]
pub(crate) struct PoolSpec {
    pub(crate) kind: PoolKind,
    pub(crate) priority: Priority,
    /// Where its workers may run.
    pub(crate) cpus: CpuSet,
    /// Where they begin to run.
    pub(crate) pod: CpuSet,
    /// They have to stay in the pod.
    pub(crate) is_strict: bool,
    /// The NUMA node of the pod, if one holds all of it.
    pub(crate) node: Option<u32>,
}

/// Lock: L.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) core: PoolState,
    pub(crate) threads: Vec<Option<Arc<Thread>>>,
    /// Detectors watch the pool, usually because work waits at capacity.
    watched: bool,
    /// What emptying the inbox demanded; acted on when the lock is dropped.
    pending_kick: Kick,
    /// What the board says of this pod.
    entry: Entry,
    /// Items started, and the time, when the pool's items were last measured.
    measured: Progress,
    /// Its CPU has gone.
    is_disassociated: bool,
    /// See [`Belonging::may_help`].
    may_help: bool,
    /// The number in the next worker's name.
    next_worker_number: u32,
    /// When to look whether rescuers have to be called.
    pub(crate) mayday: MaydayTimer,
    /// The session of the trace for which the core records activations.
    traced_for: u32,
    pub(crate) mirror: PoolMirror,
}

/// See the module header.
pub(crate) struct Pool {
    pub(crate) id: PoolId,
    pub(crate) kind: PoolKind,
    /// See [`spec`](Self::spec). Written under the registry's, the attach and the pool's lock.
    spec: PlainMutex<Arc<PoolSpec>>,
    pub(crate) runtime: &'static Runtime,
    /// The way in without the lock, while the pool is saturated: no worker has to be woken for what
    /// is pushed.
    pub(crate) inbox: Inbox,
    state: Mutex<Locked>,
    /// Copy of `Locked::watched` for detectors. A hint.
    watched: AtomicBool,
    alarms: Alarms,
    /// It is on the service's list of ticking pools.
    is_ticking: AtomicBool,
    /// Of several managed pods, which help each other: which one it is.
    pub(crate) pod: Option<Pod>,
    /// Its items are so short that helping is not worth it, see
    /// [`help::short_items`](cmwq_core::help::short_items). Written under the lock.
    has_short_items: AtomicBool,
    /// Written under the lock.
    is_crowded: AtomicBool,
    attachment: Attachment,
    /// Workers may leave the pod. Written while there are none.
    may_stray: AtomicBool,
    /// The CPU of a pool that has only one.
    lone_cpu: Option<u32>,
    /// The service thread looks at it while it is watched.
    pub(crate) has_tick: bool,
}

/// Which thread is about to drop the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A worker that has just claimed an item, or was lent. If the pool is watched, the sentinel of
    /// this worker's CPU is armed, since items may be pushed into the inbox while it runs; and the
    /// standby may be another worker now.
    Claimer,
    /// Anybody else.
    Other,
}

/// What is left to do once the lock is dropped.
#[must_use]
#[derive(Debug)]
pub(crate) enum Todo {
    Nothing,
    Wake(&'static Parker),
    /// Watch for blocking workers: nobody did.
    BeginWatch,
    /// Go on watching: who has begun an item may be on another CPU than who did before.
    KeepWatch,
    NeedFirst,
    /// Look at this time whether rescuers have to be called.
    Mayday(Nanos),
}

impl Pool {
    pub(crate) fn new(
        id: PoolId,
        spec: PoolSpec,
        pod: Option<Pod>,
        runtime: &'static Runtime,
    ) -> Box<Self> {
        let placed = runtime.placement.now().place(&runtime.machine, &spec, pod.is_some());
        let Belonging { concurrency, is_disassociated, .. } = placed.belonging;
        let may_help = placed.belonging.may_help();
        let mut config = PoolConfig::of_kind(id, spec.kind.in_core(), concurrency, pod.is_some());
        config.idle_timeout = runtime.params.idle_timeout_ns;
        config.idle_ratio = runtime.params.idle_ratio;
        let has_tick = !config.is_bh() && runtime.detect != Detect::Inline;
        config.may_saturate = may_saturate(pod.is_some(), has_tick);
        let may_stray = attach::may_stray(&spec);
        let attachment = Attachment::new(&spec, placed, runtime);
        let lone_cpu = match spec.kind {
            PoolKind::Cpu(cpu) | PoolKind::Bh(cpu) => Some(cpu),
            // The only managed pod may get more CPUs, where there may be more.
            PoolKind::Managed if pod.is_some() || runtime.machine.cpus.len() == 1 => {
                spec.cpus.first().filter(|_| spec.cpus.count() == 1)
            }
            PoolKind::Managed | PoolKind::Unbound => None,
        };
        let mirror = runtime.inspect.pool(id.0, &spec.recorded(may_stray, concurrency));
        Box::new(Self {
            id,
            kind: spec.kind.clone(),
            spec: PlainMutex::new(Arc::new(spec)),
            runtime,
            inbox: Inbox::new(),
            state: Mutex::new(Locked {
                core: PoolState::new(config),
                threads: Vec::new(),
                watched: false,
                pending_kick: Kick::None,
                entry: if may_help { Entry::UNMADE } else { Entry::default() },
                measured: Progress { at: 0, started: 0 },
                is_disassociated,
                may_help,
                next_worker_number: 0,
                mayday: MaydayTimer::default(),
                traced_for: 0,
                mirror,
            }),
            watched: AtomicBool::new(false),
            alarms: Alarms::new(),
            is_ticking: AtomicBool::new(false),
            pod,
            has_short_items: AtomicBool::new(false),
            is_crowded: AtomicBool::new(false),
            attachment,
            may_stray: AtomicBool::new(may_stray),
            lone_cpu,
            has_tick,
        })
    }

    /// Whether it has one CPU, and never another one.
    #[inline]
    pub(crate) fn has_lone_cpu(&self) -> bool {
        self.lone_cpu.is_some()
    }

    /// Whether anybody looks which of its workers are blocked. An unbound pool starts its items all
    /// at once, so no work waits for that.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.has_tick && self.kind != PoolKind::Unbound
    }

    /// Its constants. They change when a vacant unbound pool is [renewed](Self::renew), so not
    /// while the caller is one of its workers or has a pwq here.
    pub(crate) fn spec(&self) -> Arc<PoolSpec> {
        Arc::clone(&lock_plain(&self.spec))
    }

    /// The lock. What is done first with it, and what is left, depends on what it is taken for. To
    /// be given back by [`unlock`](Self::unlock), since items of the inbox may demand action; how
    /// else, and when, [`PoolGuard`] says. A part of its callers: a call would cost a flusher a
    /// third of what it does here.
    #[inline(always)]
    pub(crate) fn lock(&self, what_for: LockFor) -> PoolGuard<'_> {
        match what_for {
            LockFor::Counts => self.lock_for_counts(),
            LockFor::Decide => self.lock_to_decide(),
            _ => self.lock_and_begin(what_for),
        }
    }

    // One copy each: these have many callers.

    #[inline(never)]
    fn lock_for_counts(&self) -> PoolGuard<'_> {
        self.lock_and_begin(LockFor::Counts)
    }

    #[inline(never)]
    fn lock_to_decide(&self) -> PoolGuard<'_> {
        self.lock_and_begin(LockFor::Decide)
    }

    #[inline(always)]
    fn lock_and_begin(&self, what_for: LockFor) -> PoolGuard<'_> {
        let wants_activations = trace::ready();
        let mut guard = PoolGuard(lock(&self.state));
        if wants_activations {
            guard.record_activations();
        }
        guard.hold_for(self, what_for);
        guard
    }

    /// Pushing an item into the inbox was not enough: the pool is not saturated any more, or the
    /// inbox has many items.
    #[cold]
    pub(crate) fn relieve_inbox(&'static self) {
        self.unlock(self.lock(LockFor::Inbox), Kick::None);
    }

    /// Lets somebody look who changes nothing: the lock alone is taken, nothing is listed or called
    /// back, and nobody is told or woken. What he learns is as if all had been listed.
    ///
    /// Who goes on to decide something takes one of the locks above. So do those who look and then
    /// have to find an item on a list: cancelling, flushing, queueing what may be running here.
    pub(crate) fn read<R>(&self, look: impl FnOnce(Reading<'_>, &Locked) -> R) -> R {
        let guard = lock(&self.state);
        look(guard.core.reading(&self.inbox), &guard)
    }

    /// The threads of its workers.
    pub(crate) fn threads(&self) -> Vec<Arc<Thread>> {
        self.read(|_, locked| locked.threads.iter().flatten().cloned().collect())
    }

    /// Drops the lock and acts on what is demanded: `kick`, and what was found in the inbox. Also
    /// who demands nothing comes here if he has listed or changed something: the board, the
    /// mapping, the inbox's word and the watchdog have to follow, and waking belongs to no `drop`.
    /// Who has only looked takes the lock by [`read`](Self::read).
    #[inline(never)]
    pub(crate) fn unlock(&'static self, guard: PoolGuard<'_>, kick: Kick) {
        self.unlock_as(guard, kick, Holder::Other);
    }

    /// As [`unlock`](Self::unlock), as a part of its caller: for a flusher the call would be a
    /// fifth of it.
    #[inline(always)]
    pub(crate) fn unlock_as(&'static self, mut guard: PoolGuard<'_>, kick: Kick, by: Holder) {
        let todo = guard.todo(self, kick, by);
        let work_waits = guard.core.is_to_be_watched();
        drop(guard);
        self.act(todo);
        // Models have no watchdog.
        if work_waits && !IS_MODEL {
            self.runtime.work_waits();
        }
    }

    /// As [`unlock`](Self::unlock), by a worker that is about to run what it has claimed. Others
    /// tell the watchdog of what waits: who queues, and who watches.
    #[inline(always)]
    pub(crate) fn unlock_to_run(&'static self, mut guard: PoolGuard<'_>, kick: Kick) {
        let todo = guard.todo(self, kick, Holder::Claimer);
        drop(guard);
        self.act(todo);
    }

    /// As [`unlock`](Self::unlock), by who still holds a queue's lock: what is returned is to be
    /// [acted on](Self::act) without it, and the watchdog to be told that work waits.
    pub(crate) fn unlock_for_later(&self, mut guard: PoolGuard<'_>, kick: Kick) -> Todo {
        guard.todo(self, kick, Holder::Other)
    }

    /// Drops the lock behind numbers that nobody has to act on: the mapping shows them.
    pub(crate) fn unlock_quietly(mut guard: PoolGuard<'_>) {
        let Locked { core, mirror, .. } = &mut *guard;
        mirror.publish(core);
    }

    /// Acts on an outcome. Caller holds no core lock.
    #[inline]
    pub(crate) fn act(&'static self, todo: Todo) {
        match todo {
            Todo::Nothing => {}
            Todo::Wake(parker) => parker.unpark(park::WAKE),
            todo => self.act_on_rest(todo),
        }
    }

    /// Out of line: the usual outcomes are told by comparing, and not by a table.
    #[inline(never)]
    fn act_on_rest(&'static self, todo: Todo) {
        match todo {
            Todo::Nothing | Todo::Wake(_) => {}
            Todo::BeginWatch => self.begin_watch(),
            Todo::KeepWatch => self.keep_watch(),
            Todo::NeedFirst if leaves_out("act.first") => {}
            Todo::NeedFirst => _ = self.ask_for_worker(Creator::First),
            Todo::Mayday(at) => self.runtime.service.mayday_at(at),
        }
    }

    /// A pwq was given a slot of its node. Caller holds no core lock.
    pub(crate) fn grant(runtime: &'static Runtime, mut grant: Option<PwqRef>) {
        while let Some(to) = grant.take() {
            let Some(pool) = runtime.pool(to.pool) else { return };
            let mut guard = pool.lock(LockFor::Decide);
            let (kick, next) = guard.core.grant(to.pwq);
            pool.unlock(guard, kick);
            grant = next;
        }
    }
}

impl Locked {
    pub(crate) fn thread(&self, id: WorkerId) -> Option<&Arc<Thread>> {
        self.threads.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn set_thread(&mut self, id: WorkerId, thread: Option<Arc<Thread>>) {
        let index = id.0 as usize;
        if self.threads.len() <= index {
            self.threads.resize(index + 1, None);
        }
        self.threads[index] = thread;
    }

    /// Records in the mapping that a worker is about to run what it claimed.
    #[inline]
    pub(crate) fn record_start(&self, pool: &Pool, worker: &WorkerMirror, claim: &Claim) {
        self.mirror.started(worker, claim, || self.now(pool));
    }

    /// The time, to within a tick: while the pool is watched, the service thread reads the clock.
    #[inline]
    pub(crate) fn now(&self, pool: &Pool) -> Nanos {
        if self.watched && pool.has_tick { clock::lately() } else { clock::coarse() }
    }

    /// Records in the mapping whether the core takes a worker for blocked, or for a hog.
    #[cold]
    pub(crate) fn record_state(&self, id: WorkerId) {
        if let Some(thread) = self.thread(id) {
            record::set_worker_state(&self.core, id, &thread.mirror);
        }
    }

    /// The caller is awake, and asks for work under this hold of the lock. An item of the inbox may
    /// have chosen him to be woken, who has not asked yet since the sentinel woke him: then he
    /// comes for it, and wakes the next one. That does not say whether the pool is to be watched.
    pub(crate) fn needs_no_wake_up(&mut self, me: WorkerId) {
        if self.pending_kick == Kick::Wake(me) {
            self.pending_kick = Kick::Watch;
        }
    }

    /// Begins a hold of the lock, or goes on under one for something else.
    #[inline(always)]
    pub(crate) fn hold_for(&mut self, pool: &Pool, what_for: LockFor) {
        let kick = self.core.begin_hold(&pool.inbox, what_for);
        self.owe(kick);
    }

    /// As [`PoolState::take_inbox_after_item`].
    #[inline(always)]
    pub(crate) fn take_inbox_after_item(&mut self, pool: &Pool) {
        let kick = self.core.take_inbox_after_item(&pool.inbox);
        self.owe(kick);
    }

    /// What items of the inbox demand is kept until the next [`todo`](Self::todo).
    #[inline(always)]
    fn owe(&mut self, kick: Kick) {
        if kick != Kick::None {
            self.pending_kick = self.pending_kick.or(kick);
        }
    }

    /// As [`PoolState::update_saturation`].
    #[inline(always)]
    pub(crate) fn update_saturation(&mut self, pool: &Pool) {
        let may_be_helped = || pool.may_be_helped();
        let turned = self.core.update_saturation(&pool.inbox, self.watched, may_be_helped);
        if let Some(kick) = turned {
            self.saturation_turned(pool, kick);
        }
    }

    #[inline(never)]
    fn saturation_turned(&mut self, pool: &Pool, kick: Kick) {
        self.owe(kick);
        self.post_for_next(pool);
    }

    /// Turns a decision into a [`Todo`], which is acted on without the lock. The last call under
    /// the lock.
    #[inline(always)]
    fn todo(&mut self, pool: &Pool, kick: Kick, by: Holder) -> Todo {
        debug_assert!(self.core.has_standby(), "(standby): those who work in {pool:p} work alone");
        if trace::wants_activations() {
            self.trace_activations(pool);
        }
        let has_posted = self.post_entry(pool);
        self.update_saturation(pool);
        let mut kick = kick.or(mem::replace(&mut self.pending_kick, Kick::None));
        if has_posted {
            // A pool that has posted a backlog asks other pods.
            kick = kick.or(Kick::Watch);
        }
        self.mirror.publish(&mut self.core);
        match kick {
            Kick::None => {
                self.mirror.kicked_nobody(&self.core);
                match self.mayday() {
                    Todo::Nothing if by == Holder::Claimer && self.watched => self.watch(pool, by),
                    todo => todo,
                }
            }
            Kick::Wake(id) => {
                self.mirror.decided(Reason::WokeIdle);
                self.thread(id).map_or(Todo::Nothing, |thread| Todo::Wake(thread.parker))
            }
            Kick::Watch => {
                self.mirror.decided(Reason::AtCapacity);
                let was_watched = self.watched;
                let todo = self.watch(pool, by);
                if !was_watched {
                    self.update_saturation(pool);
                }
                todo
            }
            Kick::NeedFirst => {
                self.mirror.decided(Reason::NoWorker);
                Todo::NeedFirst
            }
        }
    }

    /// From now on the core records activations. A reader may come at any time, and gets those of
    /// the first hold of the lock after that.
    #[cold]
    fn record_activations(&mut self) {
        // Session 0 comes before all readers: the first records are for probes then.
        let session = trace::session().max(1);
        if self.traced_for != session {
            self.traced_for = session;
            self.core.record_activations();
        }
    }

    /// Traces the items that have become active under this hold of the lock.
    #[cold]
    fn trace_activations(&mut self, pool: &Pool) {
        if self.traced_for != trace::session().max(1) {
            // A reader came during this hold of the lock: records from before, if any, are of no
            // reader.
            return self.record_activations();
        }
        // There is room for all records of one hold of the lock, unless it made a large change of
        // limits.
        let mut moment = None;
        let missed = self
            .core
            .take_activations(|activation| trace::activate_work(pool, activation, &mut moment));
        trace::lose(missed);
    }

    /// As [`PoolState::worker_waits`], traced.
    pub(crate) fn worker_waits(&mut self, pool: &Pool, id: WorkerId, seq: u64) -> Kick {
        let was_blocked = self.core.is_blocked(id, seq);
        let kick = self.core.worker_waits(id, seq);
        if !was_blocked && self.core.is_blocked(id, seq) {
            self.trace_worker(Kind::WorkerBlocked, pool, id);
        }
        kick
    }

    /// As [`PoolState::worker_resumed`], traced.
    pub(crate) fn worker_resumed(&mut self, pool: &Pool, id: WorkerId, seq: u64) -> Kick {
        if self.core.is_blocked(id, seq) {
            self.trace_worker(Kind::WorkerResumed, pool, id);
        }
        let kick = self.core.worker_resumed(id, seq);
        self.note_crowd(pool);
        kick
    }

    /// See [`PoolState::watch_when_full`].
    pub(crate) fn watch_when_full(&self) -> Kick {
        self.core.watch_when_full(self.watched)
    }

    #[inline]
    pub(crate) fn trace_worker(&self, kind: Kind, pool: &Pool, id: WorkerId) {
        let tid = self.thread(id).map_or(0, |thread| thread.tid());
        trace::worker_turned(kind, pool, tid);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([workers, idle, running], spec) = (self.headcount(), self.spec());
        f.debug_struct("Pool")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("nice", &spec.priority.nice)
            .field("cpus", &spec.cpus)
            .field("workers", &workers)
            .field("idle", &idle)
            .field("running", &running)
            .finish()
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests;
