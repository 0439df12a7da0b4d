//! A real cpuset for this process, where the system lets tests make one (root, with the cpuset
//! controller of cgroup version 1 mounted where it usually is).

use std::path::PathBuf;
use std::{fs, io, process};

/// This process is in it until the value is dropped.
#[derive(Debug)]
pub(crate) struct Cpuset(PathBuf);

const ROOT: &str = "/sys/fs/cgroup/cpuset";

impl Cpuset {
    pub(crate) fn enter(cpus: &[usize]) -> io::Result<Self> {
        let dir = PathBuf::from(ROOT).join(format!("cmwq-it-{}", process::id()));
        let mems = fs::read_to_string(PathBuf::from(ROOT).join("cpuset.mems"))?;
        fs::create_dir(&dir)?;
        let cpuset = Self(dir);
        cpuset.set(cpus)?;
        fs::write(cpuset.0.join("cpuset.mems"), mems)?;
        fs::write(cpuset.0.join("cgroup.procs"), process::id().to_string())?;
        Ok(cpuset)
    }

    pub(crate) fn set(&self, cpus: &[usize]) -> io::Result<()> {
        let list: Vec<_> = cpus.iter().map(usize::to_string).collect();
        fs::write(self.0.join("cpuset.cpus"), list.join(","))
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let _ = fs::write(PathBuf::from(ROOT).join("cgroup.procs"), process::id().to_string());
        let _ = fs::remove_dir(&self.0);
    }
}
