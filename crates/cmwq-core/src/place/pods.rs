//! Affinity scopes: which CPUs form a pod, whose items one pool serves. The
//! [kind](super::QueueKind::takes_scope) of a queue says which it may have.
//!
//! KERNEL: "Affinity Scopes" in `Documentation/core-api/workqueue.rst`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// How far apart the CPUs of a pod may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Each CPU by itself.
    Cpu,
    /// The SMT siblings of one core.
    Smt,
    /// A part of the CPUs that share a last-level cache: whole cores, about so many of them; 0 is
    /// taken for 1.
    CacheShard(u32),
    /// The CPUs that share a last-level cache.
    Cache,
    /// The CPUs of a NUMA node.
    Numa,
    /// All CPUs.
    System,
}

/// Cores that a shard of a cache has by default. KERNEL: `wq_cache_shard_size` — same.
pub const SHARD_CORES: u32 = 8;

/// A CPU and what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// The lowest CPU of its core.
    pub core: u32,
    /// The lowest CPU that has the same last-level cache.
    pub llc: u32,
    /// Its NUMA node; `None`: no node claims it.
    pub node: Option<u32>,
}

/// The pods of an unbound or ordered queue, as the CPUs are: cut anew when one leaves or comes, or
/// when the queue may use others.
///
/// KERNEL: `init_pod_type`, `wq_calc_pod_cpumask` — differs: there pods are made once, of all
/// CPUs that there can be, and one that has gone is still in its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pods {
    /// Of each, the CPUs that the queue may use, in ascending order.
    pods: Vec<Vec<u32>>,
    /// The CPUs that are here, in ascending order, and which pod each is in.
    of_cpu: Vec<(u32, usize)>,
}

impl Pods {
    /// `here`: what is known of the CPUs that the process has, in ascending order; `is_usable`: the
    /// queue may use this one.
    #[must_use]
    pub fn of(
        scope: Scope,
        here: impl Iterator<Item = Cpu>,
        is_usable: impl Fn(u32) -> bool,
    ) -> Self {
        let here = narrowed(here.collect());
        let mut known = BTreeMap::new();
        let mut new = Self { pods: Vec::new(), of_cpu: Vec::with_capacity(here.len()) };
        for (cpu, leader) in here.iter().zip(leaders(scope, &here)) {
            let pod = *known.entry(leader).or_insert(new.pods.len());
            if pod == new.pods.len() {
                new.pods.push(Vec::new());
            }
            if is_usable(cpu.id) {
                new.pods[pod].push(cpu.id);
            }
            new.of_cpu.push((cpu.id, pod));
        }
        new
    }

    /// The CPUs of the pod of `cpu` that the queue may use, in ascending order. `None`: there are
    /// none, or `cpu` has gone; then its items have [all](super::SlotCpus::All) that the queue may
    /// use.
    #[must_use]
    pub fn pod(&self, cpu: u32) -> Option<&[u32]> {
        let at = self.of_cpu.binary_search_by_key(&cpu, |(cpu, _)| *cpu).ok()?;
        let pod = self.pods[self.of_cpu[at].1].as_slice();
        (!pod.is_empty()).then_some(pod)
    }

    /// The same of each pod that has such CPUs, in the order of the lowest CPU that is here.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.pods.iter().map(Vec::as_slice).filter(|pod| !pod.is_empty())
    }
}

/// As if there were no other CPUs: the lowest that is left of a core or cache leads it.
fn narrowed(mut cpus: Vec<Cpu>) -> Vec<Cpu> {
    let lowest = |leader: fn(&Cpu) -> u32| {
        let mut lowest = BTreeMap::new();
        cpus.iter().for_each(|cpu| _ = lowest.entry(leader(cpu)).or_insert(cpu.id));
        lowest
    };
    let (cores, caches) = (lowest(|cpu| cpu.core), lowest(|cpu| cpu.llc));
    for cpu in &mut cpus {
        (cpu.core, cpu.llc) = (cores[&cpu.core], caches[&cpu.llc]);
    }
    cpus
}

/// For each of `cpus`, which are in ascending order and [narrowed], the lowest CPU of its pod.
fn leaders(scope: Scope, cpus: &[Cpu]) -> Vec<u32> {
    match scope {
        Scope::Cpu => cpus.iter().map(|cpu| cpu.id).collect(),
        Scope::Smt => cpus.iter().map(|cpu| cpu.core).collect(),
        Scope::CacheShard(size) => shard_leaders(cpus, size),
        Scope::Cache => cpus.iter().map(|cpu| cpu.llc).collect(),
        Scope::Numa => node_leaders(cpus),
        Scope::System => cpus.iter().map(|_| cpus[0].id).collect(),
    }
}

/// CPUs that no node claims form one pod.
fn node_leaders(cpus: &[Cpu]) -> Vec<u32> {
    let mut nodes: Vec<(Option<u32>, u32)> = Vec::new();
    let leader = |cpu: &Cpu| match nodes.iter().find(|(node, _)| *node == cpu.node) {
        Some((_, leader)) => *leader,
        None => {
            nodes.push((cpu.node, cpu.id));
            cpu.id
        }
    };
    cpus.iter().map(leader).collect()
}

/// A cache with `n` cores has `n / size` shards, rounded to nearest and at least one; the cores
/// that do not divide evenly go one each to its first shards. Siblings stay together.
fn shard_leaders(cpus: &[Cpu], size: u32) -> Vec<u32> {
    let size = size.max(1) as usize;
    // By cache, then by core.
    let mut cores: Vec<(u32, u32)> =
        cpus.iter().filter(|cpu| cpu.core == cpu.id).map(|cpu| (cpu.llc, cpu.id)).collect();
    cores.sort_unstable();
    let mut leaders: Vec<(u32, u32)> = Vec::with_capacity(cores.len());
    for cache in cores.chunk_by(|one, other| one.0 == other.0) {
        let nr_shards = (cache.len().saturating_add(size / 2) / size).max(1);
        let (base, nr_larger) = (cache.len() / nr_shards, cache.len() % nr_shards);
        let mut rest = cache;
        for shard in 0..nr_shards {
            let (here, others) = rest.split_at(base + usize::from(shard < nr_larger));
            leaders.extend(here.iter().map(|(_, core)| (*core, here[0].1)));
            rest = others;
        }
    }
    leaders.sort_unstable();
    let leader = |cpu: &Cpu| {
        let index = leaders.binary_search_by_key(&cpu.core, |(core, _)| *core);
        leaders[index.expect("the lowest CPU of its core is here")].1
    };
    cpus.iter().map(leader).collect()
}
