//! How much CPU time the process's cgroup grants.
//!
//! *Owns* nothing, and asks again each time; see [`cgroup`](super::cgroup).
//!
//! The files are `cpu.max` (version 2) and `cpu.cfs_quota_us` with `cpu.cfs_period_us` (version 1).
//!
//! KERNEL: `Documentation/admin-guide/cgroup-v2.rst`, `Documentation/scheduler/sched-bwc.rst`.

use std::path::{Path, PathBuf};

use super::cgroup::{self, Group};
use super::cgroup_mounts::Version;

/// The tightest limit on the process's CPU time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpuQuota {
    /// How many CPUs' worth of time the process may use.
    pub(crate) cpus: f64,
    /// The file that says so.
    pub(crate) file: PathBuf,
}

/// How many CPUs' worth of time the process may use, or `None` if nothing limits it.
///
/// `proc` is where procfs is mounted; the cgroup mounts that it names are looked up below `fs_root`
/// (`/`).
pub(crate) fn cpu_quota(proc: &Path, fs_root: &Path) -> Option<CpuQuota> {
    cgroup::ancestry(proc, fs_root, "cpu")
        .iter()
        .filter_map(read_limit)
        .min_by(|a, b| a.cpus.total_cmp(&b.cpus))
}

fn read_limit(group: &Group) -> Option<CpuQuota> {
    let (file, cpus) = match group.version {
        Version::V1 => {
            let file = "cpu.cfs_quota_us";
            (file, ratio(&group.read(file)?, &group.read("cpu.cfs_period_us")?))
        }
        Version::V2 => {
            let file = "cpu.max";
            let limit = group.read(file)?;
            let mut words = limit.split_whitespace();
            // The default period is what the kernel takes when only a quota was ever written.
            (file, ratio(words.next()?, words.next().unwrap_or("100000")))
        }
    };
    Some(CpuQuota { cpus: cpus?, file: group.dir.join(file) })
}

/// Quota over period; `None` for "no limit", which is the quota `-1` or `max`.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let quota: u64 = quota.trim().parse().ok()?;
    let period: u64 = period.trim().parse().ok()?;
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}
