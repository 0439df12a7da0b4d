//! The process's pools, and which pool serves which queue on which CPU.
//!
//! Lock: registry ([`Registry`]), inside of placement changes and WQ, outside of attach and the
//! pools' locks. There is one runtime per process; tests under a model checker make their own.

#[cfg(test)]
use std::io;

use cmwq_core::place::{self, StandIn};
use cmwq_core::{Closed, LockFor, PoolId, WorkerId, WqKey};

use crate::detect::hog::Hogs;
use crate::detect::method::Detect;
use crate::detect::sentinel::Sentinels;
use crate::engine::bh::{BhContexts, BhThread};
use crate::engine::pool::board::{AtomicBoard, Pod};
use crate::engine::pool::{Pool, PoolKind, PoolSpec};
use crate::engine::service::Service;
use crate::engine::tools::attrs::{Attrs, Priority};
use crate::engine::tools::headcount::Headcount;
use crate::engine::tools::params::Params;
use crate::engine::tools::table::Table;
use crate::engine::tools::thread::Thread;
use crate::engine::tools::watchdog::Watchdog;
use crate::engine::wq::{Kind, Spec, Wq};
use crate::os::error::Error;
use crate::os::generation;
use crate::os::notice::{self, Notice};
use crate::os::park::Event;
use crate::os::sense::{self, policy::Policy};
use crate::os::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use crate::os::thread_group::ThreadGroup;
use crate::os::topo::CpuSet;
use crate::record::{Inspect, trace};

pub(crate) mod claiming;
mod helping;
mod machine;
pub(crate) mod placement;
mod pretending;
mod stalls;
mod users_wqs;

pub(crate) use machine::Machine;
use placement::Placement;

/// Functions of the modules above that the runtime, its pools and its queues call. They are handed
/// in at the start, so the modules here do not name workers.
#[derive(Clone, Copy)]
pub(crate) struct Upcalls {
    /// The main function of a worker's thread; the pool has registered the worker.
    pub(crate) worker_main: fn(&'static Pool, WorkerId, Arc<Thread>),
    /// The main function of the thread of a CPU's BH context.
    pub(crate) bh_main: fn(&'static BhContexts, u32, BhThread),
    /// The runtime of the process, made if this is a forked child that has none yet.
    pub(crate) runtime_of_process: fn() -> Result<&'static Runtime, Error>,
}

/// See the module header.
pub(crate) struct Runtime {
    /// The process that it is of; see `fork`.
    pub(crate) generation: u32,
    pub(crate) params: Params,
    pub(crate) upcalls: Upcalls,
    pub(crate) detect: Detect,
    pub(crate) machine: Machine,
    pub(crate) service: Service,
    pub(crate) sentinels: Sentinels<Pool>,
    pub(crate) bh: BhContexts,
    pub(crate) hogs: Hogs,
    pub(crate) headcount: Headcount,
    pub(crate) watchdog: Watchdog,
    /// What other processes may see.
    pub(crate) inspect: Inspect,
    pub(crate) threads: ThreadGroup,
    pub(crate) placement: Placement,
    /// The scheduling policy of threads without a priority of their own.
    pub(crate) base_policy: Policy,
    /// The timer slack of workers, and so of programs that they start: that of the program's thread
    /// whose call made the library begin, and not the service thread's, whichever creates them.
    pub(crate) timer_slack_ns: u32,
    pools: Table<Pool>,
    /// The boards of the managed pods of normal and of high priority.
    managed: [AtomicBoard; 2],
    pub(crate) registry: Mutex<Registry>,
    /// See [`freeze`](crate::freeze).
    pub(crate) is_frozen: AtomicBool,
    /// See [`shutdown`](crate::shutdown).
    pub(crate) is_shut: AtomicBool,
    /// See [`leaves_runs_behind`](Self::leaves_runs_behind).
    runs_stay_behind: AtomicBool,
    /// The turn of CPUs, with the parameter `debug_force_rr_cpu`.
    turn: AtomicUsize,
    /// Workers that could not be created.
    pub(crate) nr_creation_failures: AtomicU64,
    /// Tests make thread creation fail.
    #[cfg(test)]
    no_threads: AtomicBool,
    /// Tests make it hang.
    #[cfg(test)]
    hang: Mutex<Option<Arc<Hang>>>,
}

/// The creation of a worker or a BH context does not return, as it may where memory is short.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Hang {
    /// Somebody hangs.
    #[allow(dead_code, reason = "only some tests wait for it")]
    pub(crate) begun: Event,
    pub(crate) end: Event,
}

/// Lock: registry.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pools: Vec<(PoolKey, &'static Pool)>,
    pub(crate) wqs: Vec<Option<Arc<Wq>>>,
    free_keys: Vec<u32>,
    /// The same of priorities that queues have by their attributes.
    boards: Vec<(Priority, &'static AtomicBoard)>,
    /// The queue that destroys others, see `reaper`.
    pub(crate) reaper: Option<Arc<Wq>>,
    /// A shutdown has come so far that nobody waits there any more.
    pub(crate) is_reaper_shut: bool,
    /// To be set when the last queue ends.
    pub(crate) all_gone: Option<Arc<Event>>,
    /// Pools made from now on are closed.
    pub(crate) is_closing: bool,
}

impl Registry {
    /// A pool that can run what one with this key would, if that cannot be made.
    fn instead_of(&self, key: &PoolKey) -> Option<&'static Pool> {
        let serves = |known: &PoolKey| {
            known.kind == key.kind && (key.kind.is_renewed() || known.cpus == key.cpus)
        };
        self.pools.iter().find(|(known, _)| serves(known)).map(|(_, pool)| *pool)
    }
}

