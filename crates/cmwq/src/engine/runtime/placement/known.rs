//! What is known of the CPUs: what they share, and which the administrator keeps free.
//!
//! The system tells nothing about a CPU that is off, not even its node. So the topology is read
//! again when a CPU comes that was off at every earlier reading. For CPUs that are off by then, the
//! earlier knowledge is kept.
//!
//! KERNEL: pods are made for all possible CPUs when the system boots, and its limits again when a
//! CPU comes — differs: firmware tells the kernel about CPUs that are off, but a process cannot
//! know.

use std::path::{Path, PathBuf};

use crate::os::topo::{self, CpuSet, Pod, Topology};

/// See the module header. Replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Where the topology was read. `None`: it is made up.
    sys: Option<PathBuf>,
    /// What all CPUs that the process may have share.
    pub(crate) topology: Topology,
    /// CPUs that were on at this or an earlier reading.
    seen: CpuSet,
    /// CPUs that the administrator keeps free of unbound work.
    pub(crate) isolated: CpuSet,
}

impl Known {
    /// What sysfs below `sys` says about these CPUs.
    pub(crate) fn read(sys: &Path, possible: &CpuSet) -> Self {
        Self {
            sys: Some(sys.to_owned()),
            topology: Topology::read(sys, possible),
            seen: on_of(sys, possible),
            isolated: topo::isolated_cpus(sys),
        }
    }

    /// A made-up machine in which the CPUs of a pod share a cache.
    pub(crate) fn of_pods(pods: &[Pod]) -> Self {
        let topology = Topology::of_pods(pods);
        let seen = topology.cpus().iter().map(|cpu| cpu.id).collect();
        Self { sys: None, topology, seen, isolated: CpuSet::new() }
    }

    /// The CPUs that were on at this or an earlier reading.
    pub(crate) fn seen(&self) -> &CpuSet {
        &self.seen
    }

    /// The knowledge for a process that has the CPUs `allowed` now. `None`: nothing has changed.
    pub(crate) fn renewed(&self, allowed: &CpuSet) -> Option<Self> {
        let sys = self.sys.as_deref()?;
        let mut known = Self { isolated: topo::isolated_cpus(sys), ..self.clone() };
        if !allowed.is_subset(&self.seen) {
            let possible: CpuSet = self.topology.cpus().iter().map(|cpu| cpu.id).collect();
            // Read before the other files, which may say too little about a CPU that comes
            // meanwhile.
            let on = on_of(sys, &possible);
            let off = self.seen.and_not(&on);
            known.topology = Topology::read(sys, &possible).with_earlier(&self.topology, &off);
            known.seen = self.seen.or(&on);
        }
        (known != *self).then_some(known)
    }
}

/// The CPUs of `possible` that are on, as far as is known.
fn on_of(sys: &Path, possible: &CpuSet) -> CpuSet {
    topo::online_cpus(sys).map_or_else(|| possible.clone(), |on| on.and(possible))
}
