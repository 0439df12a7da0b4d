//! The process's pools, and the way from a queue's wishes to them.
//!
//! Lock: registry ([`Registry`]), outermost. There is one runtime per process; tests under a model
//! checker make their own.

use std::io;

use cmwq_core::{Kick, PoolId, WorkWord, WqKey, policy};

use crate::attrs::{Attrs, Priority};
use crate::bh::BhContexts;
use crate::clock;
use crate::closure;
use crate::crew::Crew;
use crate::detect::Detect;
use crate::error::Error;
use crate::hog::Hogs;
use crate::inspect::Inspect;
use crate::notice::{self, Notice};
use crate::params::Params;
use crate::park::Event;
use crate::pods::Pods;
use crate::pool::{Creator, Pool, PoolKind, PoolSpec};
use crate::sense::{self, policy::Policy};
use crate::sentinel::Sentinels;
use crate::service::{self, Service};
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use crate::table::PoolTable;
use crate::topo::{self, AffinityScope, CpuSet, Pod, Topology};
use crate::watchdog::Watchdog;
use crate::wq::{Kind, Queueing, Spec, Wq};

#[cfg_attr(any(loom, shuttle), path = "runtime/global_model.rs")]
mod global;
pub(crate) mod placement;
mod shutdown;
mod sysfs;

#[cfg(not(any(loom, shuttle)))]
pub(crate) use global::{leave_behind, lock_making};
use placement::Placement;

/// Nice level of high-priority workers. KERNEL: `HIGHPRI_NICE_LEVEL` — same.
pub(crate) const HIGHPRI_NICE: i32 = -20;

/// The queue that takes other queues down.
const REAPER: Spec =
    Spec { max_active: cmwq_core::consts::WQ_MAX_ACTIVE, ..Spec::of(Kind::Unbound) };

/// What the process may use, as far as that does not change; for the rest see [`placement`].
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The CPUs that may be ours now or later, ascending.
    pub(crate) cpus: Vec<u32>,
    /// Those that were at the start.
    pub(crate) allowed: CpuSet,
    /// Somebody had confined the process when it started, and not by a cpuset: its CPUs are never
    /// others than these.
    start_mask: Option<CpuSet>,
    /// What all of `cpus` share.
    topology: Topology,
    /// Index into `cpus` by CPU number.
    index: Vec<Option<usize>>,
    /// What the cgroup grants of them.
    pub(crate) quota: Option<f64>,
    /// The pods of unbound queues at the start: the default scope's.
    pub(crate) pods: Vec<Pod>,
    /// The pods of managed queues: one per CPU, or one in all under a quota.
    pub(crate) managed_pods: Vec<Pod>,
}

/// See the module header.
pub(crate) struct Runtime {
    pub(crate) params: Params,
    pub(crate) detect: Detect,
    pub(crate) machine: Machine,
    pub(crate) service: Service,
    pub(crate) sentinels: Sentinels,
    pub(crate) bh: BhContexts,
    pub(crate) hogs: Hogs,
    pub(crate) watchdog: Watchdog,
    /// What other processes may see.
    pub(crate) inspect: Inspect,
    pub(crate) crew: Crew,
    pub(crate) placement: Placement,
    /// How the process's threads are scheduled if nothing else is asked for.
    pub(crate) base_policy: Policy,
    pools: PoolTable,
    /// The managed pods of normal and of high priority.
    managed: [Pods; 2],
    registry: Mutex<Registry>,
    /// See [`freeze`](crate::freeze).
    pub(crate) is_frozen: AtomicBool,
    /// See [`shutdown`](crate::shutdown).
    is_shut: AtomicBool,
    /// Whose turn it is, with the parameter `debug_force_rr_cpu`.
    turn: AtomicUsize,
    /// Threads that could not be had.
    pub(crate) nr_creation_failures: AtomicU64,
    /// See [`metrics`](crate::metrics).
    #[cfg(all(feature = "metrics", not(any(loom, shuttle))))]
    pub(crate) totals: Mutex<crate::metrics::Totals>,
    /// Tests make thread creation fail.
    #[cfg(test)]
    no_threads: AtomicBool,
}