/// By what pools differ. KERNEL: `wqattrs_equal` — same: niceness, strictness, the pod, and the
/// whole mask only where the workers may leave the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolKey {
    kind: place::PoolKind,
    priority: Priority,
    cpus: PoolCpus,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PoolCpus {
    /// CPU index or index of the managed pod.
    Slot(usize),
    /// Workers of `pod` that may run on `cpus`: the pod, if they are confined to it.
    Pod { pod: CpuSet, cpus: CpuSet, strict: bool },
}

/// A pool, and its spec when it was found: the pool may be renewed before the finder has a pwq
/// there.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) pool: &'static Pool,
    pub(crate) spec: Arc<PoolSpec>,
}

impl Found {
    /// For a pool in which the caller has a pwq, or under the registry's lock.
    pub(crate) fn now(pool: &'static Pool) -> Self {
        Self { pool, spec: pool.spec() }
    }
}

impl Registry {
    /// The board of the managed pods of a priority, if there are several.
    fn board(
        &mut self,
        runtime: &'static Runtime,
        priority: Priority,
    ) -> Option<&'static AtomicBoard> {
        if runtime.machine.managed_pods.len() == 1 {
            return None;
        }
        if priority == Priority::default() || priority == Priority::HIGH {
            return Some(&runtime.managed[usize::from(priority.nice < 0)]);
        }
        if let Some((_, board)) = self.boards.iter().find(|(known, _)| *known == priority) {
            return Some(board);
        }
        let managed = &runtime.placement.now().managed;
        let board = Box::leak(Box::new(runtime.machine.board(managed)));
        self.boards.push((priority, board));
        Some(board)
    }

    /// Whether there are queues other than the reaper.
    pub(crate) fn has_queues(&self) -> bool {
        // By counts, not a walk: there may be millions of queues, and each asks this when it ends.
        let nr_queues = self.wqs.len() - self.free_keys.len();
        let is_registered = |reaper: &Arc<Wq>| {
            let known = self.wqs[reaper.key.0 as usize].as_ref();
            known.is_some_and(|known| Arc::ptr_eq(known, reaper))
        };
        nr_queues > usize::from(self.reaper.as_ref().is_some_and(is_registered))
    }
}

