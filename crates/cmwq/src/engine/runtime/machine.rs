//! The CPUs that the process may ever use. What changes is in [`placement`](super::placement).

use std::path::Path;

use cmwq_core::place::{self, QueueKind};

use super::placement::{Known, at_start};
use crate::engine::tools::params::Params;
use crate::os::topo::{self, CpuSet, Pod};

/// See the module header.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The CPUs that the process may have now or later, ascending.
    pub(crate) cpus: Vec<u32>,
    /// The CPUs that the process had at the start.
    pub(crate) allowed: CpuSet,
    /// The process was confined when it started, and not by a cpuset: it never uses other CPUs than
    /// these.
    pub(super) start_mask: Option<CpuSet>,
    /// What was known of `cpus` at the start.
    pub(super) known: Known,
    /// Index into `cpus` by CPU number.
    pub(super) index: Vec<Option<usize>>,
    /// The cgroup's quota, in CPUs' worth of time.
    pub(crate) quota: Option<f64>,
    /// The pods of unbound queues at the start: the default scope's.
    pub(crate) pods: Vec<Pod>,
    /// The pods of managed queues: one per CPU, or only one under a quota or if that was asked for.
    pub(crate) managed_pods: Vec<Pod>,
    /// The real CPUs, if `cpus` are only pretended.
    pub(super) pretends: Option<CpuSet>,
}

impl Machine {
    pub(crate) fn read(params: &Params) -> Self {
        let sys = topo::SYS_ROOT.as_ref();
        if let Some(nr_cpus) = params.debug_pretend_cpus {
            return Self::pretended(nr_cpus, topo::allowed_cpus());
        }
        let (allowed, start_mask) = at_start();
        let possible = match &start_mask {
            Some(mask) => mask.clone(),
            None => topo::present_cpus(sys).unwrap_or_default().or(&allowed),
        };
        let quota = topo::cpu_quota("/proc".as_ref(), "/".as_ref()).map(|quota| quota.cpus);
        Self { start_mask, ..Self::below(sys, &possible, allowed, quota, params) }
    }

    /// The machine that sysfs below `sys` describes.
    pub(super) fn below(
        sys: &Path,
        possible: &CpuSet,
        allowed: CpuSet,
        quota: Option<f64>,
        params: &Params,
    ) -> Self {
        let known = Known::read(sys, possible);
        let (scope, shard_size) = (params.default_affinity_scope, params.cache_shard_size);
        let pods = topo::pods_within(scope, &known.topology, &allowed, shard_size);
        let managed = topo::pods(params.managed_affinity_scope, &known.topology, 1);
        Self { known, ..Self::with(possible, allowed, quota, pods, managed) }
    }

    /// A machine of these CPUs, all of which may be used. The CPUs of one of `pods` share a cache.
    #[cfg(test)]
    pub(crate) fn new(
        possible: &CpuSet,
        quota: Option<f64>,
        pods: Vec<Pod>,
        managed_pods: Vec<Pod>,
    ) -> Self {
        Self::with(possible, possible.clone(), quota, pods, managed_pods)
    }

    pub(super) fn with(
        possible: &CpuSet,
        allowed: CpuSet,
        quota: Option<f64>,
        mut pods: Vec<Pod>,
        mut managed_pods: Vec<Pod>,
    ) -> Self {
        let cpus: Vec<u32> = possible.iter().collect();
        let known = Known::of_pods(&pods);
        let nr_cpus = allowed.count() as u32;
        let granted = place::granted(nr_cpus, quota);
        if pods.is_empty() || QueueKind::Managed.leads_to_one(false, granted, nr_cpus) {
            pods = vec![Pod { cpus: allowed.clone(), node: None }];
            managed_pods = vec![Pod { cpus: possible.clone(), node: None }];
        }
        let last = cpus.last().map_or(0, |last| *last);
        let index = (0..=last).map(|cpu| cpus.iter().position(|c| *c == cpu)).collect();
        Self {
            cpus,
            allowed,
            start_mask: None,
            known,
            index,
            quota,
            pods,
            managed_pods,
            pretends: None,
        }
    }

    /// All CPUs that the process may have, present or not.
    pub(crate) fn possible(&self) -> CpuSet {
        self.cpus.iter().copied().collect()
    }

    /// How many CPUs the quota kept busy at the start.
    pub(crate) fn granted(&self) -> u32 {
        self.granted_of(&self.allowed)
    }

    pub(super) fn granted_of(&self, cpus: &CpuSet) -> u32 {
        place::granted(cpus.count() as u32, self.quota)
    }

    /// The index of a CPU that the process may have.
    #[inline]
    pub(super) fn index_of(&self, cpu: u32) -> Option<usize> {
        self.index.get(cpu as usize).copied().flatten()
    }
}
