//! sysfs, procfs and cgroup files: whatever they say, the picture of the machine is one that the
//! rest can rely on.
//!
//! A case is a text in the form of `crates/cmwq/tests/fixtures`: lines of `PATH<TAB>CONTENT`.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::os::topo::{self, AffinityScope, CpuSet, Topology};

/// LIMIT: of files in a case, and of CPUs: what is found in more is found in so many.
const MOST_FILES: usize = 256;
const MOST_CPUS: usize = 48;

/// A directory with the files of a case, which goes with the value.
struct Tree(PathBuf);

impl Tree {
    fn new(text: &str) -> Self {
        static NR_TREES: AtomicU32 = AtomicU32::new(0);
        let nr = NR_TREES.fetch_add(1, Ordering::Relaxed);
        // In memory if that is possible: files on a disk take a hundred times as long.
        let memory = Some(PathBuf::from("/dev/shm")).filter(|dir| dir.is_dir());
        let root = memory.unwrap_or_else(std::env::temp_dir);
        let root = root.join(format!("cmwq-fuzz-{}-{nr}", std::process::id()));
        fs::create_dir_all(&root).expect("the temporary directory is writable");
        let tree = Self(root);
        for line in text.lines().take(MOST_FILES) {
            let Some((path, content)) = line.split_once('\t') else { continue };
            // A path that cannot be is a file that is not there.
            let _ = tree.write(Path::new(path), &content.replace("\\n", "\n"));
        }
        tree
    }

    /// Below the root, wherever the path leads.
    fn write(&self, path: &Path, content: &str) -> std::io::Result<()> {
        let inner = path.components().filter(|part| matches!(part, Component::Normal(_)));
        let path = self.0.join(inner.collect::<PathBuf>());
        fs::create_dir_all(path.parent().unwrap_or(&self.0))?;
        fs::write(path, format!("{content}\n"))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // It is in the directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Reads everything that there is to be read.
///
/// # Panics
/// If the outcome is not what it must be.
pub fn run(data: &[u8]) {
    let tree = Tree::new(&String::from_utf8_lossy(data));
    let sys = tree.0.join("sys");
    let online = topo::online_cpus(&sys).unwrap_or_default();
    let _ = (topo::possible_cpus(&sys), topo::present_cpus(&sys), topo::isolated_cpus(&sys));
    let cpus = if online.is_empty() { (0..4).collect() } else { online.take(MOST_CPUS) };
    let topology = Topology::read(&sys, &cpus);
    check_topology(&topology, &cpus);
    let half: CpuSet = cpus.iter().step_by(2).collect();
    check_topology(&topology.within(&half), &half);
    check_limits(&tree.0);
}

fn check_limits(root: &Path) {
    let quota = topo::cpu_quota(&root.join("proc"), root);
    if let Some(quota) = &quota {
        assert!(quota.cpus.is_finite() && quota.cpus > 0.0, "{quota:?}");
    }
    let quota = quota.map(|quota| quota.cpus);
    assert!((1..=3).contains(&cmwq_core::place::granted(3, quota)), "{quota:?}");
    if let Some(limit) = topo::task_limit(&root.join("proc"), root) {
        assert!(limit.room() <= limit.max, "{limit:?}");
    }
}

/// The invariants of [`Topology`], and what grouping makes of it.
fn check_topology(topology: &Topology, cpus: &CpuSet) {
    let ids: CpuSet = topology.cpus().iter().map(|cpu| cpu.id).collect();
    assert_eq!((&ids, topology.cpus().len()), (cpus, cpus.count()), "sorted, each once");
    for cpu in topology.cpus() {
        let core = topology.cpu(cpu.core).expect("a listed CPU leads");
        let llc = topology.cpu(cpu.llc).expect("a listed CPU leads");
        assert!(core.core == core.id && core.id <= cpu.id, "{cpu:?} led by {core:?}");
        assert!(llc.llc == llc.id && llc.id <= cpu.id, "{cpu:?} led by {llc:?}");
        assert_eq!(core.llc, cpu.llc, "siblings share a cache");
    }
    for scope in AffinityScope::ALL {
        for shard_size in [0, 1, 3, 8, u32::MAX] {
            check_pods(scope, topology, shard_size, cpus);
        }
    }
}

fn check_pods(scope: AffinityScope, topology: &Topology, shard_size: u32, cpus: &CpuSet) {
    let pods = topo::pods(scope, topology, shard_size);
    let mut seen = CpuSet::new();
    for pod in &pods {
        assert!(!pod.cpus.is_empty() && !seen.intersects(&pod.cpus), "{scope:?} {pods:?}");
        seen = seen.or(&pod.cpus);
    }
    assert_eq!(&seen, cpus, "{scope:?}: each CPU is in one pod");
    if matches!(scope, AffinityScope::Smt | AffinityScope::Cache | AffinityScope::CacheShard) {
        for cpu in topology.cpus() {
            let pod = pods.iter().find(|pod| pod.cpus.contains(cpu.id)).expect("seen above");
            assert!(pod.cpus.contains(cpu.core), "{scope:?}: {cpu:?} is apart from its core");
        }
    }
}

#[test]
fn any_files_give_a_sane_machine() {
    super::cases::run(&super::cases::seeds("tests/fixtures"), 1_000, run);
}
