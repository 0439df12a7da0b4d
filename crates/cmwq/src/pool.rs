//! A worker pool with its lock: the core's decisions on one side, threads on the other.
//!
//! Owns [`Locked`], the pool's lock domain (L): the core's [`PoolState`] and the handles of its
//! workers' threads. The pattern of every function here and in `worker`: lock, ask the core, turn
//! the outcome into a [`Todo`] (which needs the lock, to find threads), unlock, [`act`](Pool::act).
//!
//! Pools live for ever (`&'static`): the id in an idle item's word must stay resolvable.

use std::fmt;
use std::mem;
use std::ptr;

use cmwq_core::{
    Claim, Effects, Inbox, Kick, Nanos, PoolConfig, PoolId, PoolState, PwqRef, WorkerId,
};

use crate::attrs::Priority;
use crate::clock;
use crate::detect::Detect;
use crate::inspect::{PoolMirror, Reason, Role};
use crate::pace::Mark;
use crate::plan::NEVER;
use crate::pods::Pods;
use crate::runtime::Runtime;
use crate::sync::{
    Arc, AtomicBool, AtomicPtr, AtomicU64, Mutex, MutexGuard, Ordering, acquire, lock, release,
    without,
};
use crate::thread::{Berth, Thread};
use crate::ticking::Watched;
use crate::topo::CpuSet;
use crate::trace::{self, Kind};
use crate::{inspect, park, reclaim, sense, worker};

mod attach;

use attach::Attachment;

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

/// The constants of a pool.
#[derive(Debug)]
pub(crate) struct PoolSpec {
    pub(crate) kind: PoolKind,
    pub(crate) nice: i32,
    /// The whole of what `nice` is a part of.
    pub(crate) priority: Priority,
    /// Where its workers may run.
    pub(crate) cpus: CpuSet,
    /// Where they begin to.
    pub(crate) pod: CpuSet,
    /// They were asked to stay there.
    pub(crate) is_strict: bool,
    /// The NUMA node of the pod, if one holds all of it.
    pub(crate) node: Option<u32>,
    pub(crate) concurrency: u32,
    /// It is made while its CPU is not there.
    pub(crate) is_away: bool,
}

/// Lock: L.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) core: PoolState,
    pub(crate) threads: Vec<Option<Arc<Thread>>>,
    /// Work waits that may not start now, and detectors know.
    watched: bool,
    /// Copy of what the inbox was told.
    saturated: bool,
    /// What emptying the inbox demands; acted on by whoever did it.
    pending_kick: Kick,
    /// Workers leave as soon as they are idle.
    is_closing: bool,
    /// Counted as a pod with a CPU to spare.
    is_spare: bool,
    /// A worker was called to be lent and has not come yet.
    is_called: bool,
    /// How far it had come by when, while its items are taken to be short.
    mark: Mark,
    /// Counted as a pod with a backlog.
    is_backlogged: bool,
    /// Its CPU has gone.
    is_away: bool,
    /// No queue leads here: workers leave as soon as they are idle.
    is_unused: bool,
    /// For names.
    next_worker_number: u32,
    /// When to look whether rescuers have to be called, or `NEVER`.
    pub(crate) mayday_at: Nanos,
    /// The reader of traces that is told of activations.
    traced_for: u32,
    pub(crate) mirror: PoolMirror,
}

/// False alarms closer together than this make the sentinels wait for the tick: 100 µs.
const CALM_NS: u64 = 100_000;

