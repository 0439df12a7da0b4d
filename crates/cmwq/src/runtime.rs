//! The process's pools, and the way from a queue's wishes to them.
//!
//! Lock: registry ([`Registry`]), outermost. There is one runtime per process; tests under a model
//! checker make their own.

use std::io;

use cmwq_core::{Kick, PoolId, WqKey, policy};

use crate::clock;
use crate::closure;
use crate::crew::Crew;
use crate::detect::Detect;
use crate::limit::NodeLimits;
use crate::params::Params;
use crate::park::Event;
use crate::pods::Pods;
use crate::pool::{Creator, Pool, PoolKind, PoolSpec};
use crate::sense;
use crate::sentinel::Sentinels;
use crate::service::{self, Service};
use crate::sync::{Arc, Mutex, lock};
#[cfg(test)]
use crate::sync::{AtomicBool, Ordering};
use crate::table::PoolTable;
use crate::topo::{self, CpuSet, Pod};
use crate::wq::{Kind, Spec, Wq};

#[cfg_attr(any(loom, shuttle), path = "runtime/global_model.rs")]
mod global;
mod shutdown;

/// Nice level of high-priority workers. KERNEL: `HIGHPRI_NICE_LEVEL` — same.
pub(crate) const HIGHPRI_NICE: i32 = -20;

/// The queue that takes other queues down.
const REAPER: Spec = Spec {
    kind: Kind::Unbound,
    highpri: false,
    cpu_intensive: false,
    max_active: cmwq_core::consts::WQ_MAX_ACTIVE,
};

/// What the process may use.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// CPUs of the affinity mask, ascending.
    pub(crate) cpus: Vec<u32>,
    /// Index into `cpus` by CPU number; CPUs that are not ours map to some that are.
    index: Vec<usize>,
    /// What the cgroup grants of them.
    pub(crate) quota: Option<f64>,
    /// The pods of unbound queues: the default scope's.
    pub(crate) pods: Vec<Pod>,
    /// The pods of managed queues: one per CPU, or one in all under a quota.
    pub(crate) managed_pods: Vec<Pod>,
    /// Pod by index of the CPU.
    pod_of: Vec<usize>,
}

/// See the module header.
pub(crate) struct Runtime {
    pub(crate) params: Params,
    pub(crate) detect: Detect,
    pub(crate) machine: Machine,
    pub(crate) service: Service,
    pub(crate) sentinels: Sentinels,
    pub(crate) crew: Crew,
    pools: PoolTable,
    /// The managed pods of normal and of high priority.
    managed: [Pods; 2],
    registry: Mutex<Registry>,
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
    /// See [`Runtime::destroy_later`].
    reaper: Option<Arc<Wq>>,
    /// Whom the end of the last queue is to be told.
    all_gone: Option<Arc<Event>>,
    /// Pools made from now on are closed.
    is_closing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PoolKey {
    kind: Kind,
    /// CPU index or pod index.
    place: usize,
    nice: i32,
}

impl Registry {
    /// Whether there are queues, but for the reaper.
    fn has_queues(&self) -> bool {
        let others = |wq: &&Arc<Wq>| !self.reaper.as_ref().is_some_and(|r| Arc::ptr_eq(r, wq));
        self.wqs.iter().flatten().any(|wq| others(&wq))
    }
}

impl Machine {
    fn read(params: &Params) -> Self {
        let allowed = topo::allowed_cpus();
        let topology = topo::Topology::read(topo::SYS_ROOT.as_ref(), &allowed);
        let quota = topo::cpu_quota("/proc".as_ref(), "/".as_ref()).map(|quota| quota.cpus);
        let pods = topo::pods(params.default_affinity_scope, &topology, params.cache_shard_size);
        let managed = topo::pods(topo::AffinityScope::Cpu, &topology, 1);
        Self::new(&allowed, quota, pods, managed)
    }