impl Runtime {
    /// A runtime without threads.
    pub(crate) fn assemble(
        params: Params,
        machine: Machine,
        first_pool: u32,
        inspect: Inspect,
        upcalls: Upcalls,
    ) -> Box<Self> {
        let detect = match params.detect.unwrap_or_else(Detect::choose) {
            detect if machine.is_pretended() && detect.has_sentinel() => Detect::Tick,
            detect => detect,
        };
        let placement = Placement::new(&machine, &params);
        let hogs = Hogs::new(params.cpu_intensive_thresh_us, params.cpu_intensive_warning_thresh);
        let headcount = Headcount::new(params.max_workers);
        let cpus = machine.possible();
        let watchdog = Watchdog::new(&params, &cpus);
        let (sentinels, bh) = (Sentinels::new(&cpus), BhContexts::new(&cpus));
        let managed = [(); 2].map(|()| machine.board(&placement.now().managed));
        Box::new(Self {
            generation: generation::current(),
            params,
            upcalls,
            detect,
            machine,
            service: Service::new(),
            sentinels,
            bh,
            hogs,
            headcount,
            watchdog,
            inspect,
            threads: ThreadGroup::new(),
            pools: Table::new(first_pool),
            managed,
            placement,
            base_policy: Policy::of_process(),
            timer_slack_ns: sense::sched::timer_slack_ns(),
            registry: Mutex::new(Registry::default()),
            is_frozen: AtomicBool::new(false),
            is_shut: AtomicBool::new(false),
            runs_stay_behind: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            nr_creation_failures: AtomicU64::new(0),
            #[cfg(test)]
            no_threads: AtomicBool::new(false),
            #[cfg(test)]
            hang: Mutex::new(None),
        })
    }

    // ---- pools