/// See the module header.
pub(crate) struct Pool {
    pub(crate) id: PoolId,
    pub(crate) spec: PoolSpec,
    pub(crate) runtime: &'static Runtime,
    /// The way in without the lock, while the pool is saturated: nobody to wake, and somebody
    /// watching.
    pub(crate) inbox: Inbox,
    state: Mutex<Locked>,
    /// Copy of `Locked::watched` for detectors. A hint.
    watched: AtomicBool,
    /// The worker to send a [`park::CHECK`], or null. Read by the sentinel, which takes no lock.
    standby: AtomicPtr<Berth>,
    /// False alarms come in quick succession: the sentinels wait for the tick.
    pub(crate) is_calm: AtomicBool,
    last_false_alarm: AtomicU64,
    /// On the service's list of ticking pools.
    is_ticking: AtomicBool,
    /// The managed pods that help each other, and which of them this is.
    pub(crate) pods: Option<(&'static Pods, usize)>,
    /// Copy of `Locked::is_spare` for other pods. A hint.
    is_spare: AtomicBool,
    /// A thread of the program computes on its CPU, see [`away`](crate::away). A hint.
    is_taken: AtomicBool,
    /// Its items are so short that helping is not worth it, see [`pace`](crate::pace). Written under the lock.
    has_short_items: AtomicBool,
    attachment: Attachment,
    /// Workers may leave the pod.
    may_stray: bool,
    /// The only one of `spec.cpus`.
    lone_cpu: Option<u32>,
    /// The service thread looks at it while it is watched.
    pub(crate) has_tick: bool,
}

/// Who creates a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Creator {
    /// The pool's manager.
    Manager(WorkerId),
    /// Somebody outside, because work waits and the pool has nobody to come for it.
    First,
    /// Somebody outside, so that a worker can be lent to another pod.
    Spare,
}

/// What is left to do once the lock is dropped.
#[must_use]
#[derive(Debug)]
pub(crate) enum Todo {
    Nothing,
    Wake(&'static Berth),
    /// Watch for blocking workers. `begin`: nobody was watching; `has_backlog`: work waits, not only a
    /// lent worker is watched.
    Watch {
        begin: bool,
        has_backlog: bool,
    },
    NeedFirst,
    /// Look at this time whether rescuers have to be called.
    Mayday(Nanos),
}

impl Pool {
    pub(crate) fn new(
        id: PoolId,
        spec: PoolSpec,
        pods: Option<(&'static Pods, usize)>,
        runtime: &'static Runtime,
    ) -> Box<Self> {
        let mut config = PoolConfig::new(id, spec.concurrency);
        config.idle_timeout = runtime.params.idle_timeout_ns;
        config.idle_ratio = runtime.params.idle_ratio;
        config.bh = matches!(spec.kind, PoolKind::Bh(_));
        let is_away = spec.is_away;
        let may_stray = attach::may_stray(&spec);
        let attachment = Attachment::new(&spec, runtime);
        let lone_cpu = spec.cpus.first().filter(|_| spec.cpus.count() == 1);
        let mirror = runtime.inspect.pool(id.0, &spec, may_stray);
        let has_tick = !config.bh && runtime.detect != Detect::Inline;
        Box::new(Self {
            id,
            spec,
            runtime,
            inbox: Inbox::new(),
            state: Mutex::new(Locked {
                core: PoolState::new(config),
                threads: Vec::new(),
                watched: false,
                saturated: false,
                pending_kick: Kick::None,
                is_closing: false,
                is_spare: !is_away,
                is_called: false,
                mark: Mark { at: 0, progress: 0 },
                is_backlogged: false,
                is_away,
                is_unused: false,
                next_worker_number: 0,
                mayday_at: NEVER,
                traced_for: 0,
                mirror,
            }),
            watched: AtomicBool::new(false),
            standby: AtomicPtr::new(ptr::null_mut()),
            is_calm: AtomicBool::new(false),
            last_false_alarm: AtomicU64::new(0),
            is_ticking: AtomicBool::new(false),
            pods,
            is_spare: AtomicBool::new(!is_away),
            is_taken: AtomicBool::new(false),
            has_short_items: AtomicBool::new(false),
            attachment,
            may_stray,
            lone_cpu,
            has_tick,
        })
    }

    /// The lock, with everything that was queued before in the core's lists. To be given back by
    /// [`unlock`](Self::unlock), since the inbox may have held something that demands action.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Locked> {
        trace::ready();
        let mut guard = self.lock_only();
        if !self.inbox.is_empty() {
            guard.empty_inbox(self);
        }
        guard
    }

    /// The lock alone: for a worker that has other work before what may be in the inbox.
    #[inline]
    pub(crate) fn lock_only(&self) -> MutexGuard<'_, Locked> {
        let mut guard = lock(&self.state);
        if trace::wants_activations() {
            guard.note_activations();
        }
        guard
    }

