//! Virtual topologies: nodes, caches, cores and threads, and the pods into which each affinity
//! scope groups the CPUs.
//!
//! CPUs are numbered through from node to node, cache to cache, core to core, so every pod is a
//! range. Real machines number otherwise; a scheduler that only ever asks which CPUs form a pod
//! does not notice.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use cmwq_core::place::{self, Pods, QueueKind, SHARD_CORES};

use crate::names::named;
use crate::parse_error::ParseError;
use crate::scenario::MAX_CPUS;

named! {
    /// How far apart the CPUs may be that one pool of an unbound queue serves (`wq_affn_scope`),
    /// from the narrowest to the widest, with the kernel's names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Scope: "scope" {
        /// Each CPU by itself.
        Cpu = "cpu",
        /// The threads of a core.
        Smt = "smt",
        /// A part of the cores that share a last-level cache: about [`SHARD_CORES`] of them.
        CacheShard = "cache_shard",
        /// The CPUs that share a last-level cache.
        Cache = "cache",
        /// The CPUs of a NUMA node.
        Numa = "numa",
        /// All CPUs.
        System = "system",
    }
}

impl Scope {
    /// That of queues of a kind which name none.
    #[must_use]
    pub const fn usual(kind: QueueKind) -> Self {
        Self::of_core(kind.default_scope())
    }

    /// What the core's scope is here.
    pub(crate) const fn of_core(scope: place::Scope) -> Self {
        match scope {
            place::Scope::Cpu => Self::Cpu,
            place::Scope::Smt => Self::Smt,
            place::Scope::CacheShard(_) => Self::CacheShard,
            place::Scope::Cache => Self::Cache,
            place::Scope::Numa => Self::Numa,
            place::Scope::System => Self::System,
        }
    }

    /// What it is to the core.
    pub(crate) const fn in_core(self) -> place::Scope {
        match self {
            Self::Cpu => place::Scope::Cpu,
            Self::Smt => place::Scope::Smt,
            Self::CacheShard => place::Scope::CacheShard(SHARD_CORES),
            Self::Cache => place::Scope::Cache,
            Self::Numa => place::Scope::Numa,
            Self::System => place::Scope::System,
        }
    }
}

/// What a virtual machine is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// So many nodes, caches per node, cores per cache, threads per core.
    Regular([u32; 4]),
    /// So many single-threaded CPUs, CPUs per cache, and caches per node; the last ones may be
    /// smaller.
    Pods {
        /// CPUs.
        cpus: u32,
        /// CPUs that share a cache.
        pod_cpus: u32,
        /// Caches of a node.
        node_pods: u32,
    },
    /// Four fast and four slow cores, with a cache each.
    BigLittle,
}

impl Shape {
    /// Machines with names, and what they are.
    pub const NAMED: [(Self, &'static str, &'static str); 4] = [
        (Self::Regular([1, 1, 1, 1]), "single", "one CPU"),
        (Self::Regular([1, 4, 3, 2]), "amd-12", "12 cores with 2 threads, 3 cores per L3"),
        (Self::Regular([2, 1, 32, 2]), "server-2s", "2 sockets, 32 cores each, 2 threads"),
        (Self::BigLittle, "big-little", "4 fast cores and 4 that take 2.5 times as long"),
    ];

    /// A large machine of `cpus` CPUs or somewhat fewer: nodes of up to 512 CPUs, 16 CPUs per
    /// cache, two threads per core, as far as the number allows.
    #[must_use]
    pub fn large(cpus: u32) -> Self {
        let threads = if cpus >= 8 { 2 } else { 1 };
        let all_cores = cpus / threads;
        // Evenly, if a cache need not become too small for that.
        let even = (4..=8).rev().find(|cores| all_cores.is_multiple_of(*cores));
        let cores = even.unwrap_or(all_cores.clamp(1, 8));
        let caches = (all_cores / cores).max(1);
        let nodes = (1..=caches).find(|n| caches.is_multiple_of(*n) && caches / n <= 32);
        let nodes = nodes.unwrap_or(1);
        Self::Regular([nodes, caches / nodes, cores, threads])
    }

    /// CPUs of the machine.
    #[must_use]
    pub const fn cpus(self) -> u32 {
        match self {
            Self::Regular([nodes, caches, cores, threads]) => nodes * caches * cores * threads,
            Self::Pods { cpus, .. } => cpus,
            Self::BigLittle => 8,
        }
    }

    /// How much longer `cpu` takes than the fastest, in hundredths.
    #[must_use]
    pub const fn slowness(self, cpu: u32) -> u64 {
        if matches!(self, Self::BigLittle) && cpu >= 4 { 250 } else { 100 }
    }

    /// The pods of a scope while all CPUs are online, in the order of their CPUs.
    #[must_use]
    pub fn pods(self, scope: Scope) -> Vec<Range<u32>> {
        let pods = Pods::of(scope.in_core(), self.all_cpus(), |_| true);
        // CPUs are numbered through, so pods are ranges.
        let range = |pod: &[u32]| pod[0]..pod[0] + pod.len() as u32;
        pods.iter().map(range).collect()
    }

