//! How many threads the process's cgroup has room for.
//!
//! *Owns* nothing, and asks again each time; see [`cgroup`](super::cgroup).
//!
//! The files are the same in both versions: `pids.max` and `pids.current`.
//!
//! KERNEL: `Documentation/admin-guide/cgroup-v1/pids.rst`.

use std::path::{Path, PathBuf};

use super::cgroup::{self, Group};

/// A limit on the threads of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLimit {
    /// How many there may be.
    pub max: u64,
    /// How many there are.
    pub current: u64,
    /// The file that says so.
    pub file: PathBuf,
}

impl TaskLimit {
    /// How many more there may be.
    pub(crate) fn room(&self) -> u64 {
        self.max.saturating_sub(self.current)
    }
}

/// The limit that leaves the least room for more threads, or `None` if there is no limit.
///
/// `proc` is where procfs is mounted; the cgroup mounts that it names are looked up below `fs_root`
/// (`/`).
pub(crate) fn task_limit(proc: &Path, fs_root: &Path) -> Option<TaskLimit> {
    cgroup::ancestry(proc, fs_root, "pids")
        .iter()
        .filter_map(read_limit)
        .min_by_key(TaskLimit::room)
}

fn read_limit(group: &Group) -> Option<TaskLimit> {
    let number = |file| group.read(file)?.trim().parse().ok();
    // The word `max`, for no limit, is not a number either.
    let max = number("pids.max")?;
    Some(TaskLimit {
        max,
        current: number("pids.current").unwrap_or(0),
        file: group.dir.join("pids.max"),
    })
}