    /// The threads of its workers.
    pub(crate) fn threads(&self) -> Vec<Arc<Thread>> {
        self.lock_only().threads.iter().flatten().cloned().collect()
    }

    /// Work waits here that may not start now. A hint.
    pub(crate) fn is_watched(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `Locked::watch`, for `standby`.
        self.watched.load(acquire("is_watched"))
    }

    /// Another pod has a CPU to spare, and the items here are worth it.
    #[inline]
    pub(crate) fn may_be_helped(&self) -> bool {
        self.pods.is_some_and(|(pods, _)| pods.any_spare()) && !self.has_short_items()
    }

    /// A pod has more work than it may run, so that a CPU which somebody leaves here matters.
    #[inline]
    fn others_wait(&self) -> bool {
        self.pods.is_some_and(|(pods, _)| pods.any_backlog())
    }

    /// Its items are too short for others to help. A hint.
    #[inline]
    pub(crate) fn has_short_items(&self) -> bool {
        // ORDERING: no pairing: a hint; who decides by it under the lock has it exactly.
        self.has_short_items.load(Ordering::Relaxed)
    }

    /// The tick: looks again whether its items are short, if they are taken to be. Caller holds no core lock.
    pub(crate) fn look_at_pace(&'static self) {
        if !self.has_short_items() {
            return;
        }
        let mut guard = self.lock();
        let now = guard.mark_now();
        match guard.mark.was_short(now) {
            None => {}
            Some(is_short) => guard.set_short(self, is_short, now),
        }
        self.unlock(guard, Kick::None);
    }

    /// This pod has a CPU to spare. A hint.
    pub(crate) fn is_spare(&self) -> bool {
        // ORDERING: no pairing: a hint.
        self.is_spare.load(Ordering::Relaxed)
    }

