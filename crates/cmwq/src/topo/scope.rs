//! Affinity scopes, and the pods into which they group CPUs.
//!
//! *Owns* nothing: pods are computed from a [`Topology`].
//!
//! *Kernel*: "Affinity Scopes" in `Documentation/core-api/workqueue.rst`. Differs: pods are built
//! over the CPUs that this process may use instead of all possible ones, so the cores of a cache
//! are counted among those.

use core::error::Error;
use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

use super::cpuset::CpuSet;
use super::topology::{Cpu, Topology};

/// How far apart the CPUs may be that serve the work of one unbound workqueue pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AffinityScope {
    /// Each CPU by itself.
    Cpu,
    /// The SMT siblings of one core.
    Smt,
    /// The CPUs that share a last-level cache.
    Cache,
    /// A part of the CPUs that share a last-level cache: whole cores, by default about 8 of them.
    CacheShard,
    /// The CPUs of a NUMA node.
    Numa,
    /// All CPUs.
    System,
}

impl AffinityScope {
    /// Every scope, from the narrowest to the widest.
    pub const ALL: [Self; 6] =
        [Self::Cpu, Self::Smt, Self::Cache, Self::CacheShard, Self::Numa, Self::System];

    /// The scope's name, as in `default_affinity_scope=cache`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Smt => "smt",
            Self::Cache => "cache",
            Self::CacheShard => "cache_shard",
            Self::Numa => "numa",
            Self::System => "system",
        }
    }

    /// Reads a workqueue's setting: the name of a scope, or `default` (returned as `None`) for
    /// whatever the default scope is at the time.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse_setting(name: &str) -> Result<Option<Self>, ParseScopeError> {
        if name.trim().eq_ignore_ascii_case("default") {
            return Ok(None);
        }
        name.parse().map(Some)
    }
}

impl fmt::Display for AffinityScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads the name of a definite scope. `default` is none; see [`AffinityScope::parse_setting`].
impl FromStr for AffinityScope {
    type Err = ParseScopeError;

    fn from_str(name: &str) -> Result<Self, ParseScopeError> {
        let wanted = name.trim();
        let found = Self::ALL.into_iter().find(|scope| scope.name().eq_ignore_ascii_case(wanted));
        found.ok_or_else(|| ParseScopeError { name: wanted.to_owned() })
    }
}

/// A text that does not name an affinity scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseScopeError {
    name: String,
}

impl fmt::Display for ParseScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(f, "{name:?} is not an affinity scope here; write one of:")?;
        AffinityScope::ALL.iter().try_for_each(|scope| write!(f, " {scope}"))
    }
}

impl Error for ParseScopeError {}

/// The CPUs that one unbound pool serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    /// Its CPUs, never none.
    pub(crate) cpus: CpuSet,
    /// The NUMA node that holds all of them, if one does.
    pub(crate) node: Option<u32>,
}

/// Groups the CPUs of `topology` into pods, ordered by their lowest CPU.
///
/// `shard_size` is the number of cores that a [`AffinityScope::CacheShard`] pod should have; 0 is
/// taken for 1.
pub(crate) fn pods(scope: AffinityScope, topology: &Topology, shard_size: u32) -> Vec<Pod> {
    let cpus = topology.cpus();
    match scope {
        AffinityScope::Cpu => group(cpus, |cpu| cpu.id),
        AffinityScope::Smt => group(cpus, |cpu| cpu.core),
        AffinityScope::Cache => group(cpus, |cpu| cpu.llc),
        AffinityScope::CacheShard => {
            let shards = shard_leaders(cpus, shard_size);
            // Siblings follow their core's leader, so they are never split.
            group(cpus, |cpu| shards.get(&cpu.core).copied())
        }
        AffinityScope::Numa => group(cpus, |cpu| cpu.node),
        AffinityScope::System => group(cpus, |_| ()),
    }
}

/// Puts CPUs with equal keys together.
fn group<K: PartialEq>(cpus: &[Cpu], key: impl Fn(&Cpu) -> K) -> Vec<Pod> {
    let mut pods: Vec<(K, Pod)> = Vec::new();
    for cpu in cpus {
        let key = key(cpu);
        match pods.iter_mut().find(|(k, _)| *k == key) {
            Some((_, pod)) => {
                pod.cpus.insert(cpu.id);
                pod.node = pod.node.filter(|node| Some(*node) == cpu.node);
            }
            None => pods.push((key, Pod { cpus: CpuSet::single(cpu.id), node: cpu.node })),
        }
    }
    pods.into_iter().map(|(_, pod)| pod).collect()
}

/// For every core: the core that leads its shard.
///
/// A cache with `n` cores has `n / shard_size` shards, rounded to nearest and at least one; the
/// cores that do not divide evenly go one each to its first shards.
fn shard_leaders(cpus: &[Cpu], shard_size: u32) -> BTreeMap<u32, u32> {
    let shard_size = shard_size.max(1) as usize;
    let mut leaders = BTreeMap::new();
    for llc in cpus.iter().filter(|cpu| cpu.id == cpu.llc) {
        let in_llc = cpus.iter().filter(|cpu| cpu.llc == llc.id && cpu.core == cpu.id);
        let cores: Vec<u32> = in_llc.map(|cpu| cpu.id).collect();
        let nr_shards = cores.len().saturating_add(shard_size / 2) / shard_size;
        let nr_shards = nr_shards.max(1);
        let (base, nr_larger) = (cores.len() / nr_shards, cores.len() % nr_shards);
        let mut rest = cores.as_slice();
        for shard in 0..nr_shards {
            let (cores, others) = rest.split_at(base + usize::from(shard < nr_larger));
            leaders.extend(cores.iter().map(|core| (*core, cores[0])));
            rest = others;
        }
    }
    leaders
}
