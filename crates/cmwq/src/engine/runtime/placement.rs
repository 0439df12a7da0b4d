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
//! Locks: `changing`, outside of all others, makes changes one after another. `now` and `shown` are
//! innermost.
//!
//! Why: docs/decisions/cpus-by-the-service-threads-mask.md

use cmwq_core::place::usable::Usable;
use cmwq_core::place::{self, Belonging, Cpus, OwnCpus, PoolAttrs, SlotCpus};

use super::helping::may_help;
use super::{Machine, PoolCpus, PoolKey, Runtime};
use crate::detect::method::Detect;
use crate::engine::pool::board::AtomicBoard;
use crate::engine::pool::{Pool, PoolKind, PoolSpec};
use crate::engine::tools::attrs::Attrs;
use crate::engine::tools::params::Params;
use crate::engine::wq::Kind;
use crate::os::error::Error;
use crate::os::notice::{self, Notice};
use crate::os::park::Event;
use crate::os::sense;
use crate::os::sync::{Arc, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock, try_lock};
use crate::os::topo::{self, AffinityScope, CpuSet};
use crate::record::Places;

mod known;
mod stand_ins;

pub(super) use known::Known;
use stand_ins::StandIns;

/// The first Linux that keeps in a thread's mask the CPUs that were off when it was set.
const KEEPS_MASKS: (u32, u32) = (6, 2);

/// What holds now. Replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpusInUse {
    /// The CPUs that the process has; never none.
    pub(crate) allowed: CpuSet,
    /// The part of them that unbound queues use; never none.
    pub(crate) unbound: CpuSet,
    /// The part of them that managed queues use unasked; never none.
    pub(crate) managed: CpuSet,
    /// What unbound queues were asked to use.
    requested: Option<CpuSet>,
    /// For queues that name no scope.
    pub(crate) scope: AffinityScope,
    /// Of all CPUs that may be ours.
    known: Arc<Known>,
    /// The pods of queues without attributes of their own.
    usual: Vec<CpuSet>,
}

