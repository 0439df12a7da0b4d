//! Which CPUs the process has now, and which pools follow from that.
//!
//! CPUs leave (hot-unplug, a narrower cpuset) and come back while the process runs. Pools of a CPU
//! stay when it leaves: what is queued there is served by workers that may run anywhere. Unbound
//! queues are led to other pools.
//!
//! How it is noticed without waking an idle process: by a worker that finds itself on a CPU that is
//! not its own, and by the service thread when it is awake anyway. The truth is the mask of the
//! service thread, which allowed itself every CPU when it started, so that the kernel tells what
//! the cpuset leaves of that. A program that confines its other threads confines no worker.
//!
//! Locks: `changing`, outside of all others, makes changes one after another. `now` is innermost.

use cmwq_core::policy;

use super::{Machine, PoolKey, PoolPlace, Runtime};
use crate::attrs::Attrs;
use crate::detect::Detect;
use crate::error::Error;
use crate::inspect::Places;
use crate::notice::{self, Notice};
use crate::params::Params;
use crate::park::Event;
use crate::pool::{Pool, PoolKind};
use crate::sense;
use crate::sync::{Arc, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use crate::topo::{self, AffinityScope, CpuSet, Pod};
use crate::wq::Kind;

/// What holds now. Replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The CPUs that the process has; never none.
    pub(crate) allowed: CpuSet,
    /// The part of them that unbound queues use; never none.
    pub(crate) unbound: CpuSet,
    /// What unbound queues were asked to use.
    requested: Option<CpuSet>,
    /// For queues that name no scope.
    pub(crate) scope: AffinityScope,
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct Placement {
    changing: Mutex<()>,
    now: Mutex<Arc<Placed>>,
    /// For each CPU index that of a CPU that is here: itself, or one that stands for it.
    homes: Box<[AtomicUsize]>,
    /// The thread whose mask tells the truth; 0 if it may not set it.
    witness: AtomicU32,
    /// It has set it.
    is_witnessed: Event,
    /// CPUs that the administrator keeps free of unbound work.
    isolated: CpuSet,
    shard_size: u32,
}

/// The pools to which the slots of one unbound or ordered queue lead.
#[derive(Debug)]
pub(crate) struct Layout {
    kind: Kind,
    attrs: Attrs,
    /// All CPUs that the queue may use.
    effective: CpuSet,
    /// Which CPUs share workers, and which of these may run them: at least one.
    pods: Vec<(CpuSet, CpuSet)>,
}

/// Whether the calling thread's mask, `allowed`, is narrower than what its cpuset would allow.
pub(crate) fn confines(allowed: &CpuSet) -> bool {
    let sys = topo::SYS_ROOT.as_ref();
    let Some(present) = topo::present_cpus(sys).or_else(|| topo::possible_cpus(sys)) else {
        return false;
    };
    if topo::online_cpus(sys).is_some_and(|online| online.is_subset(allowed)) {
        return false;
    }
    // Asked by a thread that ends at once: the caller's own mask must stay what it is, down to
    // whether it was ever set.
    let asker = std::thread::Builder::new().name("cmwq/probe".into()).spawn(move || {
        sense::sched::pin_current(&present).ok()?;
        topo::affinity_of(0).ok()
    });
    let widest = asker.ok().and_then(|asker| asker.join().ok().flatten());
    widest.is_some_and(|widest| !widest.is_subset(allowed))
}

impl Placement {
    pub(super) fn new(machine: &Machine, params: &Params) -> Self {
        let isolated = if cfg!(any(loom, shuttle)) {
            CpuSet::new()
        } else {
            topo::isolated_cpus(topo::SYS_ROOT.as_ref())
        };
        let requested = params.unbound_cpus.clone().filter(|cpus| leaves_some(cpus, machine));
        let unbound = unbound_of(&machine.allowed, requested.as_ref(), &isolated);
        let placement = Self {
            changing: Mutex::new(()),
            now: Mutex::new(Arc::new(Placed {
                allowed: machine.allowed.clone(),
                unbound,
                requested,
                scope: params.default_affinity_scope,
            })),
            homes: machine.cpus.iter().map(|_| AtomicUsize::new(0)).collect(),
            witness: AtomicU32::new(0),
            is_witnessed: Event::new(),
            isolated,
            shard_size: params.cache_shard_size,
        };
        placement.set_homes(machine, &machine.allowed);
        placement
    }

    pub(crate) fn now(&self) -> Arc<Placed> {
        Arc::clone(&lock(&self.now))
    }

    /// Called by the service thread when it starts: from now on its mask tells what the process
    /// has.
    pub(crate) fn bear_witness(&self, machine: &Machine) {
        let widest = machine.cpus.iter().copied().collect();
        if sense::sched::pin_current(&widest).is_ok() {
            let tid = sense::sched::gettid().unsigned_abs();
            // ORDERING: ordered by `is_witnessed`.
            self.witness.store(tid, Ordering::Relaxed);
        }
        self.is_witnessed.set();
    }

    /// The CPUs that unbound queues were asked to use, if anybody asked.
    pub(crate) fn requested(&self) -> Option<CpuSet> {
        self.now().requested.clone()
    }

    /// The CPUs that the administrator keeps free of unbound work.
    pub(crate) fn isolated(&self) -> &CpuSet {
        &self.isolated
    }

    // ORDERING (homes): no pairing: where an item goes while a CPU comes or leaves is anybody's
    // guess, and either pool serves it.

    #[inline]
    pub(crate) fn home(&self, index: usize) -> usize {
        self.homes[index].load(Ordering::Relaxed)
    }

    /// Whether the CPU with this index is here.
    pub(crate) fn is_home(&self, index: usize) -> bool {
        self.home(index) == index
    }

    fn set_homes(&self, machine: &Machine, allowed: &CpuSet) {
        let is_here = |index: usize| allowed.contains(machine.cpus[index]);
        let here: Vec<usize> = (0..machine.cpus.len()).filter(|&index| is_here(index)).collect();
        for (index, home) in self.homes.iter().enumerate() {
            // CPUs that are gone are spread over those that are left.
            let to = if is_here(index) {
                Some(index)
            } else {
                here.get(index % here.len().max(1)).copied()
            };
            home.store(to.unwrap_or(index), Ordering::Relaxed);
        }
    }
}

/// KERNEL: `unbound_cpus` that leave no CPU are ignored with a warning — same.
fn leaves_some(cpus: &CpuSet, machine: &Machine) -> bool {
    let leaves = cpus.intersects(&machine.allowed);
    if !leaves {
        notice::once(Notice::UnboundCpus, || {
            format!(
                "CMWQ_PARAMS: unbound_cpus={cpus} leaves none of this process's CPUs {}; it is ignored",
                machine.allowed
            )
        });
    }
    leaves
}

/// KERNEL: `wq_unbound_cpumask` — same; falls back to all if nothing is left.
fn unbound_of(allowed: &CpuSet, requested: Option<&CpuSet>, isolated: &CpuSet) -> CpuSet {
    let wanted = requested.map_or_else(|| allowed.clone(), |requested| allowed.and(requested));
    let wanted = if wanted.is_empty() { allowed.clone() } else { wanted };
    let housekeeping = wanted.and_not(isolated);
    if housekeeping.is_empty() { wanted } else { housekeeping }
}

impl Runtime {
    /// Looks which CPUs the process has, and acts on it if they are others than before. `repin`:
    /// puts the workers where they belong even if not, since one was found elsewhere.
    pub(crate) fn rescan(&'static self, repin: bool) {
        self.placement.is_witnessed.wait(None);
        // ORDERING: ordered by `is_witnessed`.
        let witness = self.placement.witness.load(Ordering::Relaxed);
        if witness == 0 {
            return;
        }
        let Ok(mask) = topo::affinity_of(witness as libc::pid_t) else { return };
        let possible: CpuSet = self.machine.cpus.iter().copied().collect();
        let mut allowed = mask.and(&possible);
        if let Some(start) =
            self.machine.start_mask.as_ref().filter(|mask| mask.intersects(&allowed))
        {
            allowed = allowed.and(start);
        }
        if !allowed.is_empty() && (repin || allowed != self.placement.now().allowed) {
            self.allow(&allowed);
        }
    }

    /// The process has these CPUs now.
    pub(crate) fn allow(&'static self, allowed: &CpuSet) {
        let _changing = lock(&self.placement.changing);
        let mut placed = Placed::clone(&self.placement.now());
        placed.allowed = allowed.clone();
        self.place(placed);
    }

    /// The scope of queues that name none. KERNEL: the parameter `default_affinity_scope` — same.
    pub(crate) fn set_default_scope(&'static self, scope: AffinityScope) {
        let _changing = lock(&self.placement.changing);
        let mut placed = Placed::clone(&self.placement.now());
        placed.scope = scope;
        self.place(placed);
    }

    /// The CPUs for unbound queues. KERNEL: `workqueue_set_unbound_cpumask` — same.
    ///
    /// # Errors
    /// If the process has none of them, or the administrator keeps all of them free.
    pub(crate) fn set_unbound_cpumask(&'static self, cpus: &CpuSet) -> Result<(), Error> {
        let _changing = lock(&self.placement.changing);
        let mut placed = Placed::clone(&self.placement.now());
        if !cpus.and_not(&self.placement.isolated).intersects(&placed.allowed) {
            return Err(Error::invalid(format!(
                "none of the CPUs {cpus} can be used for unbound work here, only {}",
                unbound_of(&placed.allowed, None, &self.placement.isolated)
            )));
        }
        placed.requested = Some(cpus.clone());
        self.place(placed);
        Ok(())
    }

    /// Makes `placed` hold. Under `changing`.
    fn place(&'static self, mut placed: Placed) {
        let isolated = &self.placement.isolated;
        placed.unbound = unbound_of(&placed.allowed, placed.requested.as_ref(), isolated);
        self.show_placed(&placed);
        let (pools, wqs) = {
            // Who makes a pool finds either what was before, and the pool is in our list, or what
            // holds now.
            let registry = lock(&self.registry);
            let before =
                std::mem::replace(&mut *lock(&self.placement.now), Arc::new(placed.clone()));
            self.placement.set_homes(&self.machine, &placed.allowed);
            for board in self.managed.iter().chain(registry.boards.iter().map(|(_, board)| *board))
            {
                self.count_unmade(board, &before.allowed, &placed.allowed);
            }
            let pools: Vec<_> = registry.pools.iter().map(|(_, pool)| *pool).collect();
            let wqs: Vec<_> = registry.wqs.iter().flatten().cloned().collect();
            (pools, wqs)
        };
        for pool in pools {
            self.place_pool(pool, &placed);
        }
        for wq in wqs {
            wq.follow_placement();
        }
    }

    /// Shows CPUs and pods as they are now.
    pub(crate) fn show_placement(&self) {
        self.show_placed(&self.placement.now());
        self.inspect.header(|header| {
            let word = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
            let detect = Detect::ALL.iter().position(|known| *known == self.detect);
            word(&header.detect, detect.unwrap_or_default() as u64);
            word(&header.hog_thresh_ns, self.hogs.thresh_ns);
            if let Some(quota) = self.machine.quota {
                word(&header.quota_milli, (quota * 1000.0) as u64);
            }
        });
    }

    fn show_placed(&self, placed: &Placed) {
        let topology = self.machine.topology.within(&placed.allowed);
        let pods = |scope| (scope, topo::pods(scope, &topology, self.placement.shard_size));
        self.inspect.place(|| Places {
            possible: self.machine.cpus.iter().copied().collect(),
            allowed: placed.allowed.clone(),
            unbound: placed.unbound.clone(),
            requested: placed.requested.clone(),
            isolated: self.placement.isolated.clone(),
            default_scope: placed.scope,
            pods: AffinityScope::ALL.map(pods).into(),
        });
    }

    /// Pods that no pool was made for yet count as having a CPU to spare if they have one.
    fn count_unmade(&self, board: &crate::pods::Pods, before: &CpuSet, after: &CpuSet) {
        if board.len() == 1 {
            return;
        }
        for (place, pod) in self.machine.managed_pods.iter().enumerate() {
            let (was, is) = (pod.cpus.intersects(before), pod.cpus.intersects(after));
            if board.get(place).is_none() && was != is {
                board.count(is);
            }
        }
    }

    /// KERNEL: `workqueue_offline_cpu`, `workqueue_online_cpu` — same for per-CPU pools. A managed
    /// pool without a CPU keeps a concurrency of 1, on other CPUs: nothing of it waits for ever, and
    /// its items do not all start at once.
    fn place_pool(&self, pool: &'static Pool, placed: &Placed) {
        let home = pool.home().and(&placed.allowed);
        let is_away = home.is_empty();
        let concurrency = match pool.spec.kind {
            // The system moves a BH context when its CPU goes.
            PoolKind::Bh(_) if is_away => return,
            PoolKind::Bh(cpu) => return self.bh.call_home(cpu),
            PoolKind::Unbound => return pool.restore(),
            PoolKind::Cpu(_) if is_away => policy::UNMANAGED,
            PoolKind::Cpu(_) => 1,
            PoolKind::Managed => {
                (home.count() as u32).min(self.machine.granted_of(&placed.allowed)).max(1)
            }
        };
        let cpus = if is_away { &placed.unbound } else { &home };
        pool.move_to(cpus, concurrency, is_away);
    }

    /// The pools of an unbound or ordered queue as things stand.
    pub(crate) fn layout(&self, kind: Kind, attrs: &Attrs) -> Layout {
        let now = self.placement.now();
        let effective = match &attrs.cpumask {
            Some(mask) if mask.intersects(&now.unbound) => mask.and(&now.unbound),
            _ => now.unbound.clone(),
        };
        let machine = &self.machine;
        let has_quota = (machine.granted_of(&now.allowed) as usize) < now.allowed.count();
        let scope = attrs.affinity_scope.unwrap_or(now.scope);
        let pods = if kind == Kind::Ordered || (has_quota && attrs.affinity_scope.is_none()) {
            vec![(effective.clone(), effective.clone())]
        } else {
            let topology = machine.topology.within(&now.allowed);
            let pods = topo::pods(scope, &topology, self.placement.shard_size);
            let usable = |pod: Pod| (pod.cpus.and(&effective), pod.cpus);
            let pods = pods.into_iter().map(usable).filter(|(usable, _)| !usable.is_empty());
            pods.map(|(usable, pod)| (pod, usable)).collect()
        };
        Layout { kind, attrs: attrs.clone(), effective, pods }
    }

    /// `(node, CPUs)` of each pod of a queue: what its limit is split by.
    pub(crate) fn spread(&self, layout: &Layout) -> Vec<(Option<u32>, u32)> {
        let node = |pod| self.machine.topology.node_of(pod);
        layout.pods.iter().map(|(_, usable)| (node(usable), usable.count() as u32)).collect()
    }

    /// As [`spread`](Self::spread), of a managed queue.
    pub(crate) fn managed_spread(&self) -> Vec<(Option<u32>, u32)> {
        let allowed = &self.placement.now().allowed;
        let pods = self.machine.managed_pods.iter();
        pods.map(|pod| (pod.node, pod.cpus.and(allowed).count() as u32)).collect()
    }

    /// Where a new thread of a pool goes that cannot go where it should.
    pub(crate) fn anywhere(&self) -> CpuSet {
        self.placement.now().allowed.clone()
    }
}

impl Layout {
    /// The key of the pool for items of the CPU with number `cpu`.
    pub(crate) fn key(&self, cpu: u32) -> PoolKey {
        let pod = self.pods.iter().find(|(pod, _)| pod.contains(cpu));
        // KERNEL: `wq_calc_pod_cpumask` — same: a CPU outside of all pods has the whole mask.
        let pod = match (self.kind, pod) {
            (Kind::Ordered, _) | (_, None) => self.effective.clone(),
            (_, Some((_, usable))) => usable.clone(),
        };
        let strict = self.attrs.affinity_strict && self.kind != Kind::Ordered;
        let cpus = if strict { pod.clone() } else { self.effective.clone() };
        let place = PoolPlace::Pod { pod, cpus, strict };
        // Ordered queues have the workers of unbound ones with the same pod.
        PoolKey { kind: Kind::Unbound, priority: self.attrs.priority(), place }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
