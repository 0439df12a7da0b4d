//! How much of descriptors, threads and memory the process may have.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use cmwq::Detect;
use cmwq::shared::TaskLimit;

/// What the process may have. `None` is "no limit" or, for settings of the kernel, "cannot be
/// read".
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Limits {
    /// Threads of the user (`ulimit -u`). Does not bind privileged users.
    pub nproc: Rlimit,
    /// Open files (`ulimit -n`).
    pub nofile: Rlimit,
    /// Locked memory in bytes (`ulimit -l`).
    pub memlock: Rlimit,
    /// How far threads may favour themselves: 20 less this is the best nice level (`ulimit -e`).
    pub nice: Rlimit,
    /// Real-time priority (`ulimit -r`).
    pub rtprio: Rlimit,
    /// `kernel.perf_event_paranoid`: above 2, recording switches takes `CAP_PERFMON`.
    pub perf_event_paranoid: Option<i64>,
    /// `kernel.perf_event_mlock_kb`: how much memory a user's records may lock for each CPU, in
    /// KiB.
    pub perf_event_mlock_kb: Option<u64>,
    /// Threads of the whole system (`kernel.threads-max`).
    pub threads_max: Option<u64>,
    /// The tightest limit on threads among the process's cgroups.
    pub cgroup_pids: Option<CgroupPids>,
    /// Descriptors that are open now; `None` if they cannot be counted.
    pub open_files: Option<u64>,
}

/// A resource limit; `None` is "unlimited".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rlimit {
    /// The limit in force.
    pub soft: Option<u64>,
    /// How far the process may raise it.
    pub hard: Option<u64>,
}

/// A limit on the threads of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CgroupPids {
    /// How many there may be.
    pub max: u64,
    /// How many there are.
    pub current: u64,
    /// The file that says so.
    pub file: PathBuf,
}

/// Descriptors and locked pages that the switch records of a worker take.
const RECORDS_FDS: u64 = 2;
const RECORDS_PAGES: u64 = 4;

/// Descriptors of a worker by which its state is read.
const STATE_FDS: u64 = 1;

impl Limits {
    pub(super) fn read(pids: Option<TaskLimit>) -> Self {
        let pids = pids.map(|it| CgroupPids { max: it.max, current: it.current, file: it.file });
        Self {
            nproc: Rlimit::read(libc::RLIMIT_NPROC as _),
            nofile: Rlimit::read(libc::RLIMIT_NOFILE as _),
            memlock: Rlimit::read(libc::RLIMIT_MEMLOCK as _),
            nice: Rlimit::read(libc::RLIMIT_NICE as _),
            rtprio: Rlimit::read(libc::RLIMIT_RTPRIO as _),
            perf_event_paranoid: kernel_setting("perf_event_paranoid"),
            perf_event_mlock_kb: kernel_setting("perf_event_mlock_kb"),
            threads_max: kernel_setting("threads-max"),
            cgroup_pids: pids,
            open_files: fs::read_dir("/proc/self/fd").ok().map(|open| open.count() as u64),
        }
    }

    /// For how many workers there are descriptors; `None` if nothing limits them.
    pub(super) fn workers_by_files(&self, detect: Detect) -> Option<u64> {
        let each = match detect {
            Detect::Perf => RECORDS_FDS + STATE_FDS,
            _ => STATE_FDS,
        };
        let free = self.nofile.soft?.saturating_sub(self.open_files.unwrap_or(0));
        Some(free / each)
    }

    /// For how many workers the memory of switch records may be locked, if the user locks none
    /// elsewhere; `None` if nothing limits it.
    ///
    /// KERNEL: what exceeds the user's share of `perf_event_mlock_kb` for each CPU counts against
    /// `RLIMIT_MEMLOCK`.
    pub(super) fn workers_by_locked_memory(&self, nr_online: u64) -> Option<u64> {
        let share = self.perf_event_mlock_kb? << 10;
        let bytes = share.saturating_mul(nr_online).saturating_add(self.memlock.soft?);
        Some(bytes / (RECORDS_PAGES * page_size()))
    }

    /// How many more threads the cgroup has room for; `None` if it sets no limit.
    pub(super) fn threads_by_cgroup(&self) -> Option<u64> {
        self.cgroup_pids.as_ref().map(|pids| pids.max.saturating_sub(pids.current))
    }
}

impl Rlimit {
    /// A limit that cannot be read binds nobody.
    fn read(resource: u32) -> Self {
        // A `struct rlimit64`: the soft limit, then the hard one.
        let mut limits = [u64::MAX; 2];
        const THIS_PROCESS: libc::pid_t = 0;
        const NO_CHANGE: *const u64 = std::ptr::null();
        // By the call itself, since C libraries disagree about the type of `resource`. SAFETY:
        // `limits` is writable, of the size and layout that the call fills; the null pointer asks
        // for no change.
        let _ = unsafe {
            libc::syscall(
                libc::SYS_prlimit64,
                THIS_PROCESS,
                resource,
                NO_CHANGE,
                limits.as_mut_ptr(),
            )
        };
        let [soft, hard] = limits.map(|limit| (limit != u64::MAX).then_some(limit));
        Self { soft, hard }
    }
}

pub(super) fn page_size() -> u64 {
    // SAFETY: takes a number only.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

fn kernel_setting<T: FromStr>(name: &str) -> Option<T> {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}
