//! A worker pool with its lock: the core's decisions on one side, threads on the other.
//!
//! Owns [`Locked`], the pool's lock domain (L): the core's [`PoolState`] and the handles of its workers'
//! threads. The pattern of every function here and in `worker`: lock, ask the core, turn the outcome into a
//! [`Todo`] (which needs the lock, to find threads), unlock, [`act`](Pool::act).
//!
//! Pools live for ever (`&'static`): the id in an idle item's word must stay resolvable.

use std::fmt;
use std::ptr;

use cmwq_core::{Effects, Kick, PoolConfig, PoolId, PoolState, PwqRef, WorkerId, WqKey};

use crate::clock;
use crate::detect::Detect;
use crate::runtime::Runtime;
use crate::sync::{Arc, AtomicBool, AtomicPtr, AtomicU32, Mutex, MutexGuard, Ordering, lock};
use crate::thread::{Berth, Thread};
use crate::topo::CpuSet;
use crate::{park, sense, worker};

/// What a pool is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    /// Pinned to one CPU; concurrency 1.
    Cpu(u32),
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
    /// Where its workers may run.
    pub(crate) cpus: CpuSet,
    pub(crate) concurrency: u32,
}

/// Lock: L.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) core: PoolState,
    pub(crate) threads: Vec<Option<Arc<Thread>>>,
    /// Work waits that may not start now, and detectors know.
    watched: bool,
}

/// See the module header.
pub(crate) struct Pool {
    pub(crate) id: PoolId,
    pub(crate) spec: PoolSpec,
    pub(crate) runtime: &'static Runtime,
    state: Mutex<Locked>,
    /// Copy of `Locked::watched` for detectors. A hint.
    watched: AtomicBool,
    /// The worker to send a [`park::CHECK`], or null. Read by the sentinel, which takes no lock.
    standby: AtomicPtr<Berth>,
    /// The last sentinel's alarms were right: arm it again without waiting for the tick.
    pub(crate) trusts_sentinel: AtomicBool,
    /// On the service's list of ticking pools.
    pub(crate) is_ticking: AtomicBool,
    /// Copy of `nr_running` for other pods looking for a CPU to spare. A hint.
    running_hint: AtomicU32,
    next_worker_number: AtomicU32,
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
    /// Watch for blocking workers. `begin`: nobody was watching.
    Watch {
        begin: bool,
        poke: Option<&'static Berth>,
    },
    NeedFirst,
}

