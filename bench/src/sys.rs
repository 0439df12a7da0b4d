//! The few operating-system calls that the loads are made of. Thin, so that a reader can see what
//! an item costs.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::futex::{self, Flags};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// CPUs that this process should size a pool for: the affinity mask and the cgroup quota, which is
/// what the peers use for their own defaults too.
pub(crate) fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The ids of the CPUs in this process' affinity mask.
pub(crate) fn allowed_cpus() -> Result<Vec<u32>> {
    let mask = sched_getaffinity(None).context("reading this process' CPU affinity mask")?;
    Ok((0..CpuSet::MAX_CPU as u32).filter(|&cpu| mask.is_set(cpu as usize)).collect())
}

/// Keeps the calling thread on one CPU.
pub(crate) fn pin_to(cpu: u32) -> Result<()> {
    let mut mask = CpuSet::new();
    mask.set(cpu as usize);
    sched_setaffinity(None, &mask).with_context(|| format!("pinning a thread to CPU {cpu}"))
}

/// The CPU that the caller is on at the moment.
pub(crate) fn current_cpu() -> u32 {
    sched_getcpu() as u32
}

/// The calling thread, and what it starts, on its first CPU alone; dropping this allows all again.
#[derive(Debug)]
pub(crate) struct OneCpu(CpuSet);

impl OneCpu {
    pub(crate) fn pin() -> Result<Self> {
        let before = sched_getaffinity(None).context("reading this process' CPU affinity mask")?;
        let first = allowed_cpus()?.into_iter().next().context("no CPU to run on")?;
        pin_to(first)?;
        Ok(Self(before))
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        // Fails only if those CPUs have gone meanwhile, and then the kernel has chosen others.
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// Makes the kernel kill this process when the one that started it goes away, so that an
/// interrupted run leaves nothing burning CPU behind.
pub(crate) fn die_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("asking to be killed together with the parent process")
}

/// Nanoseconds since boot, comparable between threads.
pub(crate) fn now_ns() -> u64 {
    to_ns(clock_gettime(ClockId::Monotonic))
}

/// What processes have used so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) cpu_ns: u64,
    /// Context switches, those of threads that have ended included.
    pub(crate) switches: u64,
}

/// Of this process.
pub(crate) fn own_usage() -> Result<Used> {
    usage(UsageWho::RUSAGE_SELF)
}

/// Of its children that were waited for.
pub(crate) fn children_usage() -> Result<Used> {
    usage(UsageWho::RUSAGE_CHILDREN)
}

fn usage(who: UsageWho) -> Result<Used> {
    let usage = getrusage(who).context("reading what this process has used")?;
    let cpu = usage.user_time() + usage.system_time();
    let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
    Ok(Used {
        cpu_ns: u64::try_from(cpu.num_microseconds()).unwrap_or(0) * 1000,
        switches: u64::try_from(switches).unwrap_or(0),
    })
}

/// CPU time of all threads of this process so far, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    to_ns(clock_gettime(ClockId::ProcessCPUTime))
}

/// Burns CPU time of the calling thread: time in which something else had the CPU does not count.
pub(crate) fn burn(cpu_time: Duration) {
    let clock = || to_ns(clock_gettime(ClockId::ThreadCPUTime));
    let end = clock() + duration_ns(cpu_time);
    while clock() < end {}
}

/// Blocks in the kernel until [`release`] or until `limit` has passed.
///
/// A bare futex call: no lock of a library, no spinning first, so "about to block" and "blocked"
/// are microseconds apart.
pub(crate) fn block_until_released(word: &AtomicU32, limit: Duration) {
    let end = Instant::now() + limit;
    // ORDERING: Acquire pairs with the Release store in `release`.
    while word.load(Ordering::Acquire) == 0 {
        let Some(left) = end.checked_duration_since(Instant::now()) else { return };
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        // Woken, interrupted, timed out, or the word had changed: the loop condition decides in
        // each case.
        let _ = futex::wait(word, Flags::PRIVATE, 0, Some(&left));
    }
}

/// Ends every [`block_until_released`] on `word`.
pub(crate) fn release(word: &AtomicU32) {
    // ORDERING: Release pairs with the Acquire load in `block_until_released`.
    word.store(1, Ordering::Release);
    // Fails only for a misaligned word, which an `AtomicU32` cannot be.
    let _ = futex::wake(word, Flags::PRIVATE, i32::MAX as u32);
}

/// Duration in nanoseconds; anything over five centuries saturates.
pub(crate) fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn to_ns(time: Timespec) -> u64 {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Memory of this process that is resident, in bytes.
pub(crate) fn resident_bytes() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("reading /proc/self/statm")?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1).unwrap_or_default().parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// What the kernel has fetched from devices for this process so far, in bytes; `None` if it does
/// not count.
pub(crate) fn fetched_bytes() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// A process' number of threads, read again and again through one open file.
pub(crate) struct ThreadCount(File);

impl ThreadCount {
    /// For the process with this directory name below `/proc`: an id, or `self`.
    pub(crate) fn of(process: &str) -> Result<Self> {
        let path = format!("/proc/{process}/status");
        File::open(&path).map(Self).with_context(|| format!("opening {path}"))
    }

    /// `None` once the process has exited.
    pub(crate) fn read(&self) -> Option<u64> {
        let mut status = [0; 4096];
        let length = self.0.read_at(&mut status, 0).ok()?;
        let status = String::from_utf8_lossy(&status[..length]);
        status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burning_takes_cpu_time_of_this_thread() {
        let before = clock_gettime(ClockId::ThreadCPUTime);
        burn(Duration::from_millis(2));
        let after = clock_gettime(ClockId::ThreadCPUTime);
        assert!(to_ns(after) - to_ns(before) >= 2_000_000);
    }

    #[test]
    fn a_block_ends_at_its_limit_or_when_released() {
        let word = AtomicU32::new(0);
        let start = Instant::now();
        block_until_released(&word, Duration::from_millis(5));
        assert!(start.elapsed() >= Duration::from_millis(5), "nobody released it");
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| block_until_released(&word, Duration::from_secs(600)));
            release(&word);
            blocked.join().unwrap();
        });
    }

    #[test]
    fn one_cpu_for_a_while() {
        // In a thread of its own: the mask belongs to a thread.
        let seen = std::thread::spawn(|| {
            let before = allowed_cpus().unwrap();
            let pinned = OneCpu::pin().unwrap();
            let meanwhile = allowed_cpus().unwrap();
            drop(pinned);
            (before, meanwhile, allowed_cpus().unwrap())
        });
        let (before, meanwhile, after) = seen.join().unwrap();
        assert_eq!(meanwhile, before[..1]);
        assert_eq!(after, before);
    }

    #[test]
    fn what_a_process_uses_is_counted() {
        let before = own_usage().unwrap();
        burn(Duration::from_millis(20));
        // The kernel may split the time between user and system a little differently each time.
        assert!(own_usage().unwrap().cpu_ns - before.cpu_ns >= 15_000_000);
        assert!(std::process::Command::new("true").status().unwrap().success());
        assert!(children_usage().unwrap().cpu_ns > 0);
    }

    #[test]
    fn threads_of_this_process_are_counted() {
        let count = ThreadCount::of("self").unwrap();
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || receive.recv());
        assert!(count.read().unwrap() >= 2, "this thread and the waiting one");
        drop(send);
        assert!(waiting.join().unwrap().is_err());
    }
}