    #[inline]
    pub(crate) fn pool(&'static self, id: PoolId) -> Option<&'static Pool> {
        self.pools.get(id)
    }

    /// The pool that the thread serves as a guest, and its id there.
    pub(crate) fn served_by(&'static self, thread: &Thread) -> Option<(&'static Pool, WorkerId)> {
        let (pool, guest) = thread.guest()?;
        Some((self.pool(pool)?, guest))
    }

    pub(crate) fn pools(&'static self) -> impl Iterator<Item = &'static Pool> {
        self.pools.iter()
    }

    /// A queue whose runs [stay behind](Kind::leaves_runs_behind) is about to get another pool. To
    /// be called before the new pwq is published.
    pub(crate) fn leaves_runs_behind(&self) {
        // ORDERING: no pairing of its own: a thread that finds an item on the new pool takes that
        // pool's lock after the queuer, which saw the pool published.
        self.runs_stay_behind.store(true, Ordering::Relaxed);
    }

    /// The pools that may be running an item, besides the one that its word names: none, as long as
    /// [no runs were left behind](Kind::leaves_runs_behind).
    pub(crate) fn pools_besides(
        &'static self,
        named: &'static Pool,
    ) -> impl Iterator<Item = &'static Pool> {
        // ORDERING: see `leaves_runs_behind`.
        let all = self.runs_stay_behind.load(Ordering::Relaxed).then(|| self.pools());
        all.into_iter().flatten().filter(move |pool| !std::ptr::eq(*pool, named))
    }

    /// How many slots a queue of this kind has.
    pub(crate) fn nr_slots(&self, kind: Kind) -> usize {
        match kind {
            Kind::Percpu | Kind::Bh | Kind::Unbound => self.machine.cpus.len(),
            Kind::Managed => self.machine.managed_pods.len(),
            Kind::Ordered => 1,
        }
    }

    /// The slot for `cpu`, or for the CPU of the calling thread.
    #[inline]
    pub(crate) fn slot(&self, kind: Kind, cpu: Option<u32>) -> usize {
        let index = match cpu {
            None => self.here(),
            Some(cpu) => self.machine.index_of(cpu).unwrap_or_else(|| self.here_instead_of(cpu)),
        };
        match kind {
            Kind::Ordered => 0,
            Kind::Managed if self.machine.managed_pods.len() == 1 => 0,
            _ => match kind.stand_in(cpu.is_some()) {
                StandIn::Own => index,
                StandIn::Present => self.placement.stand_in(index),
                StandIn::Managed => self.placement.managed_stand_in(index),
            },
        }
    }

    /// The CPU whose turn it is, for items that are queued for no CPU. KERNEL: `debug_force_rr_cpu`
    /// — same.
    #[cold]
    pub(crate) fn cpu_in_turn(&self) -> Option<u32> {
        let cpus = self.usable_cpus();
        // ORDERING: no pairing: any turn will do.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        cpus.get(turn.checked_rem(cpus.len())?).copied()
    }

    /// The index of the calling thread's CPU, or of some CPU if the process does not have that one.
    #[inline]
    fn here(&self) -> usize {
        let cpu = sense::sched::current_cpu().unwrap_or(0);
        self.machine.index_of(cpu).unwrap_or_else(|| cpu as usize % self.machine.cpus.len())
    }

    /// KERNEL: `queue_work_on` warns of a CPU that cannot be — same, and takes the current one.
    #[cold]
    fn here_instead_of(&self, cpu: u32) -> usize {
        notice::once(Notice::Cpu, || {
            format!(
                "items were queued for CPU {cpu}, which this process does not have; the current \
                 one is taken"
            )
        });
        self.here()
    }

    /// The pool behind a slot of queues with default attributes.
    #[cfg(all(test, cmwq_shuttle))]
    pub(crate) fn pool_for(&'static self, spec: Spec, slot: usize) -> &'static Pool {
        let key = self.key_for(spec, spec.default_priority(), slot);
        self.pool_by_key(key).expect("pools of a machine are fewer than there may be").pool
    }

    /// The key of a per-CPU or managed pool, or of an unbound one of default attributes.
    pub(crate) fn key_for(&self, spec: Spec, priority: Priority, slot: usize) -> PoolKey {
        match spec.kind.pool() {
            kind @ (place::PoolKind::Percpu | place::PoolKind::Bh | place::PoolKind::Managed) => {
                PoolKey { kind, priority, cpus: PoolCpus::Slot(slot) }
            }
            place::PoolKind::Unbound => {
                let attrs = Attrs { nice: priority.nice, sched: priority.sched, ..Attrs::new() };
                self.layout(spec.kind, &attrs).key(self.machine.cpus[slot])
            }
        }
    }

    /// The pool with this key, made on first use with its first worker. `None`: there are too many.
    pub(crate) fn pool_by_key(&'static self, key: PoolKey) -> Option<Found> {
        let mut registry = lock(&self.registry);
        if let Some((_, pool)) = registry.pools.iter().find(|(known, _)| *known == key) {
            return Some(Found::now(pool));
        }
        if let Some(pool) = self.renew_one(&mut registry, &key) {
            let found = Found::now(pool);
            drop(registry);
            pool.begin(pool.lock(LockFor::Counts));
            return Some(found);
        }
        if !self.has_room_for(&registry, &key) {
            drop(registry);
            notice::once(Notice::Pools, || {
                let count = self.pools.iter().count();
                format!(
                    "there are {count} worker pools, and there may be no more: items of queues \
                     that need others are run by workers with other attributes"
                )
            });
            return None;
        }
        let spec = self.pool_spec(&key);
        let pod = match key.cpus {
            PoolCpus::Slot(index) if key.kind == place::PoolKind::Managed => {
                registry.board(self, key.priority).map(|board| Pod { board, number: index })
            }
            _ => None,
        };
        let pool = self.pools.push(|id| Pool::new(id, spec, pod, self));
        if let Some(Pod { board, number }) = pod {
            let helps = || pool.may_help();
            debug_assert_eq!(pool.is_spare(), helps(), "the board has those that are not made");
            board.add(number, pool);
        }
        let found = Found::now(pool);
        registry.pools.push((key, pool));
        let is_closing = registry.is_closing;
        drop(registry);
        if is_closing {
            pool.close();
        }
        if matches!(pool.kind, PoolKind::Bh(_)) {
            self.bh.cover(pool);
        }
        pool.begin(pool.lock(LockFor::Counts));
        Some(found)
    }

    /// A pool of this kind whose workers have other attributes, for a queue that has no pool yet,
    /// and can have none of its own: of the same CPU, where that is what a slot is for.
    #[cold]
    pub(crate) fn pool_instead(&self, key: &PoolKey) -> Option<Found> {
        lock(&self.registry).instead_of(key).map(Found::now)
    }

    /// Whether another pool may be made. The last places are for those that no other can stand in
    /// for: the first of each slot, and the first unbound one.
    fn has_room_for(&self, registry: &Registry, key: &PoolKey) -> bool {
        // Per-CPU, BH and managed ones.
        const KINDS_WITH_SLOTS: usize = 3;
        let kept = match registry.instead_of(key) {
            Some(_) => KINDS_WITH_SLOTS * self.machine.cpus.len() + 1,
            None => 0,
        };
        self.pools.room() > kept
    }

    /// Gives this key to a vacant pool. Tried before a new pool is made, so that there are as many
    /// pools as were ever needed at the same time. In a library that is shut down no pool is
    /// vacant.
    fn renew_one(&self, registry: &mut Registry, key: &PoolKey) -> Option<&'static Pool> {
        if !key.kind.is_renewed() {
            return None;
        }
        let vacant = registry.pools.iter_mut().filter(|(_, pool)| pool.is_vacant());
        let mut renewed = vacant.filter(|(_, pool)| pool.renew(self.pool_spec(key)));
        let (known, pool) = renewed.next()?;
        *known = key.clone();
        Some(pool)
    }

    fn pool_spec(&self, key: &PoolKey) -> PoolSpec {
        let (machine, now) = (&self.machine, self.placement.now());
        let priority = key.priority;
        let at = |kind, cpus: &CpuSet| PoolSpec {
            kind,
            priority,
            node: now.node_of(cpus),
            pod: cpus.clone(),
            is_strict: false,
            cpus: cpus.clone(),
        };
        let slot = match &key.cpus {
            PoolCpus::Pod { pod, cpus, strict } => {
                let unbound = at(PoolKind::Unbound, pod);
                return PoolSpec { cpus: cpus.clone(), is_strict: *strict, ..unbound };
            }
            PoolCpus::Slot(slot) => *slot,
        };
        let of_cpu = |kind: fn(u32) -> PoolKind| {
            let cpu = machine.cpus[slot];
            at(kind(cpu), &CpuSet::single(cpu))
        };
        match key.kind {
            place::PoolKind::Managed if machine.managed_pods.len() == 1 => {
                // What others are told of it.
                let node = now.node_of(&machine.managed_pods[0].cpus);
                PoolSpec { node, ..at(PoolKind::Managed, &now.managed) }
            }
            place::PoolKind::Managed => at(PoolKind::Managed, &machine.managed_pods[slot].cpus),
            place::PoolKind::Bh => of_cpu(PoolKind::Bh),
            place::PoolKind::Percpu => of_cpu(PoolKind::Cpu),
            place::PoolKind::Unbound => unreachable!("its CPUs are a pod's"),
        }
    }

    /// The CPU whose items use this slot, if it is only one.
    pub(crate) fn cpu_of_slot(&self, kind: Kind, slot: usize) -> Option<u32> {
        match kind {
            Kind::Percpu | Kind::Bh | Kind::Unbound => self.machine.cpus.get(slot).copied(),
            Kind::Managed => {
                let cpus = &self.machine.managed_pods.get(slot)?.cpus;
                cpus.first().filter(|_| cpus.count() == 1)
            }
            Kind::Ordered => None,
        }
    }

    /// A CPU of a node that queues of this kind may use: the caller's, or else the node's first.
    /// `None`: there is none.
    pub(crate) fn cpu_of_node(&self, kind: Kind, node: u32) -> Option<u32> {
        let here = sense::sched::current_cpu();
        let now = self.placement.now();
        let is_there = |cpu: &u32| now.node_of(&CpuSet::single(*cpu)) == Some(node);
        place::cpu_of_node(here, now.cpus_of_nodes(kind).iter().filter(is_there))
    }

    /// The CPUs that items may run on.
    pub(crate) fn usable_cpus(&self) -> Vec<u32> {
        self.placement.now().allowed.iter().collect()
    }

    /// Whether queues without attributes of their own may lead to this unbound pool.
    pub(crate) fn is_usual(&self, pool: &Pool) -> bool {
        let spec = pool.spec();
        let priority = spec.priority;
        let has_default_priority = priority.is_base() || priority == Priority::HIGH;
        self.placement.now().attrs_of(&spec, has_default_priority).are_usual()
    }

    /// The first id that no pool has.
    pub(crate) fn end_of_pools(&self) -> u32 {
        self.pools.end()
    }

    // ---- workqueues

    /// Registers a queue.
    ///
    /// # Errors
    /// If the runtime was shut down.
    pub(crate) fn new_wq(&'static self, name: &str, spec: Spec) -> Result<Arc<Wq>, Error> {
        let mut registry = lock(&self.registry);
        // ORDERING: no pairing: see `close_down`.
        if self.is_shut.load(Ordering::Relaxed) {
            return Err(Error::unavailable(format!(
                "workqueue '{name}' cannot be made: the process has shut the library down"
            )));
        }
        Ok(self.register(&mut registry, name, spec))
    }

    /// Registers the queue that a child has in the place of its parent's. After a shutdown it is
    /// shut, as all others are.
    pub(crate) fn new_successor(&'static self, name: &str, spec: Spec) -> Arc<Wq> {
        let mut registry = lock(&self.registry);
        let wq = self.register(&mut registry, name, spec);
        // ORDERING: no pairing: see `close_down`.
        if self.is_shut.load(Ordering::Relaxed) {
            wq.close(Closed::SHUT);
        }
        wq
    }

    /// Whether a shutdown has begun. If not, it finds all that the caller's queues had before this
    /// call.
    pub(crate) fn has_begun_to_shut(&self) -> bool {
        // Who shuts it down sets this before he takes the lock, under which he finds the queues.
        let _registry = lock(&self.registry);
        // ORDERING: no pairing: see above.
        self.is_shut.load(Ordering::Relaxed)
    }

    pub(crate) fn register(
        &'static self,
        registry: &mut Registry,
        name: &str,
        spec: Spec,
    ) -> Arc<Wq> {
        let key = registry.free_keys.pop().unwrap_or_else(|| {
            registry.wqs.push(None);
            u32::try_from(registry.wqs.len() - 1).expect("more than 2^32 workqueues")
        });
        let wq = Arc::new(Wq::new(WqKey(key), name, spec, self));
        registry.wqs[key as usize] = Some(Arc::clone(&wq));
        self.record_count(registry);
        wq
    }

    fn record_count(&self, registry: &Registry) {
        let count = registry.wqs.len() - registry.free_keys.len();
        // ORDERING: no pairing: a count.
        self.inspect.header(|header| header.nr_queues.store(count as u64, Ordering::Relaxed));
    }

    pub(crate) fn forget_wq(&self, key: WqKey) {
        let mut registry = lock(&self.registry);
        let wq = registry.wqs[key.0 as usize].take();
        trace::forget_queue(key);
        registry.free_keys.push(key.0);
        self.record_count(&registry);
        let all_gone = if registry.has_queues() { None } else { registry.all_gone.take() };
        drop(registry);
        drop(wq);
        if let Some(all_gone) = all_gone {
            all_gone.set();
        }
    }

    /// All queues, as of now.
    pub(crate) fn wqs(&self) -> Vec<Arc<Wq>> {
        lock(&self.registry).wqs.iter().flatten().cloned().collect()
    }

    pub(crate) fn wq(&self, key: WqKey) -> Option<Arc<Wq>> {
        lock(&self.registry).wqs.get(key.0 as usize)?.clone()
    }

    pub(crate) fn wq_name(&self, key: WqKey) -> Option<String> {
        self.wq(key).map(|wq| wq.name.to_string())
    }

    // ---- tests

    /// What tests want of thread creation: that it hangs, or fails.
    #[cfg(test)]
    pub(crate) fn fault_threads(&self) -> io::Result<()> {
        let hang = lock(&self.hang).clone();
        if let Some(hang) = hang {
            hang.begun.set();
            hang.end.wait(None);
        }
        // ORDERING: no pairing: a switch of tests.
        if self.no_threads.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }

    /// From now on who creates a thread hangs, until that ends.
    #[cfg(test)]
    #[allow(dead_code, reason = "no loom model uses it")]
    pub(crate) fn set_fault_threads_hang(&self) -> Arc<Hang> {
        let hang = Arc::new(Hang { begun: Event::new(), end: Event::new() });
        *lock(&self.hang) = Some(Arc::clone(&hang));
        hang
    }

    #[cfg(test)]
    pub(crate) fn set_fault_no_threads(&self, fail: bool) {
        self.no_threads.store(fail, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("detect", &self.detect)
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}