    /// What each CPU belongs to.
    pub(crate) fn all_cpus(self) -> impl Iterator<Item = place::Cpu> {
        let cpus = self.cpus();
        let (thread, cache, node) = match self {
            Self::Regular([_, caches, cores, threads]) => {
                (threads, cores * threads, caches * cores * threads)
            }
            Self::Pods { pod_cpus, node_pods, .. } => {
                let pod_cpus = pod_cpus.clamp(1, cpus);
                (1, pod_cpus, pod_cpus.saturating_mul(node_pods.max(1)))
            }
            Self::BigLittle => (1, 4, 8),
        };
        let cpu = move |id| place::Cpu {
            id,
            core: id - id % thread,
            llc: id - id % cache,
            node: Some(id / node),
        };
        (0..cpus).map(cpu)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Regular([nodes, caches, cores, threads]) => {
                write!(f, "{nodes}x{caches}x{cores}x{threads}")
            }
            Self::Pods { cpus, pod_cpus, node_pods } => {
                write!(f, "{cpus} CPUs, {pod_cpus} per cache, {node_pods} caches per node")
            }
            Self::BigLittle => f.write_str("big-little"),
        }
    }
}

impl FromStr for Shape {
    type Err = ParseError;

    /// A name, or `NODESxCORESxTHREADS`, or `NODESxCACHESxCORESxTHREADS`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Some((shape, ..)) = Self::NAMED.iter().find(|(_, name, _)| *name == text) {
            return Ok(*shape);
        }
        let numbers: Result<Vec<u32>, _> = text.split('x').map(str::parse).collect();
        let shape = match numbers.as_deref() {
            Ok(&[nodes, cores, threads]) => [nodes, 1, cores, threads],
            Ok(&[nodes, caches, cores, threads]) => [nodes, caches, cores, threads],
            _ => {
                let names: Vec<_> = Self::NAMED.iter().map(|(_, name, _)| *name).collect();
                return Err(ParseError::new(format!(
                    "'{text}' is no topology: write NODESxCORESxTHREADS as in 2x32x2, \
                     NODESxCACHESxCORESxTHREADS as in 1x4x3x2, or {}",
                    names.join(", ")
                )));
            }
        };
        let cpus = shape.iter().try_fold(1_u32, |cpus, &n| cpus.checked_mul(n));
        match cpus {
            Some(1..=MAX_CPUS) => Ok(Self::Regular(shape)),
            _ => Err(ParseError::new(format!("'{text}' must have 1 to {MAX_CPUS} CPUs"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(shape: &str, scope: Scope) -> Vec<usize> {
        let shape: Shape = shape.parse().expect("a topology");
        shape.pods(scope).into_iter().map(|pod| pod.len()).collect()
    }

    #[test]
    fn pods_of_known_machines() {
        let all = |shape| Scope::ALL.map(|(scope, _)| sizes(shape, scope).len());
        assert_eq!(all("single"), [1; 6]);
        assert_eq!(all("amd-12"), [24, 12, 4, 4, 1, 1]);
        assert_eq!(all("server-2s"), [128, 64, 8, 2, 2, 1]);
        assert_eq!(all("big-little"), [8, 8, 2, 2, 1, 1]);
        assert_eq!(all("2x8x8x2"), [256, 128, 16, 16, 2, 1]);
    }

    #[test]
    fn shards_are_even_and_keep_siblings_together() {
        // 12 cores make two shards, 11 one; 20 make three (rounded up) of 7, 7 and 6 cores.
        assert_eq!(sizes("1x12x2", Scope::CacheShard), [12, 12]);
        assert_eq!(sizes("1x11x1", Scope::CacheShard), [11]);
        assert_eq!(sizes("1x20x2", Scope::CacheShard), [14, 14, 12]);
    }

    #[test]
    fn every_scope_covers_every_cpu_once() {
        let pods = Shape::Pods { cpus: 23, pod_cpus: 5, node_pods: 2 };
        for shape in Shape::NAMED.map(|(shape, ..)| shape).into_iter().chain([pods]) {
            for (scope, _) in Scope::ALL {
                let cpus: Vec<_> = shape.pods(scope).into_iter().flatten().collect();
                assert_eq!(cpus, (0..shape.cpus()).collect::<Vec<_>>(), "{shape} {scope}");
            }
        }
    }

    #[test]
    fn large_machines_have_about_as_many_cpus_as_asked_for() {
        for (cpus, text) in
            [(1, "1x1x1x1"), (4, "1x1x4x1"), (40, "1x4x5x2"), (400, "1x25x8x2"), (4096, "8x32x8x2")]
        {
            assert_eq!(Shape::large(cpus).to_string(), text);
        }
    }

    #[test]
    fn texts_are_understood_and_shown() {
        for (shape, name, _) in Shape::NAMED {
            assert_eq!(name.parse(), Ok(shape));
            assert_eq!(shape.to_string().parse(), Ok(shape));
        }
        assert!("2x2".parse::<Shape>().unwrap_err().to_string().contains("2x32x2"));
        assert!("2x4096x1".parse::<Shape>().unwrap_err().to_string().contains("1 to 4096"));
        assert!("0x1x1".parse::<Shape>().unwrap_err().to_string().contains("1 to 4096"));
        for (scope, name) in Scope::ALL {
            assert_eq!(name.parse(), Ok(scope));
            assert_eq!(scope.to_string(), name);
        }
        assert!("core".parse::<Scope>().unwrap_err().to_string().contains("cache_shard"));
    }
}
