//! Affinity scopes, and the pods into which they group CPUs.
//!
//! *Owns* nothing: pods are computed from a [`Topology`], by the rule of [`cmwq_core::place`].
//!
//! *Kernel*: "Affinity Scopes" in `Documentation/core-api/workqueue.rst`. Differs: pods are built
//! over the CPUs that this process may use instead of all possible ones, so the cores of a cache
//! are counted among those.

use core::error::Error;
use core::fmt;
use core::str::FromStr;

use cmwq_core::place::{self, Pods, Scope};

use super::cpuset::CpuSet;
use super::topology::Topology;

/// How far apart the CPUs may be that serve the work of one unbound workqueue pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
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

    /// What it is to the core. `shard_size`: cores of a shard of a cache.
    pub(crate) const fn in_core(self, shard_size: u32) -> Scope {
        match self {
            Self::Cpu => Scope::Cpu,
            Self::Smt => Scope::Smt,
            Self::Cache => Scope::Cache,
            Self::CacheShard => Scope::CacheShard(shard_size),
            Self::Numa => Scope::Numa,
            Self::System => Scope::System,
        }
    }

    /// What the core's scope is here.
    pub(crate) const fn of_core(scope: Scope) -> Self {
        match scope {
            Scope::Cpu => Self::Cpu,
            Scope::Smt => Self::Smt,
            Scope::Cache => Self::Cache,
            Scope::CacheShard(_) => Self::CacheShard,
            Scope::Numa => Self::Numa,
            Scope::System => Self::System,
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
    pods_of(scope, topology, topology.in_core(), shard_size)
}

/// The same, as if there were no other CPUs than the `allowed` ones.
pub(crate) fn pods_within(
    scope: AffinityScope,
    topology: &Topology,
    allowed: &CpuSet,
    shard_size: u32,
) -> Vec<Pod> {
    pods_of(scope, topology, topology.in_core_of(allowed), shard_size)
}

fn pods_of(
    scope: AffinityScope,
    topology: &Topology,
    here: impl Iterator<Item = place::Cpu>,
    shard_size: u32,
) -> Vec<Pod> {
    let pods = Pods::of(scope.in_core(shard_size), here, |_| true);
    let pod = |cpus: &[u32]| {
        let cpus: CpuSet = cpus.iter().copied().collect();
        Pod { node: topology.node_of(&cpus), cpus }
    };
    pods.iter().map(pod).collect()
}
