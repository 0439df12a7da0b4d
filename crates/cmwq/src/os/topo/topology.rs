//! What CPUs share: a core, a last-level cache, a NUMA node.
//!
//! *Owns* a sorted list of the CPUs it was asked about; nothing outside of that list is ever
//! mentioned.
//!
//! *Invariants*
//! - `sorted`: CPUs are in ascending order.
//! - `leader`: the number of a core or cache is the number of the lowest listed CPU in it.
//! - `nested`: siblings of a core share its cache, whatever the files say.
//!
//! *Kernel*: `Documentation/ABI/stable/sysfs-devices-system-cpu`,
//! `Documentation/admin-guide/cputopology.rst`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cmwq_core::place;

use super::cpuset::CpuSet;
use super::scope::Pod;
use super::system::{read_list, read_number};

/// One CPU and what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpu {
    /// Its number.
    pub(crate) id: u32,
    /// The lowest CPU of its core (its SMT siblings).
    pub(crate) core: u32,
    /// The lowest CPU that has the same last-level cache.
    pub(crate) llc: u32,
    /// Its NUMA node; `None` if there are nodes but none claims it.
    pub(crate) node: Option<u32>,
    /// How fast it can get compared with the fastest CPU of the machine (1024), where cores differ.
    pub(crate) capacity: Option<u32>,
}

impl Cpu {
    /// What it is to the core.
    pub(crate) fn in_core(&self) -> place::Cpu {
        place::Cpu { id: self.id, core: self.core, llc: self.llc, node: self.node }
    }
}

/// What the CPUs of a set share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    cpus: Vec<Cpu>,
}

impl Topology {
    /// Reads what the `allowed` CPUs share from the sysfs mounted at `sys`.
    ///
    /// Where files are missing, each CPU is a core of its own, CPUs of a node have one cache, and
    /// there is one node.
    pub(crate) fn read(sys: &Path, allowed: &CpuSet) -> Self {
        let nodes = read_nodes(&sys.join("devices/system/node"));
        let mut topology = Self::default();
        for id in allowed {
            let cpu = topology.read_cpu(sys, allowed, &nodes, id);
            topology.cpus.push(cpu);
        }
        topology
    }

    /// The CPUs, in ascending order.
    pub(crate) fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The same, as the core knows them.
    pub(crate) fn in_core(&self) -> impl Iterator<Item = place::Cpu> {
        self.cpus.iter().map(Cpu::in_core)
    }

    /// Those of `cpus`.
    pub(crate) fn in_core_of(&self, cpus: &CpuSet) -> impl Iterator<Item = place::Cpu> {
        self.in_core().filter(|cpu| cpus.contains(cpu.id))
    }

    /// What the CPUs of `cpus` share, as if only they had been asked about.
    pub(crate) fn within(&self, cpus: &CpuSet) -> Self {
        // INVARIANT(leader): the lowest CPU that is left leads.
        let here = || self.cpus.iter().filter(|cpu| cpus.contains(cpu.id));
        let lowest = |leader: fn(&Cpu) -> u32| {
            let mut lowest = BTreeMap::new();
            here().for_each(|cpu| _ = lowest.entry(leader(cpu)).or_insert(cpu.id));
            lowest
        };
        let (cores, caches) = (lowest(|cpu| cpu.core), lowest(|cpu| cpu.llc));
        let narrowed =
            |cpu: &Cpu| Cpu { core: cores[&cpu.core], llc: caches[&cpu.llc], ..cpu.clone() };
        Self { cpus: here().map(narrowed).collect() }
    }

    /// As it is, but for the CPUs of `off`, of which the files told nothing: those are as they were
    /// in `earlier`, in the cores and caches of their former companions.
    pub(crate) fn with_earlier(mut self, earlier: &Self, off: &CpuSet) -> Self {
        let recalled: Vec<Cpu> =
            earlier.cpus.iter().filter(|cpu| off.contains(cpu.id)).cloned().collect();
        let is_on = |id: u32| !off.contains(id) && self.cpu(id).is_some();
        let companion = |same: &dyn Fn(&Cpu) -> bool| {
            earlier
                .cpus
                .iter()
                .find(|cpu| is_on(cpu.id) && same(cpu))
                .and_then(|cpu| self.cpu(cpu.id))
        };
        let recall = |old: &Cpu| {
            let core = companion(&|cpu| cpu.core == old.core).map_or(old.core, |cpu| cpu.core);
            let llc = companion(&|cpu| cpu.llc == old.llc).map_or(old.llc, |cpu| cpu.llc);
            Cpu { core, llc, ..old.clone() }
        };
        let recalled: Vec<Cpu> = recalled.iter().map(recall).collect();
        for cpu in recalled {
            if let Ok(index) = self.cpus.binary_search_by_key(&cpu.id, |cpu| cpu.id) {
                self.cpus[index] = cpu;
            }
        }
        // INVARIANT(leader): one that is off may be the lowest.
        let all = self.cpus.iter().map(|cpu| cpu.id).collect();
        self.within(&all)
    }

