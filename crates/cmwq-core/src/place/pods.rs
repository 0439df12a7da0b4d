//! Affinity scopes: which CPUs form a pod, whose items one pool serves. The
//! [kind](super::QueueKind::takes_scope) of a queue says which it may have.
//!
//! KERNEL: "Affinity Scopes" in `Documentation/core-api/workqueue.rst`.

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

/// For each of `cpus`, which are in ascending order, the lowest CPU of its pod.
#[must_use]
pub fn pod_leaders(scope: Scope, cpus: &[Cpu]) -> Vec<u32> {
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
    let leader = |cpu: &Cpu| match leaders.binary_search_by_key(&cpu.core, |(core, _)| *core) {
        Ok(index) => leaders[index].1,
        // Its core's leader is not among the CPUs.
        Err(_) => cpu.id,
    };
    cpus.iter().map(leader).collect()
}