impl Pool {
    pub(crate) fn new(id: PoolId, spec: PoolSpec, runtime: &'static Runtime) -> &'static Self {
        let mut config = PoolConfig::new(id, spec.concurrency);
        config.idle_timeout = runtime.params.idle_timeout_ns;
        config.idle_ratio = runtime.params.idle_ratio;
        Box::leak(Box::new(Self {
            id,
            spec,
            runtime,
            state: Mutex::new(Locked {
                core: PoolState::new(config),
                threads: Vec::new(),
                watched: false,
            }),
            watched: AtomicBool::new(false),
            standby: AtomicPtr::new(ptr::null_mut()),
            trusts_sentinel: AtomicBool::new(true),
            is_ticking: AtomicBool::new(false),
            running_hint: AtomicU32::new(0),
            next_worker_number: AtomicU32::new(0),
        }))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Locked> {
        lock(&self.state)
    }

    /// Work waits here that may not start now. A hint.
    pub(crate) fn is_watched(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `Locked::watch`, for `standby`.
        self.watched.load(Ordering::Acquire)
    }

    pub(crate) fn has_spare_hint(&self) -> bool {
        // ORDERING: no pairing: a hint.
        self.running_hint.load(Ordering::Relaxed) < self.spec.concurrency
    }

    /// Sends the standby to verify. Lock-free: the sentinel's whole action.
    pub(crate) fn alarm(&self) {
        // ORDERING: Acquire pairs with the Release in `set_standby`; berths are never freed.
        let standby = self.standby.load(Ordering::Acquire);
        // SAFETY: null or a berth, and berths live for ever.
        if let Some(standby) = unsafe { standby.as_ref() } {
            standby.unpark(park::CHECK);
        }
    }

    /// Acts on an outcome. Caller holds no core lock.
    #[inline]
    pub(crate) fn act(&'static self, todo: Todo) {
        match todo {
            Todo::Nothing => {}
            Todo::Wake(berth) => berth.unpark(park::WAKE),
            Todo::Watch { begin, poke } => self.begin_watch(begin, poke),
            Todo::NeedFirst => self.create_worker(Creator::First),
        }
    }

    /// The rest of what finishing or cancelling an item may demand. Caller holds no core lock.
    #[inline]
    pub(crate) fn act_effects(&'static self, flush_done: Option<WqKey>, grant: Option<PwqRef>) {
        if flush_done.is_some() || grant.is_some() {
            self.act_rare(flush_done, grant);
        }
    }

    #[cold]
    fn act_rare(&'static self, flush_done: Option<WqKey>, mut grant: Option<PwqRef>) {
        if let Some(wq) = flush_done {
            self.runtime.flush_pwq_done(wq);
        }
        while let Some(to) = grant.take() {
            let Some(pool) = self.runtime.pool(to.pool) else { return };
            let mut guard = pool.lock();
            let Effects { kick, flush_done: _, grant: next } = guard.core.grant(to.pwq);
            let todo = guard.todo(pool, kick);
            drop(guard);
            pool.act(todo);
            grant = next;
        }
    }

    #[cold]
    fn begin_watch(&'static self, begin: bool, poke: Option<&'static Berth>) {
        match self.runtime.detect {
            Detect::Sentinel => self.arm_sentinel(begin),
            Detect::Perf => {
                if let Some(standby) = poke {
                    standby.unpark(park::CHECK);
                }
            }
            Detect::Tick | Detect::Inline => {}
        }
        if begin {
            self.runtime.service.start_ticking(self);
            self.runtime.ask_idle_pods(self);
        }
    }

    /// Arms the sentinel of the CPU this worker runs on, or those of all running workers' CPUs.
    fn arm_sentinel(&'static self, begin: bool) {
        // ORDERING: no pairing: a hint.
        if !self.trusts_sentinel.load(Ordering::Relaxed) {
            return;
        }
        if !begin {
            if let Some(cpu) = sense::sched::current_cpu() {
                self.runtime.sentinels.arm(cpu);
            }
            return;
        }
        self.arm_all_sentinels();
    }

    /// Arms the sentinels of the CPUs on which this pool's running workers entered their functions.
    pub(crate) fn arm_all_sentinels(&'static self) {
        if let PoolKind::Cpu(cpu) = self.spec.kind {
            self.runtime.sentinels.arm(cpu);
            return;
        }
        let mut cpus = CpuSet::new();
        let guard = self.lock();
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

    // ---- creation --------------------------------------------------------------------------------------

    /// Creates a worker, as the manager `by` or, if the pool has none at all, from outside. Caller holds no
    /// core lock. On failure nothing is lost: the pool works with what it has, and the service tries again.
    ///
    /// KERNEL: `create_worker` — same, with the failure handled as `PoolState::create_failed` says.
    #[cold]
    pub(crate) fn create_worker(&'static self, by: Creator) {
        // ORDERING: no pairing: a counter for names.
        let number = self.next_worker_number.load(Ordering::Relaxed);
        let thread = Arc::new(Thread::new(self.worker_name(number)));
        let mut guard = self.lock();
        let (is_wanted, by) = match by {
            Creator::Manager(id) => (true, Some(id)),
            Creator::First => (guard.core.may_create_from_outside(), None),
            Creator::Spare => (guard.core.may_create_spare(clock::now()), None),
        };
        if !is_wanted {
            return;
        }
        let id = guard.core.worker_new();
        guard.set_thread(id, Some(Arc::clone(&thread)));
        drop(guard);

        // Creation is one at a time, so this number was not taken meanwhile.
        self.next_worker_number.store(number + 1, Ordering::Relaxed);
        let spawned = worker::spawn(self, id, thread);

        let mut guard = self.lock();
        let todo = match &spawned {
            Ok(()) => {
                let kick = guard.core.worker_created(id, by, clock::now());
                guard.todo(self, kick)
            }
            Err(_) => {
                guard.set_thread(id, None);
                guard.core.create_failed(id, by, clock::now());
                Todo::Nothing
            }
        };
        drop(guard);
        self.act(todo);
        if let Err(error) = spawned {
            self.runtime.creation_failed(self, &error);
        }
    }

    /// `kworker/CPU:ID[H]` or `kworker/uPOOL:ID`, as the kernel names them.
    fn worker_name(&self, number: u32) -> String {
        let high = if self.spec.nice < 0 { "H" } else { "" };
        match self.spec.kind {
            PoolKind::Cpu(cpu) => format!("kworker/{cpu}:{number}{high}"),
            PoolKind::Unbound | PoolKind::Managed => {
                format!("kworker/u{}:{number}{high}", self.id.0)
            }
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

    /// Turns a decision into something that can be done without the lock.
    #[inline]
    pub(crate) fn todo(&mut self, pool: &Pool, kick: Kick) -> Todo {
        match kick {
            Kick::None => Todo::Nothing,
            Kick::Wake(id) => match self.thread(id) {
                Some(thread) => Todo::Wake(thread.berth),
                None => Todo::Nothing,
            },
            Kick::Watch => self.watch(pool, None),
            Kick::NeedFirst => Todo::NeedFirst,
        }
    }

    /// Work waits at capacity. Cheap when somebody watches already and `claimer`, the worker that has just
    /// claimed an item (if that is why), is one he knows.
    #[inline]
    pub(crate) fn watch(&mut self, pool: &Pool, claimer: Option<&Thread>) -> Todo {
        let begin = !self.watched;
        if !begin && claimer.is_none() {
            return Todo::Nothing;
        }
        self.watch_on(pool, begin, claimer)
    }

    fn watch_on(&mut self, pool: &Pool, begin: bool, claimer: Option<&Thread>) -> Todo {
        self.watched = true;
        let standby = self.core.standby().and_then(|id| self.thread(id)).map(|t| t.berth);
        let moved = pool.set_standby(standby);
        // ORDERING: Release pairs with the Acquire in `is_watched`.
        pool.watched.store(true, Ordering::Release);
        let unknown = claimer.is_none_or(|thread| !thread.is_polled());
        let poke = if begin || moved || unknown { standby } else { None };
        Todo::Watch { begin, poke }
    }

    /// Nothing waits, or nobody has to be watched: detectors may rest.
    pub(crate) fn unwatch(&mut self, pool: &Pool) {
        if self.watched {
            self.watched = false;
            // ORDERING: no pairing: detectors that miss it look once more for nothing.
            pool.watched.store(false, Ordering::Relaxed);
        }
    }

    /// Keeps the hint for other pods. Only pools with siblings need it.
    #[inline]
    pub(crate) fn publish_running(&self, pool: &Pool) {
        // ORDERING: no pairing: a hint.
        pool.running_hint.store(self.core.nr_running(), Ordering::Relaxed);
    }
}

impl Pool {
    /// Caller holds the pool's lock. `true`: it is another one than before.
    fn set_standby(&self, standby: Option<&'static Berth>) -> bool {
        let new = standby.map_or(ptr::null_mut(), |berth| ptr::from_ref(berth).cast_mut());
        // ORDERING: no pairing for the load: written under the pool's lock only.
        if self.standby.load(Ordering::Relaxed) == new {
            return false;
        }
        // ORDERING: Release pairs with the Acquire in `alarm`.
        self.standby.store(new, Ordering::Release);
        true
    }

    pub(crate) fn is_standby(&self, berth: &'static Berth) -> bool {
        // ORDERING: no pairing: written under the pool's lock, which the caller holds.
        ptr::eq(self.standby.load(Ordering::Relaxed), berth)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guard = self.lock();
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