/// Where the workers of a pool belong.
#[derive(Debug)]
pub(crate) struct Placed {
    /// Where they start items.
    pub(crate) bound: CpuSet,
    /// Where they may wake up from a wait in one.
    pub(crate) unbound: CpuSet,
    pub(crate) belonging: Belonging,
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct Placement {
    changing: Mutex<()>,
    now: Mutex<Arc<CpusInUse>>,
    /// What others see: what held when all pools and queues last followed it.
    shown: Mutex<Arc<CpusInUse>>,
    stand_ins: StandIns,
    /// The thread whose mask says which CPUs the process has; 0 if that may not set it.
    mask_tid: AtomicU32,
    /// That thread has set its mask.
    is_mask_set: Event,
    /// The CPUs that were on when somebody looked last, at first those of the start.
    was_on: Mutex<CpuSet>,
    shard_size: u32,
}

/// The pools to which the slots of one unbound or ordered queue lead.
#[derive(Debug)]
pub(crate) struct Layout {
    kind: Kind,
    attrs: Attrs,
    /// All CPUs that the queue may use.
    effective: CpuSet,
    /// Which of them share workers.
    pods: place::Pods,
}

/// The CPUs that the process has when it first uses the library; and the same once more if somebody
/// confines it to them (`taskset`), so that the cpuset would allow others.
///
/// One thread does not tell that: a program pins threads of its own, and one of these may come here
/// first. What whoever starts a program confines, all its threads inherit.
pub(super) fn at_start() -> (CpuSet, Option<CpuSet>) {
    let own = topo::allowed_cpus();
    if has_all(&own) {
        return (own, None);
    }
    let threads = threads();
    let allowed = allowed_to(&threads);
    let start_mask = confines(&allowed, &threads).then(|| allowed.clone());
    (allowed, start_mask)
}

fn has_all(cpus: &CpuSet) -> bool {
    topo::online_cpus(topo::SYS_ROOT.as_ref()).is_some_and(|online| online.is_subset(cpus))
}

/// The threads that there are now. The calling one alone, if procfs does not show it: then the
/// others that it shows are of another system.
fn threads() -> Vec<libc::pid_t> {
    let (own, all) = (sense::sched::gettid(), topo::threads());
    if all.contains(&own) { all } else { vec![own] }
}

/// The CPUs that any of these threads may run on, or the calling one.
fn allowed_to(threads: &[libc::pid_t]) -> CpuSet {
    // One of them may have ended.
    let masks = threads.iter().filter_map(|tid| topo::affinity_of(*tid).ok());
    masks.fold(topo::allowed_cpus(), |all, mask| all.or(&mask))
}

/// Whether the masks of these threads, which were `allowed` together a moment ago, are narrower
/// than what the cpuset would allow.
fn confines(allowed: &CpuSet, threads: &[libc::pid_t]) -> bool {
    let sys = topo::SYS_ROOT.as_ref();
    let Some(present) = topo::present_cpus(sys).or_else(|| topo::possible_cpus(sys)) else {
        return false;
    };
    if has_all(allowed) {
        return false;
    }
    // A thread that ends at once asks: the caller's own mask must not be touched.
    let widest = sense::thread::ask("cmwq/probe", move || {
        sense::sched::pin_current(&present).ok()?;
        topo::affinity_of(0).ok()
    });
    let Ok(Some(widest)) = widest else { return false };
    is_narrower(allowed, &widest, &allowed_to(threads))
}

/// Whether a mask, which was `before` and `after` the moment at which no more than `widest` could
/// be had, lacks some of that. A CPU may have come in between.
fn is_narrower(before: &CpuSet, widest: &CpuSet, after: &CpuSet) -> bool {
    !widest.is_subset(&before.or(after))
}

impl Placement {
    pub(super) fn new(machine: &Machine, params: &Params) -> Self {
        let requested = params.unbound_cpus.clone().filter(|cpus| leaves_some(cpus, machine));
        let mut now = CpusInUse {
            allowed: machine.allowed.clone(),
            unbound: usable(&machine.allowed, requested.as_ref(), &machine.known.isolated),
            managed: usable(&machine.allowed, None, &machine.known.isolated),
            requested,
            scope: params.default_affinity_scope,
            known: Arc::new(machine.known.clone()),
            usual: Vec::new(),
        };
        now.usual = now.usual_pods(machine, params.cache_shard_size);
        let now = Arc::new(now);
        Self {
            changing: Mutex::new(()),
            stand_ins: StandIns::new(machine, &now),
            shown: Mutex::new(Arc::clone(&now)),
            now: Mutex::new(now),
            mask_tid: AtomicU32::new(0),
            is_mask_set: Event::new(),
            was_on: Mutex::new(machine.known.seen().clone()),
            shard_size: params.cache_shard_size,
        }
    }

    pub(crate) fn now(&self) -> Arc<CpusInUse> {
        Arc::clone(&lock(&self.now))
    }

    /// What others see of it: what pools and queues follow already.
    pub(crate) fn shown(&self) -> Arc<CpusInUse> {
        Arc::clone(&lock(&self.shown))
    }

    /// Called by the service thread when it starts: from now on its mask tells what the process
    /// has.
    pub(crate) fn set_widest_mask(&self, machine: &Machine) {
        let widest = machine.possible();
        if !machine.is_pretended() && sense::sched::pin_current(&widest).is_ok() {
            let tid = sense::sched::gettid().unsigned_abs();
            // ORDERING: ordered by `is_mask_set`.
            self.mask_tid.store(tid, Ordering::Relaxed);
        }
        self.is_mask_set.set();
    }

    /// Called by the service thread when it ends: its number may become another's.
    pub(crate) fn forget_widest_mask(&self) {
        // ORDERING: no pairing: who looks at this moment still finds the thread.
        self.mask_tid.store(0, Ordering::Relaxed);
    }

