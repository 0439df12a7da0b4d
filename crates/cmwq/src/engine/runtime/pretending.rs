//! A machine with more CPUs than there are, for measuring what many pods cost.
//!
//! Queues and pools are those of the pretended machine; their threads run on the CPUs that there
//! are. No CPU comes or goes there, and none has a sentinel.

use super::Machine;
use crate::os::topo::{CpuSet, Pod};

/// CPUs that share a last-level cache there, and CPUs of a node.
const CACHE: u32 = 8;
const NODE: u32 = 64;

impl Machine {
    /// A machine of `nr_cpus` CPUs in place of the `real` ones.
    pub(super) fn pretended(nr_cpus: u32, real: CpuSet) -> Self {
        let all: CpuSet = (0..nr_cpus).collect();
        let pod = |first: u32, end: u32| Pod {
            cpus: (first..end.min(nr_cpus)).collect(),
            node: Some(first / NODE),
        };
        let caches = (0..nr_cpus).step_by(CACHE as usize);
        let caches = caches.map(|first| pod(first, first + CACHE)).collect();
        let each = (0..nr_cpus).map(|cpu| pod(cpu, cpu + 1)).collect();
        Self { pretends: Some(real), ..Self::with(&all, all.clone(), None, caches, each) }
    }

    /// Whether the CPUs are only pretended.
    pub(crate) fn is_pretended(&self) -> bool {
        self.pretends.is_some()
    }

    /// The real CPUs for threads that belong on `cpus`.
    pub(crate) fn real_cpus(&self, cpus: &CpuSet) -> CpuSet {
        let Some(real) = &self.pretends else { return cpus.clone() };
        let real: Vec<u32> = real.iter().collect();
        cpus.iter().map(|cpu| real[cpu as usize % real.len()]).collect()
    }
}
