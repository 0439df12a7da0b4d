//! The CPUs that the process uses, what they share, and the pods that follow from it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::engine::runtime;
use crate::engine::tools::params::Params;
use crate::os::sense;
use crate::os::topo::{self, AffinityScope, Cpu, CpuSet, SYS_ROOT, Topology};

/// The CPUs that the process uses, and how they are grouped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Machine {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The CPUs that the process may use: the affinity mask when the library started.
    pub allowed: CpuSet,
    /// The CPUs that are switched on; `None` where the system does not say.
    pub online: Option<CpuSet>,
    /// The CPUs that could ever be switched on; `None` where the system does not say.
    pub possible: Option<CpuSet>,
    /// The CPUs that the administrator keeps free of unbound work (`isolcpus=`, isolated cpuset
    /// partitions).
    pub isolated: CpuSet,
    /// The tightest limit that the process's cgroups set on CPU time, if one does.
    pub quota: Option<CpuQuota>,
    /// How many CPUs' worth of work runs at once: the allowed ones, or fewer under a quota.
    pub granted: u32,
    /// Cores among the allowed CPUs.
    pub nr_cores: usize,
    /// Last-level caches among them.
    pub nr_caches: usize,
    /// NUMA nodes among them.
    pub nr_nodes: usize,
    /// Whether some core has several of the allowed CPUs (SMT, hyper-threading).
    pub has_smt: bool,
    /// Whether cores differ in speed (big and little ones).
    pub is_hybrid: bool,
    /// The default scope of unbound queues. Managed queues do not use it: their pods are those of
    /// the parameter `managed_affinity_scope`.
    pub default_scope: AffinityScope,
    /// The pods that every scope would make, from the narrowest scope to the widest.
    pub pods: Vec<Pods>,
    /// The pods of unbound queues in use: those of the default scope, or a single one under a
    /// quota, which is for all CPUs together.
    pub pods_in_use: Vec<CpuSet>,
}

/// A limit on CPU time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CpuQuota {
    /// How many CPUs' worth of time the process may use.
    pub cpus: f64,
    /// The file that says so: `cpu.max` of cgroup version 2, `cpu.cfs_quota_us` of version 1.
    pub file: PathBuf,
}

/// The pods of an affinity scope: the CPUs of each share the pools of unbound queues that have this
/// scope.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pods {
    /// The scope.
    pub scope: AffinityScope,
    /// Its pods, by their lowest CPU.
    pub pods: Vec<CpuSet>,
}

impl Machine {
    /// Adds to what the runtime works with what it had no need to keep.
    pub(crate) fn read(machine: &runtime::Machine, params: &Params) -> Self {
        let sys = Path::new(SYS_ROOT);
        let allowed = machine.allowed.clone();
        let topology = Topology::read(sys, &allowed);
        let cpus = topology.cpus();
        let nr_cores = count(cpus, |cpu| cpu.core);
        let quota = topo::cpu_quota("/proc".as_ref(), "/".as_ref());
        Self {
            kernel: sense::kernel::release(),
            online: topo::online_cpus(sys),
            possible: topo::possible_cpus(sys),
            isolated: topo::isolated_cpus(sys),
            quota: quota.map(|quota| CpuQuota { cpus: quota.cpus, file: quota.file }),
            granted: machine.granted(),
            nr_cores,
            nr_caches: count(cpus, |cpu| cpu.llc),
            nr_nodes: count(cpus, |cpu| cpu.node),
            has_smt: nr_cores < cpus.len(),
            is_hybrid: count(cpus, |cpu| cpu.capacity) > 1,
            default_scope: params.default_affinity_scope,
            pods: pods_of_all_scopes(&topology, params.cache_shard_size),
            pods_in_use: machine.pods.iter().map(|pod| pod.cpus.clone()).collect(),
            allowed,
        }
    }
}

fn pods_of_all_scopes(topology: &Topology, shard_size: u32) -> Vec<Pods> {
    let pods = |scope| {
        let pods = topo::pods(scope, topology, shard_size);
        Pods { scope, pods: pods.into_iter().map(|pod| pod.cpus).collect() }
    };
    AffinityScope::ALL.into_iter().map(pods).collect()
}

/// How many different values of `what` there are.
fn count<K: Ord>(cpus: &[Cpu], what: impl Fn(&Cpu) -> K) -> usize {
    cpus.iter().map(what).collect::<BTreeSet<_>>().len()
}