    /// Whether a thread's mask tells which CPUs the process has.
    #[cfg(test)]
    #[allow(dead_code, reason = "no model uses it")]
    pub(crate) fn knows_widest_mask(&self) -> bool {
        // ORDERING: ordered by `is_mask_set`.
        self.mask_tid.load(Ordering::Relaxed) != 0
    }

    /// What the system leaves of that thread's mask. Linux before 6.2 left out of a mask what was
    /// off when it was set; so what has come since is added, unless somebody has confined the
    /// thread. Who was confined is known only while what was taken from him is on.
    fn mask_of(&self, tid: libc::pid_t, possible: &CpuSet) -> Option<CpuSet> {
        let mask = topo::affinity_of(tid).ok()?;
        if sense::kernel::is_from(KEEPS_MASKS) {
            return Some(mask);
        }
        let Some(on) = topo::online_cpus(topo::SYS_ROOT.as_ref()) else { return Some(mask) };
        let on = on.and(possible);
        let mut was_on = lock(&self.was_on);
        let has_come = on.and_not(&was_on).and_not(&mask);
        if has_come.is_empty() || !was_on.and(&on).is_subset(&mask) {
            *was_on = on;
            return Some(mask);
        }
        // Refused, or without effect, if the cpuset does not have the CPUs (yet): tried again at
        // the next look.
        let _ = sense::sched::pin(tid, &mask.or(&has_come));
        let mask = topo::affinity_of(tid).ok()?;
        *was_on = on.and_not(&has_come).or(&has_come.and(&mask));
        Some(mask)
    }

    /// The index of a CPU that is here: this one, or one that stands in for it.
    #[inline]
    pub(crate) fn stand_in(&self, index: usize) -> usize {
        self.stand_ins.of(index)
    }

    /// The same, of one that managed queues use unasked.
    #[inline]
    pub(crate) fn managed_stand_in(&self, index: usize) -> usize {
        self.stand_ins.managed(index)
    }

    /// Whether managed queues use the CPU with this index unasked.
    #[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
    pub(crate) fn is_managed(&self, index: usize) -> bool {
        self.managed_stand_in(index) == index
    }
}

impl CpusInUse {
    /// The CPUs that unbound queues were asked to use, if anybody asked.
    pub(crate) fn requested(&self) -> Option<&CpuSet> {
        self.requested.as_ref()
    }

    /// The CPUs that the administrator keeps free of unbound work.
    pub(crate) fn isolated(&self) -> &CpuSet {
        &self.known.isolated
    }

    /// The attributes of an unbound pool, beside those of queues that ask for none.
    pub(super) fn attrs_of(&self, spec: &PoolSpec, has_default_priority: bool) -> PoolAttrs {
        PoolAttrs {
            has_default_priority,
            is_strict: spec.is_strict,
            has_all_cpus: spec.cpus == self.unbound,
            has_default_pod: spec.pod == self.unbound || self.usual.contains(&spec.pod),
        }
    }

    fn usual_pods(&self, machine: &Machine, shard_size: u32) -> Vec<CpuSet> {
        let layout = self.layout(machine, shard_size, Kind::Unbound, &Attrs::new());
        layout.pods.iter().map(set_of).collect()
    }

    /// The pools of an unbound or ordered queue.
    fn layout(&self, machine: &Machine, shard_size: u32, kind: Kind, attrs: &Attrs) -> Layout {
        let effective = usable(&self.unbound, attrs.cpumask.as_ref(), &CpuSet::new());
        let (granted, nr_cpus) = (machine.granted_of(&self.allowed), self.allowed.count() as u32);
        let in_core = |scope: AffinityScope| scope.in_core(shard_size);
        let (named, usual) = (attrs.affinity_scope.map(in_core), in_core(self.scope));
        let scope = kind.scope(named, usual, granted, nr_cpus);
        // All that are allowed are known: so an ordered queue has one pod, and one pool.
        let here = self.known.topology.in_core_of(&self.allowed);
        let pods = place::Pods::of(scope, here, |cpu| effective.contains(cpu));
        Layout { kind, attrs: attrs.clone(), effective, pods }
    }