    pub(crate) fn new(
        allowed: &CpuSet,
        quota: Option<f64>,
        mut pods: Vec<Pod>,
        mut managed_pods: Vec<Pod>,
    ) -> Self {
        let cpus: Vec<u32> = allowed.iter().collect();
        let granted = topo::effective_cpus(cpus.len(), quota);
        if pods.is_empty() || granted < cpus.len() {
            // A quota is for all CPUs together, so one pod has to manage it.
            pods = vec![Pod { cpus: allowed.clone(), node: None }];
            managed_pods.clone_from(&pods);
        }
        let last = cpus.last().map_or(0, |last| *last as usize);
        let index = (0..=last)
            .map(|cpu| cpus.iter().position(|c| *c as usize == cpu).unwrap_or(cpu % cpus.len()))
            .collect();
        let pod_of = cpus
            .iter()
            .map(|cpu| pods.iter().position(|pod| pod.cpus.contains(*cpu)).unwrap_or(0))
            .collect();
        Self { cpus, index, quota, pods, managed_pods, pod_of }
    }

    /// CPUs' worth of time that the process may use.
    pub(crate) fn granted(&self) -> u32 {
        topo::effective_cpus(self.cpus.len(), self.quota) as u32
    }

    #[inline]
    fn index_of(&self, cpu: Option<u32>) -> usize {
        let cpu = cpu.or_else(sense::sched::current_cpu).unwrap_or(0) as usize;
        self.index.get(cpu).copied().unwrap_or_else(|| cpu % self.cpus.len())
    }
}

impl Runtime {
    /// Makes a runtime and starts its service. Runtimes live for ever.
    pub(crate) fn start(params: Params, machine: Machine) -> io::Result<&'static Self> {
        let runtime = Box::leak(Self::assemble(params, machine));
        Service::start(runtime)?;
        Ok(runtime)
    }

