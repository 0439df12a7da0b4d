//! What is known of the CPUs: what they share, and which the administrator keeps free.
//!
//! The system tells nothing of a CPU that is off, not even its node. So all is read again when a
//! CPU comes that was off whenever it was read before. Of those that are off by then, what was
//! known stays.
//!
//! KERNEL: pods are made for all possible CPUs when the system boots, and its limits again when a
//! CPU comes — differs: firmware tells the kernel of CPUs that are off, but nobody tells a process.

use std::path::{Path, PathBuf};

use crate::os::topo::{self, CpuSet, Pod, Topology};

/// See the module header. Replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Where it was read. `None`: it is made up.
    sys: Option<PathBuf>,
    /// What all CPUs share that may be ours.
    pub(crate) topology: Topology,
    /// Those that were on when it was read, this time or earlier.
    seen: CpuSet,
    /// Those that the administrator keeps free of unbound work.
    pub(crate) isolated: CpuSet,
}

impl Known {
    /// Of these CPUs, what sysfs below `sys` says.
    pub(crate) fn read(sys: &Path, possible: &CpuSet) -> Self {
        Self {
            sys: Some(sys.to_owned()),
            topology: Topology::read(sys, possible),
            seen: on_of(sys, possible),
            isolated: topo::isolated_cpus(sys),
        }
    }

    /// Of a made-up machine in which the CPUs of a pod share a cache.
    pub(crate) fn of_pods(pods: &[Pod]) -> Self {
        let topology = Topology::of_pods(pods);
        let seen = topology.cpus().iter().map(|cpu| cpu.id).collect();
        Self { sys: None, topology, seen, isolated: CpuSet::new() }
    }

    /// The CPUs that were on when it was read, this time or earlier.
    pub(crate) fn seen(&self) -> &CpuSet {
        &self.seen
    }

    /// What there is to know now that the process has the CPUs `allowed`. `None`: nothing else.
    pub(crate) fn renewed(&self, allowed: &CpuSet) -> Option<Self> {
        let sys = self.sys.as_deref()?;
        let mut known = Self { isolated: topo::isolated_cpus(sys), ..self.clone() };
        if !allowed.is_subset(&self.seen) {
            let possible: CpuSet = self.topology.cpus().iter().map(|cpu| cpu.id).collect();
            // Asked before the files are read: of one that comes meanwhile they may tell too
            // little.
            let on = on_of(sys, &possible);
            let off = self.seen.and_not(&on);
            known.topology = Topology::read(sys, &possible).with_earlier(&self.topology, &off);
            known.seen = self.seen.or(&on);
        }
        (known != *self).then_some(known)
    }
}

/// Those of the CPUs that are on, as far as is known.
fn on_of(sys: &Path, possible: &CpuSet) -> CpuSet {
    topo::online_cpus(sys).map_or_else(|| possible.clone(), |on| on.and(possible))
}
