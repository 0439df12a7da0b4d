//! A real cpuset for this process, where the system lets tests make one: as root, with the cpuset
//! controller of either version of cgroups mounted where it usually is.

use std::path::{Path, PathBuf};
use std::{fs, io, process};

/// This process is in it until the value is dropped.
#[derive(Debug)]
pub(crate) struct Cpuset {
    root: &'static Path,
    dir: PathBuf,
}

/// Version 1, where it is, and the unified hierarchy.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"];

impl Cpuset {
    pub(crate) fn enter(cpus: &[u32]) -> io::Result<Self> {
        let root =
            Path::new(ROOTS.into_iter().find(|root| Path::new(root).exists()).unwrap_or(ROOTS[1]));
        let dir = root.join(format!("cmwq-it-{}", process::id()));
        fs::create_dir(&dir)?;
        let cpuset = Self { root, dir };
        cpuset.set(cpus)?;
        // Version 1 demands it; the other one has all nodes without it.
        if let Ok(mems) = fs::read_to_string(root.join("cpuset.mems")) {
            fs::write(cpuset.dir.join("cpuset.mems"), mems)?;
        }
        fs::write(cpuset.dir.join("cgroup.procs"), process::id().to_string())?;
        Ok(cpuset)
    }

    pub(crate) fn set(&self, cpus: &[u32]) -> io::Result<()> {
        let file = self.dir.join("cpuset.cpus");
        if !file.exists() {
            return Err(io::Error::other("the cpuset controller is not switched on here"));
        }
        let list: Vec<_> = cpus.iter().map(u32::to_string).collect();
        fs::write(file, list.join(","))
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let _ = fs::write(self.root.join("cgroup.procs"), process::id().to_string());
        let _ = fs::remove_dir(&self.dir);
    }
}