    /// A runtime without threads.
    pub(crate) fn assemble(params: Params, machine: Machine) -> Box<Self> {
        let detect = params.detect.unwrap_or_else(Detect::choose);
        let nr_managed = machine.managed_pods.len();
        let sentinels = Sentinels::new(&machine.cpus.iter().copied().collect());
        Box::new(Self {
            params,
            detect,
            machine,
            service: Service::new(),
            sentinels,
            crew: Crew::new(),
            pools: PoolTable::new(),
            managed: [(); 2].map(|()| Pods::new(nr_managed)),
            registry: Mutex::new(Registry::default()),
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
            Kind::Percpu => self.machine.cpus.len(),
            Kind::Unbound => self.machine.pods.len(),
            Kind::Managed => self.machine.managed_pods.len(),
            Kind::Ordered => 1,
        }
    }

    /// Which of them leads to where `cpu`, or the calling thread, is.
    #[inline]
    pub(crate) fn slot(&self, kind: Kind, cpu: Option<u32>) -> usize {
        let index = self.machine.index_of(cpu);
        match kind {
            Kind::Percpu => index,
            Kind::Unbound => self.machine.pod_of[index],
            Kind::Managed if self.machine.managed_pods.len() > 1 => index,
            Kind::Managed => 0,
            Kind::Ordered => 0,
        }
    }

    /// The pool behind a slot, made on first use with its first worker.
    pub(crate) fn pool_for(&'static self, spec: Spec, slot: usize) -> &'static Pool {
        let nice = if spec.highpri { HIGHPRI_NICE } else { 0 };
        let key = PoolKey { kind: spec.kind, place: slot, nice };
        let mut registry = lock(&self.registry);
        if let Some((_, pool)) = registry.pools.iter().find(|(known, _)| *known == key) {
            return pool;
        }
        let spec = self.pool_spec(key);
        let pods = (key.kind == Kind::Managed && self.machine.managed_pods.len() > 1)
            .then(|| (&self.managed[usize::from(nice < 0)], key.place));
        let pool = self.pools.push(|id| Pool::new(id, spec, pods, self));
        if let Some((pods, place)) = pods {
            pods.add(place, pool);
        }
        registry.pools.push((key, pool));
        let is_closing = registry.is_closing;
        drop(registry);
        if is_closing {
            pool.close();
        } else {
            pool.create_worker(Creator::Spare);
        }
        pool
    }

    fn pool_spec(&self, key: PoolKey) -> PoolSpec {
        let machine = &self.machine;
        let everywhere = || machine.cpus.iter().copied().collect();
        let (kind, cpus, concurrency): (_, CpuSet, _) = match key.kind {
            Kind::Percpu => {
                let cpu = machine.cpus[key.place];
                (PoolKind::Cpu(cpu), CpuSet::single(cpu), 1)
            }
            Kind::Unbound => {
                (PoolKind::Unbound, machine.pods[key.place].cpus.clone(), policy::UNMANAGED)
            }
            Kind::Ordered => (PoolKind::Unbound, everywhere(), policy::UNMANAGED),
            Kind::Managed => {
                let cpus = machine.managed_pods[key.place].cpus.clone();
                let concurrency = (cpus.count() as u32).min(machine.granted()).max(1);
                (PoolKind::Managed, cpus, concurrency)
            }
        };
        PoolSpec { kind, nice: key.nice, cpus, concurrency }
    }

    /// How a queue's `max_active` is split over its slots.
    pub(crate) fn limits(&self, spec: Spec) -> NodeLimits {
        match spec.kind {
            Kind::Percpu => NodeLimits::Each(spec.max_active),
            Kind::Ordered => NodeLimits::Each(1),
            Kind::Unbound | Kind::Managed => {
                let machine = &self.machine;
                let managed = spec.kind == Kind::Managed;
                let pods = if managed { &machine.managed_pods } else { &machine.pods }.iter();
                let pods: Vec<_> = pods.map(|pod| (pod.node, pod.cpus.count() as u32)).collect();
                NodeLimits::split(spec.max_active, &pods)
            }
        }
    }

    /// A managed pool of another pod that has more work than it may run.
    pub(crate) fn busy_sibling(&'static self, pool: &'static Pool) -> Option<&'static Pool> {
        let (pods, place) = pool.pods?;
        let others = (1..pods.len()).map(|step| (place + step) % pods.len());
        let watched = others.filter_map(|other| pods.get(other)).filter(|other| other.is_watched());
        watched.into_iter().find(|other| {
            let guard = other.lock();
            let has_backlog = guard.core.work_waits() && guard.core.is_at_capacity();
            other.unlock(guard, Kick::None);
            has_backlog
        })
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
            let other = pods.get(other).unwrap_or_else(|| {
                let highpri = pool.spec.nice < 0;
                let kind = Kind::Managed;
                self.pool_for(Spec { kind, highpri, cpu_intensive: false, max_active: 1 }, other)
            });
            if other.is_spare() && other.call_to_lend() {
                return;
            }
        }
    }

    /// No thread could be had. Said once; tried again later by the service.
    pub(crate) fn creation_failed(&self, pool: &'static Pool, error: &io::Error) {
        service::say_creation_failed(error);
        let retry = pool.lock_only().core.create_retry_at();
        self.service.retry_at(retry.unwrap_or_else(clock::now));
    }

    // ---- workqueues

    /// Registers a queue.
    pub(crate) fn new_wq(&'static self, name: &str, spec: Spec) -> Arc<Wq> {
        self.register(&mut lock(&self.registry), name, spec)
    }

    fn register(&'static self, registry: &mut Registry, name: &str, spec: Spec) -> Arc<Wq> {
        let key = registry.free_keys.pop().unwrap_or_else(|| {
            registry.wqs.push(None);
            u32::try_from(registry.wqs.len() - 1).expect("more than 2^32 workqueues")
        });
        let wq = Arc::new(Wq::new(WqKey(key), name, spec, self));
        registry.wqs[key as usize] = Some(Arc::clone(&wq));
        wq
    }

    pub(crate) fn forget_wq(&self, key: WqKey) {
        let mut registry = lock(&self.registry);
        let wq = registry.wqs[key.0 as usize].take();
        registry.free_keys.push(key.0);
        let all_gone = if registry.has_queues() { None } else { registry.all_gone.take() };
        drop(registry);
        drop(wq);
        if let Some(all_gone) = all_gone {
            all_gone.set();
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
        debug_assert!(queued, "a fresh item was pending");
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

    #[cfg(all(test, shuttle))]
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