    /// A thread of the program computes on its CPU, as far as anybody knows who would be told if not. A hint.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        // ORDERING: no pairing: a hint.
        self.is_taken.load(Ordering::Relaxed)
            && self.lone_cpu.is_some_and(|cpu| !self.runtime.sentinels.is_refused(cpu))
    }

    #[inline]
    pub(crate) fn set_taken(&self, is_taken: bool) {
        // ORDERING: no pairing: as above.
        if self.is_taken.load(Ordering::Relaxed) != is_taken {
            self.is_taken.store(is_taken, Ordering::Relaxed);
        }
    }

    /// As [`call_to_lend`](Self::call_to_lend), once its CPU is idle: its standby is to be woken by the CPU's sentinel.
    pub(crate) fn call_when_idle(&'static self) {
        if self.is_watched() || without("taken.call") {
            return;
        }
        let mut guard = self.lock();
        let kick = match (guard.core.has_spare_cpu(), guard.core.standby()) {
            (false, _) => Kick::None,
            (true, Some(_)) => Kick::Watch,
            (true, None) => guard.core.kick_to_lend(),
        };
        self.unlock(guard, kick);
    }

    /// Wakes an idle worker, to look for work in other pods. `false`: there is none to call.
    pub(crate) fn call_to_lend(&'static self) -> bool {
        match self.try_to_call() {
            // A new worker begins by waiting, for this.
            Kick::NeedFirst => self.try_to_call() != Kick::None,
            kick => kick != Kick::None,
        }
    }

    fn try_to_call(&'static self) -> Kick {
        let mut guard = self.lock();
        let kick = if guard.is_called { Kick::None } else { guard.core.kick_to_lend() };
        // Only who was woken will answer. A worker that is being created, by us or somebody else, will not.
        guard.is_called |= matches!(kick, Kick::Wake(_));
        self.unlock(guard, kick);
        kick
    }

    /// Another pod has a backlog: if a worker here blocks, or has blocked, its CPU matters.
    pub(crate) fn watch_for_others(&'static self) {
        if self.is_watched() {
            return;
        }
        let guard = self.lock();
        let is_busy = guard.core.nr_running() > 0;
        self.unlock(guard, if is_busy { Kick::Watch } else { Kick::None });
    }

    /// Sends the standby to verify. Lock-free: the sentinel's whole action.
    pub(crate) fn alarm(&self) {
        // ORDERING: Acquire pairs with the Release in `set_standby`; berths are never freed.
        let standby = self.standby.load(acquire("alarm"));
        // SAFETY: null or a berth, and berths live for ever.
        if let Some(standby) = unsafe { standby.as_ref() } {
            standby.parker.unpark(park::CHECK);
        }
    }

    /// Drops the lock and acts on what is demanded: `kick`, and what was found in the inbox.
    #[inline]
    pub(crate) fn unlock(&'static self, mut guard: MutexGuard<'_, Locked>, kick: Kick) {
        let todo = guard.todo(self, kick);
        let work_waits = guard.core.is_to_be_watched();
        drop(guard);
        self.act(todo);
        // Models have no watchdog, and no time for it.
        if work_waits && cfg!(not(any(loom, shuttle))) {
            self.runtime.watchdog.work_waits(&self.runtime.service);
        }
    }

    /// Acts on an outcome. Caller holds no core lock.
    #[inline]
    pub(crate) fn act(&'static self, todo: Todo) {
        match todo {
            Todo::Nothing => {}
            Todo::Wake(berth) => berth.parker.unpark(park::WAKE),
            Todo::Watch { begin, has_backlog } => self.begin_watch(begin, has_backlog),
            Todo::NeedFirst => self.create_worker(Creator::First),
            Todo::Mayday(at) => self.runtime.service.mayday_at(at),
        }
    }

    /// The rest of what finishing or cancelling an item may demand, but for the kick. Caller holds
    /// no core lock.
    #[inline]
    pub(crate) fn act_effects(&'static self, effects: Effects) {
        if has_rest(&effects) {
            self.act_rare(effects);
        }
    }

    #[cold]
    fn act_rare(&'static self, effects: Effects) {
        // First: whoever removes the pwq to which the slot is going waits for it, under WQ.
        Self::grant(self.runtime, effects.grant);
        if let Some(wq) = effects.flush_done {
            self.runtime.flush_pwq_done(wq);
        }
        if let Some(wq) = effects.retired {
            self.runtime.release_retired(wq);
        }
    }

    /// A pwq was given a slot of its node. Caller holds no core lock.
    pub(crate) fn grant(runtime: &'static Runtime, mut grant: Option<PwqRef>) {
        while let Some(to) = grant.take() {
            let Some(pool) = runtime.pool(to.pool) else { return };
            let mut guard = pool.lock();
            let Effects { kick, grant: next, .. } = guard.core.grant(to.pwq);
            pool.unlock(guard, kick);
            grant = next;
        }
    }

    #[inline(never)]
    fn begin_watch(&'static self, begin: bool, has_backlog: bool) {
        if let PoolKind::Bh(cpu) = self.spec.kind {
            return self.runtime.bh.raise(cpu);
        }
        if self.runtime.detect.has_sentinel() {
            self.arm_sentinel(begin);
        }
        if begin && self.runtime.detect != Detect::Inline {
            self.runtime.service.start_ticking(self);
        }
        // Two pods that watch workers they lent each other must not call each other for nothing, for ever.
        if has_backlog && self.may_be_helped() {
            self.runtime.ask_idle_pods(self);
        }
    }

    /// Arms the sentinel of the CPU this worker runs on, or those of all running workers' CPUs.
    fn arm_sentinel(&'static self, begin: bool) {
        // ORDERING: no pairing: a hint.
        if self.is_calm.load(Ordering::Relaxed) {
            return;
        }
        if self.lone_cpu.is_none() && !begin {
            if let Some(cpu) = sense::sched::current_cpu() {
                self.runtime.sentinels.arm(cpu);
            }
            return;
        }
        self.arm_all_sentinels();
    }

    /// Arms the sentinels of the CPUs on which this pool's running workers entered their functions.
    pub(crate) fn arm_all_sentinels(&'static self) {
        if let Some(cpu) = self.lone_cpu {
            return self.runtime.sentinels.arm(cpu);
        }
        let mut cpus = CpuSet::new();
        let guard = self.lock_only();
        for view in guard.core.workers().filter(|view| view.running) {
            if let Some(thread) = guard.thread(view.id) {
                cpus.insert(thread.cpu());
            }
        }
        drop(guard);
        for cpu in cpus.iter() {
            self.runtime.sentinels.arm(cpu);
        }
    }

    /// A sentinel ran although nobody was blocked: it got its small share beside a CPU hog, or this
    /// pool's workers crowd on another CPU. In the first case the scheduler itself makes the next
    /// time rare, so it is armed again at once; alarms in quick succession are the second case, and
    /// wait for the tick.
    pub(crate) fn false_alarm(&'static self) {
        let now = clock::now();
        // ORDERING: no pairing: hints.
        let last = self.last_false_alarm.swap(now, Ordering::Relaxed);
        if now.saturating_sub(last) < CALM_NS {
            self.is_calm.store(true, Ordering::Relaxed);
            self.runtime.service.hurry();
        } else {
            self.arm_all_sentinels();
        }
    }

    // ---- creation

    /// Creates a worker, as the manager `by` or, if the pool has none at all, from outside. Caller
    /// holds no core lock. On failure nothing is lost: the pool works with what it has, and the
    /// service tries again.
    ///
    /// KERNEL: `create_worker` — same, with the failure handled as `PoolState::create_failed` says.
    #[cold]
    pub(crate) fn create_worker(&'static self, by: Creator) {
        if reclaim::current_is_rescuer() {
            return self.create_later();
        }
        let is_own = matches!(by, Creator::Manager(_));
        if !is_own && !self.spec.priority.can_be_inherited(self.runtime.base_policy) {
            self.runtime.service.create_for(self);
            return;
        }
        let mut guard = self.lock_only();
        let (is_wanted, by) = match by {
            Creator::Manager(id) => (true, Some(id)),
            Creator::First => (guard.core.may_create_from_outside(), None),
            Creator::Spare => (guard.core.may_create_spare(clock::now()), None),
        };
        if !is_wanted {
            return;
        }
        let id = guard.core.worker_new();
        let name = self.worker_name(guard.next_worker_number);
        let mirror = self.runtime.inspect.worker(Role::Worker(self.id.0), &name);
        let thread = Arc::new(Thread::new(name, mirror));
        guard.next_worker_number += 1;
        guard.set_thread(id, Some(Arc::clone(&thread)));
        let mayday = guard.mayday();
        drop(guard);
        self.act(mayday);

        let spawned = worker::spawn(self, id, thread);

        let mut guard = self.lock();
        match &spawned {
            Ok(()) => guard.mirror.created(),
            Err(error) => guard.mirror.creation_failed(error.raw_os_error().unwrap_or(0)),
        }
        let kick = if spawned.is_ok() {
            let kick = guard.core.worker_created(id, by, clock::now());
            // If there was nobody to stand by, now there is.
            guard.refresh_standby(self);
            kick
        } else {
            guard.set_thread(id, None);
            guard.core.create_failed(id, by, clock::now());
            Kick::None
        };
        let is_closing = guard.is_closing();
        // A worker in the making counts as busy, and busy workers excuse idle ones: no longer.
        let cull = guard.core.cull_at();
        self.unlock(guard, kick);
        self.runtime.service.cull_at(cull);
        if is_closing {
            self.dismiss_idle();
        }
        if let Err(error) = spawned {
            self.runtime.creation_failed(self, &error);
        }
    }

    // ---- the end

    /// Lets all workers go, now or as soon as they are idle. Nothing is queued here any more.
    #[cold]
    pub(crate) fn close(&self) {
        self.lock_only().is_closing = true;
        self.dismiss_idle();
    }

    /// Sends the idle workers of a closed pool away.
    #[cold]
    pub(crate) fn dismiss_idle(&self) {
        loop {
            let mut guard = self.lock_only();
            if !guard.is_closing() {
                // A queue has come back to it.
                return;
            }
            debug_assert!(!guard.core.work_waits(), "work waits in a closed pool");
            let leaving = guard.core.dismiss_one();
            let berth = leaving.and_then(|id| guard.thread(id)).map(|thread| thread.berth);
            drop(guard);
            let Some(berth) = berth else { return };
            berth.parker.unpark(park::WAKE);
        }
    }

    /// `kworker/CPU:ID[H]` or `kworker/uPOOL:ID`, as the kernel names them.
    fn worker_name(&self, number: u32) -> String {
        let high = if self.spec.nice < 0 { "H" } else { "" };
        match self.spec.kind {
            PoolKind::Cpu(cpu) | PoolKind::Bh(cpu) => format!("kworker/{cpu}:{number}{high}"),
            PoolKind::Unbound | PoolKind::Managed => {
                format!("kworker/u{}:{number}{high}", self.id.0)
            }
        }
    }
}