    /// A made-up machine in which the CPUs of a pod share a cache.
    pub(crate) fn of_pods(pods: &[Pod]) -> Self {
        let members = |pod: &Pod| {
            let (llc, node) = (pod.cpus.first().unwrap_or(0), pod.node);
            let cpu = |id| Cpu { id, core: id, llc, node, capacity: None };
            pod.cpus.iter().map(cpu).collect::<Vec<_>>()
        };
        let mut cpus: Vec<Cpu> = pods.iter().flat_map(members).collect();
        cpus.sort_by_key(|cpu| cpu.id);
        Self { cpus }
    }

    /// The NUMA node that holds all of `cpus`, if one does.
    pub(crate) fn node_of(&self, cpus: &CpuSet) -> Option<u32> {
        let node = self.cpu(cpus.first()?)?.node;
        node.filter(|_| cpus.iter().all(|id| self.cpu(id).is_some_and(|cpu| cpu.node == node)))
    }

    /// One CPU, if it is among those that were read.
    pub(crate) fn cpu(&self, id: u32) -> Option<&Cpu> {
        let index = self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()?;
        self.cpus.get(index)
    }

    /// Reads CPU `id`, whose lower neighbours are known already.
    fn read_cpu(&self, sys: &Path, allowed: &CpuSet, nodes: &[(u32, CpuSet)], id: u32) -> Cpu {
        let dir = sys.join(format!("devices/system/cpu/cpu{id}"));
        let node = match nodes {
            [] => Some(0),
            nodes => nodes.iter().find(|(_, cpus)| cpus.contains(id)).map(|(node, _)| *node),
        };
        let core = match read_siblings(&dir).and_then(|s| s.and(allowed).first()) {
            // INVARIANT(leader): a lower sibling leads, or whoever leads that one if the files
            // disagree.
            Some(lowest) => self.cpu(lowest).map_or(id, |cpu| cpu.core),
            None => id,
        };
        let llc = if core == id {
            self.read_llc_leader(&dir, allowed, node, id)
        } else {
            // INVARIANT(nested): the core's leader has settled which cache it is.
            self.cpu(core).map_or(id, |leader| leader.llc)
        };
        Cpu { id, core, llc, node, capacity: read_number(&dir.join("cpu_capacity")) }
    }

    fn read_llc_leader(&self, dir: &Path, allowed: &CpuSet, node: Option<u32>, id: u32) -> u32 {
        match read_llc_sharing(dir) {
            Some(sharing) => {
                let lowest = sharing.and(allowed).first();
                lowest.and_then(|cpu| self.cpu(cpu)).map_or(id, |cpu| cpu.llc)
            }
            // Unknown caches are taken for one per node: no cache is wider than that.
            None => {
                let neighbour = self.cpus.iter().find(|cpu| cpu.node == node);
                neighbour.map_or(id, |cpu| cpu.llc)
            }
        }
    }
}

/// The CPUs that run on the same core, under the file's new or old name.
fn read_siblings(cpu_dir: &Path) -> Option<CpuSet> {
    let topology = cpu_dir.join("topology");
    read_list(&topology.join("core_cpus_list"))
        .or_else(|| read_list(&topology.join("thread_siblings_list")))
}

/// The CPUs that share this one's cache of the highest level.
fn read_llc_sharing(cpu_dir: &Path) -> Option<CpuSet> {
    let mut best: Option<(u32, CpuSet)> = None;
    for index in 0.. {
        let dir = cpu_dir.join(format!("cache/index{index}"));
        // Indices are contiguous: the first one without a level ends the list.
        let Some(level) = read_number(&dir.join("level")) else { break };
        if best.as_ref().is_some_and(|(highest, _)| level <= *highest) {
            continue;
        }
        if let Some(sharing) = read_list(&dir.join("shared_cpu_list")) {
            best = Some((level, sharing));
        }
    }
    best.map(|(_, sharing)| sharing)
}

/// The NUMA nodes and their CPUs, by ascending node number; empty if the kernel has no notion of
/// them.
fn read_nodes(dir: &Path) -> Vec<(u32, CpuSet)> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut nodes: Vec<_> = entries.flatten().filter_map(|e| read_node(&e.path())).collect();
    nodes.sort_by_key(|(node, _)| *node);
    nodes
}

fn read_node(dir: &Path) -> Option<(u32, CpuSet)> {
    let number = dir.file_name()?.to_str()?.strip_prefix("node")?.parse().ok()?;
    Some((number, read_list(&dir.join("cpulist"))?))
}