/// Lock: registry.
#[derive(Debug, Default)]
struct Registry {
    pools: Vec<(PoolKey, &'static Pool)>,
    wqs: Vec<Option<Arc<Wq>>>,
    free_keys: Vec<u32>,
    /// The managed pods of priorities that queues were given as attributes.
    boards: Vec<(Priority, &'static Pods)>,
    /// See [`Runtime::destroy_later`].
    reaper: Option<Arc<Wq>>,
    /// Whom the end of the last queue is to be told.
    all_gone: Option<Arc<Event>>,
    /// Pools made from now on are closed.
    is_closing: bool,
}

/// What tells pools apart. KERNEL: `wqattrs_equal` — same: niceness, strictness, the pod, and the
/// whole mask only where the workers may leave the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolKey {
    kind: Kind,
    priority: Priority,
    place: PoolPlace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PoolPlace {
    /// CPU index or index of the managed pod.
    Slot(usize),
    /// Workers of `pod` that may run on `cpus`: the pod, if they are confined to it.
    Pod { pod: CpuSet, cpus: CpuSet, strict: bool },
}

impl Registry {
    /// The managed pods of a priority, if there are several.
    fn board(&mut self, runtime: &'static Runtime, priority: Priority) -> Option<&'static Pods> {
        let places = runtime.machine.managed_pods.len();
        if places == 1 {
            return None;
        }
        if priority == Priority::default() || priority == Priority::nice(HIGHPRI_NICE) {
            return Some(&runtime.managed[usize::from(priority.nice < 0)]);
        }
        if let Some((_, board)) = self.boards.iter().find(|(known, _)| *known == priority) {
            return Some(board);
        }
        let nr_spare = runtime.placement.now().allowed.count();
        let board = Box::leak(Box::new(Pods::new(places, nr_spare)));
        self.boards.push((priority, board));
        Some(board)
    }

    /// Whether there are queues, but for the reaper.
    fn has_queues(&self) -> bool {
        // Not by looking at all of them: there may be millions, and each asks this when it goes.
        let nr_queues = self.wqs.len() - self.free_keys.len();
        let is_registered = |reaper: &Arc<Wq>| {
            let known = self.wqs[reaper.key.0 as usize].as_ref();
            known.is_some_and(|known| Arc::ptr_eq(known, reaper))
        };
        nr_queues > usize::from(self.reaper.as_ref().is_some_and(is_registered))
    }
}

impl Machine {
    fn read(params: &Params) -> Self {
        let sys = topo::SYS_ROOT.as_ref();
        let allowed = topo::allowed_cpus();
        let start_mask = placement::confines(&allowed).then(|| allowed.clone());
        let possible = match &start_mask {
            Some(mask) => mask.clone(),
            None => topo::present_cpus(sys).unwrap_or_default().or(&allowed),
        };
        let topology = Topology::read(sys, &possible);
        let quota = topo::cpu_quota("/proc".as_ref(), "/".as_ref()).map(|quota| quota.cpus);
        let within = topology.within(&allowed);
        let pods = topo::pods(params.default_affinity_scope, &within, params.cache_shard_size);
        let managed = topo::pods(AffinityScope::Cpu, &topology, 1);
        let machine = Self::with(&possible, allowed, quota, pods, managed);
        Self { topology, start_mask, ..machine }
    }

    /// A machine of those CPUs, all of which may be used. `pods` also say what shares a cache.
    #[cfg(test)]
    pub(crate) fn new(
        possible: &CpuSet,
        quota: Option<f64>,
        pods: Vec<Pod>,
        managed_pods: Vec<Pod>,
    ) -> Self {
        Self::with(possible, possible.clone(), quota, pods, managed_pods)
    }

    fn with(
        possible: &CpuSet,
        allowed: CpuSet,
        quota: Option<f64>,
        mut pods: Vec<Pod>,
        mut managed_pods: Vec<Pod>,
    ) -> Self {
        let cpus: Vec<u32> = possible.iter().collect();
        let topology = Topology::of_pods(&pods);
        let granted = topo::effective_cpus(allowed.count(), quota);
        if pods.is_empty() || granted < allowed.count() {
            // A quota is for all CPUs together, so one pod has to manage it.
            pods = vec![Pod { cpus: allowed.clone(), node: None }];
            managed_pods = vec![Pod { cpus: possible.clone(), node: None }];
        }
        let last = cpus.last().map_or(0, |last| *last);
        let index = (0..=last).map(|cpu| cpus.iter().position(|c| *c == cpu)).collect();
        Self { cpus, allowed, start_mask: None, topology, index, quota, pods, managed_pods }
    }

    /// CPUs' worth of time that the process might use at the start.
    pub(crate) fn granted(&self) -> u32 {
        self.granted_of(&self.allowed)
    }

    fn granted_of(&self, cpus: &CpuSet) -> u32 {
        topo::effective_cpus(cpus.count(), self.quota) as u32
    }

    /// The index of a CPU that may be ours.
    #[inline]
    fn index_of(&self, cpu: u32) -> Option<usize> {
        self.index.get(cpu as usize).copied().flatten()
    }
}

impl Runtime {
    /// Makes a runtime and starts its service. Runtimes live for ever.
    pub(crate) fn start(
        params: Params,
        machine: Machine,
        first_pool: u32,
        inspect: Inspect,
    ) -> io::Result<&'static Self> {
        let runtime = Box::leak(Self::assemble(params, machine, first_pool, inspect));
        runtime.show_placement();
        Service::start(runtime)?;
        Ok(runtime)
    }

    /// A runtime without threads.
    pub(crate) fn assemble(
        params: Params,
        machine: Machine,
        first_pool: u32,
        inspect: Inspect,
    ) -> Box<Self> {
        let detect = params.detect.unwrap_or_else(Detect::choose);
        let placement = Placement::new(&machine, &params);
        let nr_managed = machine.managed_pods.len();
        let hogs = Hogs::new(&params);
        let cpus = machine.cpus.iter().copied().collect();
        let watchdog = Watchdog::new(&params, &cpus);
        let (sentinels, bh) = (Sentinels::new(&cpus), BhContexts::new(&cpus));
        let nr_spare = if nr_managed > 1 { machine.allowed.count() } else { nr_managed };
        Box::new(Self {
            params,
            detect,
            machine,
            service: Service::new(),
            sentinels,
            bh,
            hogs,
            watchdog,
            inspect,
            crew: Crew::new(),
            pools: PoolTable::new(first_pool),
            managed: [(); 2].map(|()| Pods::new(nr_managed, nr_spare)),
            placement,
            base_policy: Policy::of_current_thread().unwrap_or(Policy::normal(0)),
            registry: Mutex::new(Registry::default()),
            is_frozen: AtomicBool::new(false),
            is_shut: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            nr_creation_failures: AtomicU64::new(0),
            #[cfg(all(feature = "metrics", not(any(loom, shuttle))))]
            totals: Mutex::default(),
            #[cfg(test)]
            no_threads: AtomicBool::new(false),
        })
    }

    // ---- pools

    #[inline]
    pub(crate) fn pool(&'static self, id: PoolId) -> Option<&'static Pool> {
        self.pools.get(id)
    }

    pub(crate) fn pools(&'static self) -> impl Iterator<Item = &'static Pool> {
        self.pools.iter()
    }

    /// How many ways into pools a queue of this kind has.
    pub(crate) fn nr_slots(&self, kind: Kind) -> usize {
        match kind {
            Kind::Percpu | Kind::Bh | Kind::Unbound => self.machine.cpus.len(),
            Kind::Managed => self.machine.managed_pods.len(),
            Kind::Ordered => 1,
        }
    }

    /// Which of them leads to where `cpu`, or the calling thread, is.
    #[inline]
    pub(crate) fn slot(&self, kind: Kind, cpu: Option<u32>) -> usize {
        let index = match cpu {
            None => self.here(),
            Some(cpu) => self.machine.index_of(cpu).unwrap_or_else(|| self.here_instead_of(cpu)),
        };
        match kind {
            Kind::Unbound => index,
            // Who names a CPU means its pool, whether it is here or not.
            Kind::Percpu | Kind::Bh if cpu.is_some() => index,
            Kind::Percpu | Kind::Bh => self.placement.home(index),
            // A CPU that is gone has nobody of its own to manage.
            Kind::Managed if self.machine.managed_pods.len() > 1 => self.placement.home(index),
            Kind::Managed | Kind::Ordered => 0,
        }
    }

    /// The CPU whose turn it is, for items that are queued for none. KERNEL: `debug_force_rr_cpu` —
    /// same.
    #[cold]
    pub(crate) fn cpu_in_turn(&self) -> Option<u32> {
        let cpus = self.usable_cpus();
        // ORDERING: no pairing: any turn will do.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        cpus.get(turn.checked_rem(cpus.len())?).copied()
    }

    /// The index of the CPU that the calling thread is on, or of some CPU if it is not ours.
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
                "items were queued for CPU {cpu}, which this process does not have; the current one is taken"
            )
        });
        self.here()
    }