/// Whether there is more to act on than the kick.
#[inline]
pub(crate) fn has_rest(effects: &Effects) -> bool {
    effects.flush_done.is_some() || effects.grant.is_some() || effects.retired.is_some()
}

impl Locked {
    pub(crate) fn thread(&self, id: WorkerId) -> Option<&Arc<Thread>> {
        self.threads.get(id.0 as usize)?.as_ref()
    }

    /// Whether whoever is idle is to leave.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing || self.is_unused
    }

    pub(crate) fn set_thread(&mut self, id: WorkerId, thread: Option<Arc<Thread>>) {
        let index = id.0 as usize;
        if self.threads.len() <= index {
            self.threads.resize(index + 1, None);
        }
        self.threads[index] = thread;
    }

    /// Shows what was changed under the lock, for those who drop it without asking what to do.
    pub(crate) fn settle_mirror(&mut self) {
        self.mirror.settle(&mut self.core);
    }

    /// A worker is about to run what it claimed.
    #[inline]
    pub(crate) fn show_start(&self, pool: &Pool, thread: &Thread, claim: &Claim) {
        self.mirror.started(&thread.mirror, claim, || self.now(pool));
    }

    /// What time it is, to within a tick: while somebody watches, the service thread looks.
    #[inline]
    pub(crate) fn now(&self, pool: &Pool) -> Nanos {
        if self.watched && pool.has_tick { clock::lately() } else { clock::coarse() }
    }

    /// Shows what the core believes of a worker now.
    #[cold]
    pub(crate) fn show_belief(&self, id: WorkerId) {
        if let Some(thread) = self.thread(id) {
            inspect::believe(&self.core, id, &thread.mirror);
        }
    }

    /// Queues what is in the inbox. What that demands is in `pending_kick` until the next
    /// [`todo`](Self::todo).
    #[inline]
    pub(crate) fn empty_inbox(&mut self, pool: &Pool) {
        for (pwq, item) in pool.inbox.take() {
            // SAFETY: whoever pushed the item owned its PENDING and keeps it alive.
            let kick = unsafe { self.core.enqueue(pwq, item) };
            self.pending_kick = self.pending_kick.or(kick);
        }
    }

    /// Keeps the inbox's word on whether pushing is enough. To be called before the lock is dropped
    /// by whoever may have changed the number of running workers, or watching.
    #[inline]
    pub(crate) fn settle_saturation(&mut self, pool: &Pool) {
        let saturated = self.watched && self.core.is_at_capacity() && !pool.may_be_helped();
        if saturated == self.saturated {
            return;
        }
        self.saturated = saturated;
        if saturated {
            pool.inbox.saturate();
            return;
        }
        pool.inbox.desaturate();
        if !pool.inbox.is_empty() {
            self.empty_inbox(pool);
        }
    }

    /// Turns a decision into something that can be done without the lock. The last thing to do
    /// under it.
    #[inline]
    pub(crate) fn todo(&mut self, pool: &Pool, kick: Kick) -> Todo {
        self.decide(pool, kick, false)
    }

    #[inline(always)]
    fn decide(&mut self, pool: &Pool, kick: Kick, is_claimer: bool) -> Todo {
        if trace::wants_activations() {
            self.trace_activations(pool);
        }
        self.settle_board(pool);
        self.settle_saturation(pool);
        let kick = kick.or(mem::replace(&mut self.pending_kick, Kick::None));
        self.mirror.settle(&mut self.core);
        match kick {
            Kick::None => {
                self.mirror.kicked_nobody(&self.core);
                match self.mayday() {
                    Todo::Nothing if is_claimer && self.watched => self.watch(pool, true),
                    todo => todo,
                }
            }
            Kick::Wake(id) => {
                self.mirror.decided(Reason::WokeIdle);
                self.thread(id).map_or(Todo::Nothing, |thread| Todo::Wake(thread.berth))
            }
            Kick::Watch => {
                self.mirror.decided(Reason::AtCapacity);
                let was_watched = self.watched;
                let todo = self.watch(pool, is_claimer);
                if !was_watched {
                    self.settle_saturation(pool);
                }
                todo
            }
            Kick::NeedFirst => {
                self.mirror.decided(Reason::NoWorker);
                Todo::NeedFirst
            }
        }
    }

    /// As [`todo`](Self::todo), for a worker that has just claimed an item: it is watched from now
    /// on, if anybody watches, since more may be queued without a word while it runs.
    #[inline]
    pub(crate) fn claimed(&mut self, pool: &Pool, kick: Kick) -> Todo {
        self.decide(pool, kick, true)
    }

    /// Work waits at capacity: somebody must watch. `is_claimer`: by a worker that has just claimed
    /// an item, or is going idle, so that the standby may be another one now.
    #[inline]
    pub(crate) fn watch(&mut self, pool: &Pool, is_claimer: bool) -> Todo {
        let begin = !self.watched;
        if !begin && !is_claimer && !pool.may_be_helped() {
            return Todo::Nothing;
        }
        if begin {
            clock::look();
            if pool.has_short_items() {
                let now = self.mark_now();
                self.set_short(pool, !self.mark.is_old(now), now);
            }
        }
        self.watched = true;
        self.refresh_standby(pool);
        // ORDERING: Release pairs with the Acquire in `is_watched`.
        pool.watched.store(true, release("watch"));
        Todo::Watch { begin, has_backlog: self.core.work_waits() }
    }

    /// The idle workers changed while somebody watches.
    pub(crate) fn refresh_standby(&mut self, pool: &Pool) {
        if self.watched {
            let standby = self.core.standby().and_then(|id| self.thread(id)).map(|t| t.berth);
            pool.set_standby(standby);
        }
    }

    /// Nothing waits: detectors may rest. To be followed by [`todo`](Self::todo), for the inbox.
    pub(crate) fn unwatch(&mut self, pool: &Pool) {
        if self.watched {
            self.watched = false;
            // ORDERING: no pairing: detectors that miss it look once more for nothing.
            pool.watched.store(false, Ordering::Relaxed);
        }
    }

    /// From now on the core notes what becomes active. A reader may have come at any time, and what the first hold
    /// of the lock after that makes active belongs to it.
    #[cold]
    fn note_activations(&mut self) {
        // Session 0 comes before all readers: the first notes are for probes then.
        let session = trace::session().max(1);
        if self.traced_for != session {
            self.traced_for = session;
            self.core.note_activations();
        }
    }

    /// What has become active under this hold of the lock.
    #[cold]
    fn trace_activations(&mut self, pool: &Pool) {
        if self.traced_for != trace::session().max(1) {
            // A reader came during this hold of the lock: what is noted, if anything, is from after an earlier one had gone.
            return self.note_activations();
        }
        // There is room for more than one hold of the lock can bring but a large change of limits.
        let mut moment = None;
        let missed = self
            .core
            .take_activations(|activation| trace::activate_work(pool, activation, &mut moment));
        trace::lose(missed);
    }

    /// As [`PoolState::worker_blocked`], traced.
    pub(crate) fn worker_blocked(&mut self, pool: &Pool, id: WorkerId, seq: u64) -> Kick {
        let was_blocked = self.core.is_blocked(id, seq);
        let kick = self.core.worker_blocked(id, seq);
        if !was_blocked && self.core.is_blocked(id, seq) {
            self.trace_worker(Kind::WorkerBlocked, pool, id);
        }
        kick
    }

    /// As [`PoolState::worker_resumed`], traced.
    pub(crate) fn worker_resumed(&mut self, pool: &Pool, id: WorkerId, seq: u64) {
        if self.core.is_blocked(id, seq) {
            self.trace_worker(Kind::WorkerResumed, pool, id);
        }
        self.core.worker_resumed(id, seq);
    }

    #[inline]
    fn trace_worker(&self, kind: Kind, pool: &Pool, id: WorkerId) {
        let tid = self.thread(id).map_or(0, |thread| thread.tid());
        trace::worker_turned(kind, pool, tid);
    }

    /// Keeps the board of the pods.
    #[inline]
    fn settle_board(&mut self, pool: &Pool) {
        let Some((pods, _)) = pool.pods else { return };
        let is_backlogged =
            self.core.work_waits() && self.core.is_at_capacity() && !pool.has_short_items();
        if is_backlogged != self.is_backlogged {
            self.is_backlogged = is_backlogged;
            pods.count_backlog(is_backlogged);
        }
        // A pod that is taken comes when its CPU is idle, and need not be asked twice.
        let is_asked = self.is_called || (self.watched && pool.is_taken());
        let may_lend = !is_asked && !self.is_away;
        let is_spare = may_lend && self.core.has_spare_cpu();
        if is_spare != self.is_spare {
            self.is_spare = is_spare;
            // ORDERING: no pairing: a hint.
            pool.is_spare.store(is_spare, Ordering::Relaxed);
            pods.count(is_spare);
        }
    }

    /// Whether anybody has to be watched: work waits here, or somebody runs on a CPU that another
    /// pod could use.
    pub(crate) fn has_to_watch(&self, pool: &Pool) -> bool {
        let is_used = self.core.nr_running() > 0 || pool.is_taken();
        self.core.work_waits() || (is_used && pool.others_wait())
    }

    /// A worker of this pool was reported blocked: whom to wake. With nothing to do here, somebody
    /// who looks for work in other pods.
    pub(crate) fn replace_blocked(&mut self, pool: &Pool, kick: Kick) -> Kick {
        // A pod that is taken is called by its CPU's sentinel.
        if kick == Kick::None && !pool.is_taken() && pool.others_wait() {
            return self.core.kick_to_lend();
        }
        kick
    }

    /// How far it has come by now.
    fn mark_now(&self) -> Mark {
        Mark { at: clock::now(), progress: self.core.progress() }
    }

    /// A guest found its items short.
    pub(crate) fn found_short(&mut self, pool: &Pool) {
        let now = self.mark_now();
        self.set_short(pool, true, now);
    }

    fn set_short(&mut self, pool: &Pool, is_short: bool, now: Mark) {
        self.mark = now;
        // ORDERING: no pairing: written under the lock, a hint for all others.
        pool.has_short_items.store(is_short, Ordering::Relaxed);
    }

    /// The worker that was called is here, or another one that will look around.
    pub(crate) fn answer_call(&mut self) {
        self.is_called = false;
    }
}

impl Pool {
    /// Caller holds the pool's lock.
    fn set_standby(&self, standby: Option<&'static Berth>) {
        let new = standby.map_or(ptr::null_mut(), |berth| ptr::from_ref(berth).cast_mut());
        // ORDERING: no pairing for the load: written under the pool's lock only.
        if self.standby.load(Ordering::Relaxed) == new {
            return;
        }
        // ORDERING: Release pairs with the Acquire in `alarm`.
        self.standby.store(new, release("set_standby"));
    }
}

impl Watched for Pool {
    fn is_watched(&self) -> bool {
        self.is_watched()
    }

    fn is_listed(&self) -> &AtomicBool {
        &self.is_ticking
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guard = self.lock_only();
        f.debug_struct("Pool")
            .field("id", &self.id)
            .field("kind", &self.spec.kind)
            .field("nice", &self.spec.nice)
            .field("cpus", &self.spec.cpus)
            .field("workers", &guard.core.nr_workers())
            .field("idle", &guard.core.nr_idle())
            .field("running", &guard.core.nr_running())
            .finish()
    }
}