    /// Where the workers of a pool belong. `has_others`: it is a managed pod beside others.
    pub(crate) fn place(&self, machine: &Machine, spec: &PoolSpec, has_others: bool) -> Placed {
        let all = match spec.kind {
            PoolKind::Managed if !has_others => machine.possible(),
            _ => spec.cpus.clone(),
        };
        let own = all.and(&self.allowed);
        let nr_own =
            OwnCpus { allowed: own.count() as u32, managed: own.and(&self.managed).count() as u32 };
        let granted = machine.granted_of(&self.allowed);
        let belonging = Belonging::of(spec.kind.in_core(), has_others, nr_own, granted);
        let own = if own.is_empty() { all } else { own };
        let which = |cpus| match cpus {
            Cpus::Own => own.clone(),
            Cpus::Unbound => self.unbound.clone(),
            Cpus::Managed => self.managed.clone(),
            Cpus::Allowed => self.allowed.clone(),
        };
        let (bound, unbound) = (which(belonging.bound), which(belonging.unbound));
        Placed { bound, unbound, belonging }
    }

    /// Of which CPUs the one is that stands for its node, for queues of this kind.
    pub(super) fn cpus_of_nodes(&self, kind: Kind) -> &CpuSet {
        if kind.cpus_of_nodes() == Cpus::Managed { &self.managed } else { &self.allowed }
    }

    /// The NUMA node that holds all of `cpus`, if one does.
    pub(crate) fn node_of(&self, cpus: &CpuSet) -> Option<u32> {
        self.known.topology.node_of(cpus)
    }
}

fn set_of(cpus: &[u32]) -> CpuSet {
    cpus.iter().copied().collect()
}

/// KERNEL: `unbound_cpus` that leave no CPU are ignored with a warning — same.
fn leaves_some(cpus: &CpuSet, machine: &Machine) -> bool {
    let leaves = cpus.intersects(&machine.allowed);
    if !leaves {
        notice::once(Notice::UnboundCpus, || {
            format!(
                "CMWQ_PARAMS: unbound_cpus={cpus} leaves none of this process's CPUs {}; it is \
                 ignored",
                machine.allowed
            )
        });
    }
    leaves
}

/// The part of `allowed` to use.
fn usable(allowed: &CpuSet, requested: Option<&CpuSet>, isolated: &CpuSet) -> CpuSet {
    let known = |cpu| place::usable::Cpu {
        is_requested: requested.is_none_or(|requested| requested.contains(cpu)),
        is_isolated: isolated.contains(cpu),
    };
    let usable = Usable::of(allowed.iter().map(known));
    allowed.iter().filter(|&cpu| usable.has(known(cpu))).collect()
}

impl Runtime {
    /// Looks which CPUs the process has, and acts on it if they are others than before, or more is
    /// known of them. `repin`: puts the workers where they belong even if not, since one was found
    /// elsewhere.
    pub(crate) fn rescan(&'static self, repin: bool) {
        self.placement.is_mask_set.wait(None);
        self.rescan_with(repin, || self.see());
    }

    /// As [`Self::rescan`], by the service thread or its creator, unless somebody is changing
    /// something: he may have lost his CPU, and timers and ticks would wait with this thread.
    /// `false`: nobody has looked.
    #[must_use]
    pub(crate) fn try_rescan(&'static self, repin: bool) -> bool {
        let Some(changing) = try_lock(&self.placement.changing) else { return false };
        self.rescan_under(&changing, repin, || self.see());
        true
    }

    /// Which CPUs the process has, if the service thread's mask tells.
    fn see(&self) -> Option<CpuSet> {
        // ORDERING: ordered by `is_mask_set`.
        let tid = self.placement.mask_tid.load(Ordering::Relaxed);
        if tid == 0 {
            return None;
        }
        let possible = self.machine.possible();
        let mut allowed = self.placement.mask_of(tid as libc::pid_t, &possible)?.and(&possible);
        if let Some(start) =
            self.machine.start_mask.as_ref().filter(|mask| mask.intersects(&allowed))
        {
            allowed = allowed.and(start);
        }
        Some(allowed).filter(|allowed| !allowed.is_empty())
    }