    /// The pool behind a slot of queues with default attributes.
    #[cfg(all(test, shuttle))]
    pub(crate) fn pool_for(&'static self, spec: Spec, slot: usize) -> &'static Pool {
        let key = self.key_for(spec, spec.default_priority(), slot);
        self.pool_by_key(key).expect("pools of a machine are fewer than there may be")
    }

    /// The key of a per-CPU or managed pool, or of an unbound one of default attributes.
    pub(crate) fn key_for(&self, spec: Spec, priority: Priority, slot: usize) -> PoolKey {
        match spec.kind {
            Kind::Percpu | Kind::Bh | Kind::Managed => {
                PoolKey { kind: spec.kind, priority, place: PoolPlace::Slot(slot) }
            }
            Kind::Unbound | Kind::Ordered => {
                let attrs = Attrs { nice: priority.nice, sched: priority.sched, ..Attrs::new() };
                self.layout(spec.kind, &attrs).key(self.machine.cpus[slot])
            }
        }
    }

    /// The pool with this key, made on first use with its first worker. `None`: there are too many.
    pub(crate) fn pool_by_key(&'static self, key: PoolKey) -> Option<&'static Pool> {
        let mut registry = lock(&self.registry);
        if let Some((_, pool)) = registry.pools.iter().find(|(known, _)| *known == key) {
            return Some(pool);
        }
        if self.pools.is_full() {
            return None;
        }
        let spec = self.pool_spec(&key);
        let pods = match key.place {
            PoolPlace::Slot(place) if key.kind == Kind::Managed => {
                registry.board(self, key.priority).map(|pods| (pods, place))
            }
            _ => None,
        };
        let is_online = !spec.is_away;
        let pool = self.pools.push(|id| Pool::new(id, spec, pods, self));
        if let Some((pods, place)) = pods {
            debug_assert_eq!(
                pool.is_spare(),
                is_online,
                "the board counts those that are not made"
            );
            pods.add(place, pool);
        }
        let is_bh = key.kind == Kind::Bh;
        registry.pools.push((key, pool));
        let is_closing = registry.is_closing;
        drop(registry);
        if is_closing {
            pool.close();
        } else if is_bh {
            self.bh.cover(pool);
        } else {
            pool.create_worker(Creator::Spare);
        }
        Some(pool)
    }

    fn pool_spec(&self, key: &PoolKey) -> PoolSpec {
        let (machine, now) = (&self.machine, self.placement.now());
        let priority = key.priority;
        let at = |kind, cpus: CpuSet| PoolSpec {
            kind,
            nice: priority.nice,
            priority,
            node: machine.topology.node_of(&cpus),
            pod: cpus.clone(),
            is_strict: false,
            cpus,
            concurrency: policy::UNMANAGED,
            is_away: false,
        };
        match &key.place {
            PoolPlace::Pod { pod, cpus, strict } => {
                let (node, is_strict) = (machine.topology.node_of(pod), *strict);
                PoolSpec {
                    pod: pod.clone(),
                    is_strict,
                    node,
                    ..at(PoolKind::Unbound, cpus.clone())
                }
            }
            PoolPlace::Slot(slot) if key.kind == Kind::Managed => {
                let pod = &machine.managed_pods[*slot];
                let cpus = pod.cpus.and(&now.allowed);
                let is_away = cpus.is_empty();
                let concurrency =
                    (cpus.count() as u32).min(machine.granted_of(&now.allowed)).max(1);
                let cpus = if is_away { pod.cpus.clone() } else { cpus };
                let node = pod.node;
                PoolSpec { concurrency, is_away, node, ..at(PoolKind::Managed, cpus) }
            }
            PoolPlace::Slot(slot) if key.kind == Kind::Bh => {
                let cpu = machine.cpus[*slot];
                PoolSpec { concurrency: 0, ..at(PoolKind::Bh(cpu), CpuSet::single(cpu)) }
            }
            PoolPlace::Slot(slot) => {
                let cpu = machine.cpus[*slot];
                let is_away = !now.allowed.contains(cpu);
                let concurrency = if is_away { policy::UNMANAGED } else { 1 };
                PoolSpec { concurrency, is_away, ..at(PoolKind::Cpu(cpu), CpuSet::single(cpu)) }
            }
        }
    }

    /// The CPU whose items go the way of a slot, if it is one's.
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

    /// A CPU of a node: the caller's, or the node's first. `None`: there is none.
    pub(crate) fn cpu_of_node(&self, node: u32) -> Option<u32> {
        let here = sense::sched::current_cpu();
        let pods = self.machine.managed_pods.iter().filter(|pod| pod.node == Some(node));
        let cpus = || pods.clone().flat_map(|pod| pod.cpus.iter());
        here.filter(|here| cpus().any(|cpu| cpu == *here)).or_else(|| cpus().min())
    }

    /// The CPUs that items may run on.
    pub(crate) fn usable_cpus(&self) -> Vec<u32> {
        self.placement.now().allowed.iter().collect()
    }

    /// A managed pool of another pod that has more work than it may run.
    pub(crate) fn busy_sibling(&'static self, pool: &'static Pool) -> Option<&'static Pool> {
        let (pods, place) = pool.pods?;
        let others = (1..pods.len()).map(|step| (place + step) % pods.len());
        let watched = others.filter_map(|other| pods.get(other)).filter(|other| {
            // Where items are short a guest is in the way.
            other.is_watched() && !other.has_short_items()
        });
        watched.into_iter().find(|other| {
            let guard = other.lock();
            let has_backlog = guard.core.work_waits() && guard.core.is_at_capacity();
            other.unlock(guard, Kick::None);
            has_backlog
        })
    }

    /// A CPU for an item that is better not run on that of `pool`, whose usual place that is: of a pod that is not taken, and has a CPU to spare if one
    /// has. Those of the same last-level cache come first. `turn`: which of them, if none has one to spare.
    pub(crate) fn free_sibling(&self, pool: &'static Pool, turn: usize) -> Option<u32> {
        let (pods, place) = pool.pods?;
        let others = (1..pods.len()).map(|step| (place + step) % pods.len());
        let is_free = |&other: &usize| {
            self.placement.is_home(other) && pods.get(other).is_none_or(|pool| !pool.is_taken())
        };
        let free = others.filter(is_free);
        let cache = self.cache_of(place);
        let is_near = |other: usize| self.cache_of(other) == cache;
        let (mut nr_near, mut nr_far, mut spare) = (0, 0, None);
        for other in free.clone() {
            let is_near = is_near(other);
            let is_spare = pods.get(other).is_none_or(Pool::is_spare);
            if is_spare && (is_near || spare.is_none()) {
                spare = Some(other);
            }
            if is_spare && is_near {
                break;
            }
            *(if is_near { &mut nr_near } else { &mut nr_far }) += 1;
        }
        let next = || {
            let nr = if nr_near > 0 { nr_near } else { nr_far };
            free.filter(|&other| is_near(other) == (nr_near > 0)).nth(turn.checked_rem(nr)?)
        };
        let other = spare.or_else(next);
        if other.is_none() {
            // Whether they still are taken.
            (1..pods.len()).for_each(|step| self.arm_sentinels_of((place + step) % pods.len()));
        }
        self.machine.managed_pods.get(other?)?.cpus.first()
    }

    /// The first CPU of the last-level cache of a managed pod.
    fn cache_of(&self, place: usize) -> Option<u32> {
        let cpu = self.machine.managed_pods[place].cpus.first()?;
        self.machine.topology.cpu(cpu).map(|cpu| cpu.llc)
    }

    fn arm_sentinels_of(&self, place: usize) {
        self.machine.managed_pods[place].cpus.iter().for_each(|cpu| self.sentinels.arm(cpu));
    }

    /// Work waits in `pool` at capacity: has the workers of the other pods watched, for their CPUs.
    pub(crate) fn watch_other_pods(&self, pool: &'static Pool) {
        let Some((pods, place)) = pool.pods else { return };
        let others = (1..pods.len()).map(|step| (place + step) % pods.len());
        others.filter_map(|other| pods.get(other)).for_each(Pool::watch_for_others);
    }

    /// Work waits in `pool` at capacity: calls a worker of another pod that has a CPU to spare.
    #[cold]
    pub(crate) fn ask_idle_pods(&'static self, pool: &'static Pool) {
        let Some((pods, place)) = pool.pods.filter(|(pods, _)| pods.any_spare()) else { return };
        for step in 1..pods.len() {
            let other = (place + step) % pods.len();
            if pods.get(other).is_none() && !self.placement.is_home(other) {
                continue;
            }
            let made = pods.get(other).or_else(|| {
                let place = PoolPlace::Slot(other);
                let key = PoolKey { kind: Kind::Managed, priority: pool.spec.priority, place };
                self.pool_by_key(key)
            });
            let Some(other) = made else { return };
            if !other.is_spare() {
                continue;
            }
            if other.is_taken() {
                other.call_when_idle();
            } else if other.call_to_lend() {
                return;
            }
        }
    }

    /// Whether queues without attributes of their own may lead to this unbound pool.
    pub(crate) fn is_usual(&self, pool: &Pool) -> bool {
        let priority = pool.spec.priority;
        (priority.is_base() || priority == Priority::nice(HIGHPRI_NICE))
            && pool.spec.cpus == self.placement.now().unbound
    }

    /// No thread could be had. Said once; tried again later by the service.
    pub(crate) fn creation_failed(&self, pool: &'static Pool, error: &io::Error) {
        // ORDERING: no pairing: a counter.
        self.nr_creation_failures.fetch_add(1, Ordering::Relaxed);
        service::say_creation_failed(error);
        let retry = pool.lock_only().core.create_retry_at();
        self.service.retry_at(retry.unwrap_or_else(clock::now));
    }

    /// Where the ids of its pools end.
    pub(crate) fn end_of_pools(&self) -> u32 {
        self.pools.end()
    }

    /// Whether an item was queued by a process that this one is the child of.
    pub(crate) fn is_inherited(&self, word: WorkWord) -> bool {
        word.is_pending() && word.pool().is_some_and(|pool| self.pools.is_earlier(pool))
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

    fn register(&'static self, registry: &mut Registry, name: &str, spec: Spec) -> Arc<Wq> {
        let key = registry.free_keys.pop().unwrap_or_else(|| {
            registry.wqs.push(None);
            u32::try_from(registry.wqs.len() - 1).expect("more than 2^32 workqueues")
        });
        let wq = Arc::new(Wq::new(WqKey(key), name, spec, self));
        registry.wqs[key as usize] = Some(Arc::clone(&wq));
        self.show_queues(registry);
        wq
    }

    fn show_queues(&self, registry: &Registry) {
        let count = registry.wqs.len() - registry.free_keys.len();
        // ORDERING: no pairing: a count.
        self.inspect.header(|header| header.nr_queues.store(count as u64, Ordering::Relaxed));
    }

    pub(crate) fn forget_wq(&self, key: WqKey) {
        let mut registry = lock(&self.registry);
        let wq = registry.wqs[key.0 as usize].take();
        registry.free_keys.push(key.0);
        self.show_queues(&registry);
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

    /// A retired pwq of the queue has drained.
    #[cold]
    pub(crate) fn release_retired(&self, key: WqKey) {
        if let Some(wq) = self.wq(key) {
            wq.release_retired();
        }
    }

    pub(crate) fn wq(&self, key: WqKey) -> Option<Arc<Wq>> {
        lock(&self.registry).wqs.get(key.0 as usize)?.clone()
    }

    pub(crate) fn wq_name(&self, key: WqKey) -> Option<String> {
        self.wq(key).map(|wq| wq.name.to_string())
    }

    /// Takes a queue down whose last handle was dropped by one of the workers.
    #[cold]
    pub(crate) fn destroy_later(&'static self, wq: Arc<Wq>) {
        let (item, handle) = closure::item(move || {
            wq.destroy();
            self.forget_wq(wq.key);
        });
        drop(handle);
        // SAFETY: a fresh item of a closure, which owns a reference to itself until its run.
        let queued = unsafe { self.reaper().queue_item(None, item) };
        // After a shutdown nobody takes anything down any more: the queue stays, empty, to the end of
        // the process.
        debug_assert_ne!(queued, Queueing::Not, "a fresh item was pending");
    }

    #[cold]
    pub(crate) fn flush_pwq_done(&self, key: WqKey) {
        if let Some(wq) = self.wq(key) {
            wq.flush_pwq_done();
        }
    }

    // ---- tests

    /// Whether tests want thread creation to fail.
    #[cfg(test)]
    pub(crate) fn fault_no_threads(&self) -> bool {
        // ORDERING: no pairing: a switch of tests.
        self.no_threads.load(Ordering::Relaxed)
    }

    #[cfg(all(test, any(loom, shuttle)))]
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
