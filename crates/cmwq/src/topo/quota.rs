//! How much CPU time the process's cgroup grants.
//!
//! *Owns* nothing. *Does not* watch for changes: a limit can be changed while the process runs, so whoever cares asks
//! again.
//!
//! The limit of a process is the tightest one on the way from its own cgroup up to the root, in the unified hierarchy
//! (version 2, file `cpu.max`) or in the hierarchy of the `cpu` controller (version 1, `cpu.cfs_quota_us`). Machines
//! may mount both; the controller sits in one of them only and the other then sets no limit.
//!
//! *Kernel*: `Documentation/admin-guide/cgroup-v2.rst`, `Documentation/scheduler/sched-bwc.rst`.

use std::fs;
use std::path::{Path, PathBuf};

use super::quota_mounts::{CgroupMount, Version};

/// How many CPUs' worth of time the process may use, or `None` if nothing limits it.
///
/// `proc` is where procfs is mounted; the cgroup mounts that it names are looked up below `fs_root` (`/`).
pub(crate) fn cpu_quota(proc: &Path, fs_root: &Path) -> Option<f64> {
    let cgroups = read_lossy(&proc.join("self/cgroup"))?;
    let mounts = read_lossy(&proc.join("self/mountinfo"))?;
    mounts
        .lines()
        .filter_map(CgroupMount::parse)
        .filter_map(|mount| {
            let below = mount.path_below(own_cgroup(&cgroups, mount.version)?)?;
            tightest(&under(fs_root, &mount.mount_point), &below, mount.version)
        })
        .min_by(f64::total_cmp)
}

/// How many CPUs it makes sense to use: no more than are `allowed`, and no more than `quota` keeps busy.
pub(crate) fn effective_cpus(allowed: usize, quota: Option<f64>) -> usize {
    // A float-to-integer cast saturates, so an absurdly large quota is simply no limit.
    let granted = quota.map_or(usize::MAX, |quota| quota.ceil() as usize);
    allowed.min(granted).max(1)
}

/// The process's cgroup in a hierarchy, from the lines `ID:CONTROLLERS:PATH` of `/proc/self/cgroup`.
fn own_cgroup(cgroups: &str, version: Version) -> Option<&str> {
    cgroups.lines().find_map(|line| {
        let (id, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = match version {
            Version::V1 => controllers.split(',').any(|controller| controller == "cpu"),
            Version::V2 => id == "0" && controllers.is_empty(),
        };
        is_it.then_some(path)
    })
}

/// The tightest limit from the cgroup at `below` up to `mount_point`.
fn tightest(mount_point: &Path, below: &Path, version: Version) -> Option<f64> {
    below
        .ancestors()
        .filter_map(|path| read_limit(&mount_point.join(path), version))
        .min_by(f64::total_cmp)
}

fn read_limit(cgroup: &Path, version: Version) -> Option<f64> {
    let read = |name| fs::read_to_string(cgroup.join(name)).ok();
    match version {
        Version::V1 => ratio(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?),
        Version::V2 => {
            let limit = read("cpu.max")?;
            let mut words = limit.split_whitespace();
            // The default period is what the kernel takes when only a quota was ever written.
            ratio(words.next()?, words.next().unwrap_or("100000"))
        }
    }
}

/// Quota over period; `None` for "no limit", which is the quota `-1` or `max`.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let quota: u64 = quota.trim().parse().ok()?;
    let period: u64 = period.trim().parse().ok()?;
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// A file that other people's mount points and cgroup names can put any bytes into.
fn read_lossy(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

/// An absolute path of the running system, looked up below another root.
fn under(fs_root: &Path, absolute: &str) -> PathBuf {
    fs_root.join(absolute.trim_start_matches('/'))
}