    /// As [`Self::rescan`]; `see` says which CPUs the process has, if it can.
    pub(crate) fn rescan_with(&'static self, repin: bool, see: impl FnOnce() -> Option<CpuSet>) {
        self.rescan_under(&lock(&self.placement.changing), repin, see);
    }

    /// Under the lock: who looked before a change must not have his say after who looked later.
    fn rescan_under(
        &'static self,
        _changing: &MutexGuard<'_, ()>,
        repin: bool,
        see: impl FnOnce() -> Option<CpuSet>,
    ) {
        let Some(allowed) = see() else { return };
        let mut in_use = CpusInUse::clone(&self.placement.now());
        let known = in_use.known.renewed(&allowed);
        if !repin && allowed == in_use.allowed && known.is_none() {
            return;
        }
        in_use.allowed = allowed;
        if let Some(known) = known {
            in_use.known = Arc::new(known);
        }
        self.apply(in_use);
    }

    /// As if somebody was in the middle of a change, until it is dropped.
    #[cfg(test)]
    #[allow(dead_code, reason = "no model uses it")]
    pub(crate) fn hold_changing(&self) -> MutexGuard<'_, ()> {
        lock(&self.placement.changing)
    }

    /// The process has these CPUs now.
    #[cfg(test)]
    pub(crate) fn allow(&'static self, allowed: &CpuSet) {
        self.rescan_with(true, || Some(allowed.clone()));
    }

    /// The scope of queues that name none. KERNEL: the parameter `default_affinity_scope` — same.
    pub(crate) fn set_default_scope(&'static self, scope: AffinityScope) {
        let _changing = lock(&self.placement.changing);
        let mut in_use = CpusInUse::clone(&self.placement.now());
        in_use.scope = scope;
        self.apply(in_use);
    }

    /// The CPUs for unbound queues. KERNEL: `workqueue_set_unbound_cpumask` — same.
    ///
    /// # Errors
    /// If the process has none of them, or the administrator keeps all of them free.
    pub(crate) fn set_unbound_cpumask(&'static self, cpus: &CpuSet) -> Result<(), Error> {
        let _changing = lock(&self.placement.changing);
        let mut in_use = CpusInUse::clone(&self.placement.now());
        if !cpus.and_not(in_use.isolated()).intersects(&in_use.allowed) {
            let none = if cpus.is_empty() {
                "unbound work needs a CPU".to_owned()
            } else {
                format!("none of the CPUs {cpus} can be used for unbound work")
            };
            return Err(Error::invalid(format!(
                "{none}; here it can use {}",
                usable(&in_use.allowed, None, in_use.isolated())
            )));
        }
        in_use.requested = Some(cpus.clone());
        self.apply(in_use);
        Ok(())
    }

    /// Has all pools and queues follow `in_use`. Under `changing`.
    fn apply(&'static self, mut in_use: CpusInUse) {
        in_use.unbound = usable(&in_use.allowed, in_use.requested.as_ref(), &in_use.known.isolated);
        in_use.managed = usable(&in_use.allowed, None, &in_use.known.isolated);
        in_use.usual = in_use.usual_pods(&self.machine, self.placement.shard_size);
        let in_use = Arc::new(in_use);
        let (pools, wqs) = {
            // A thread that makes a pool meanwhile finds the old placement, and then the pool is in
            // our list, or the new one.
            let registry = lock(&self.registry);
            let before = std::mem::replace(&mut *lock(&self.placement.now), Arc::clone(&in_use));
            self.placement.stand_ins.set(&self.machine, &in_use);
            for board in self.managed.iter().chain(registry.boards.iter().map(|(_, board)| *board))
            {
                self.open_pods(board, &before.managed, &in_use.managed);
            }
            let pools: Vec<_> = registry.pools.iter().map(|(_, pool)| *pool).collect();
            let wqs: Vec<_> = registry.wqs.iter().flatten().cloned().collect();
            (pools, wqs)
        };
        for pool in &pools {
            self.move_pool(pool, &in_use);
        }
        self.sentinels.bring_back(&in_use.allowed);
        for wq in wqs {
            wq.follow_placement();
        }
        // Pools that were kept for later queues, which will use others now.
        pools.into_iter().for_each(Pool::close_if_unused);
        // Last, so that observers can rely on it.
        self.record_cpus_in_use(&in_use);
        *lock(&self.placement.shown) = in_use;
    }

    /// Records CPUs and pods in the mapping.
    pub(crate) fn record_placement(&self) {
        self.record_cpus_in_use(&self.placement.now());
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

    fn record_cpus_in_use(&self, in_use: &CpusInUse) {
        let (topology, allowed) = (&in_use.known.topology, &in_use.allowed);
        let shard_size = self.placement.shard_size;
        let pods = |scope| (scope, topo::pods_within(scope, topology, allowed, shard_size));
        self.inspect.place(|| Places {
            possible: self.machine.possible(),
            allowed: in_use.allowed.clone(),
            unbound: in_use.unbound.clone(),
            requested: in_use.requested.clone(),
            isolated: in_use.isolated().clone(),
            default_scope: in_use.scope,
            pods: AffinityScope::ALL.map(pods).into(),
        });
    }

    /// Pods may help as long as they have a CPU that managed queues use.
    fn open_pods(&self, board: &AtomicBoard, before: &CpuSet, after: &CpuSet) {
        if board.len() == 1 {
            return;
        }
        for (index, pod) in self.machine.managed_pods.iter().enumerate() {
            let [was, is] = [before, after].map(|managed| may_help(&pod.cpus, managed));
            if was != is {
                board.open(index, is);
            }
        }
    }

    /// KERNEL: `workqueue_offline_cpu`, `workqueue_online_cpu` — same for per-CPU pools.
    fn move_pool(&self, pool: &'static Pool, in_use: &CpusInUse) {
        match pool.kind {
            // The system moves a BH context when its CPU goes.
            PoolKind::Bh(cpu) if in_use.allowed.contains(cpu) => self.bh.bring_back(cpu),
            PoolKind::Bh(_) => {}
            _ => pool.follow(in_use),
        }
    }

    /// The pools of an unbound or ordered queue as things stand.
    pub(crate) fn layout(&self, kind: Kind, attrs: &Attrs) -> Layout {
        self.placement.now().layout(&self.machine, self.placement.shard_size, kind, attrs)
    }

    /// `(node, CPUs)` of each pod of a queue: what its limit is split by.
    pub(crate) fn spread(&self, layout: &Layout) -> Vec<(Option<u32>, u32)> {
        let now = self.placement.now();
        let node = |pod: &CpuSet| now.node_of(pod);
        layout.pods.iter().map(|pod| (node(&set_of(pod)), pod.len() as u32)).collect()
    }

    /// As [`spread`](Self::spread), of a managed queue.
    pub(crate) fn managed_spread(&self) -> Vec<(Option<u32>, u32)> {
        let now = self.placement.now();
        let pods = self.machine.managed_pods.iter().map(|pod| &pod.cpus);
        pods.map(|pod| (now.node_of(pod), pod.and(&now.managed).count() as u32)).collect()
    }
}

impl Layout {
    /// The key of the pool for items of the CPU with number `cpu`.
    pub(crate) fn key(&self, cpu: u32) -> PoolKey {
        let pod = self.pods.pod(cpu);
        let slot = self.kind.slot(pod.is_some(), self.attrs.affinity_strict);
        let which = |cpus| match (cpus, pod) {
            (SlotCpus::Pod, Some(pod)) if pod.len() != self.effective.count() => set_of(pod),
            _ => self.effective.clone(),
        };
        let (pod, cpus) = (which(slot.pod), which(slot.cpus));
        let cpus = PoolCpus::Pod { pod, cpus, strict: slot.is_strict };
        // Ordered queues have the workers of unbound ones with the same pod.
        PoolKey { kind: self.kind.pool(), priority: self.attrs.priority(), cpus }
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests;
