//! Which CPUs there are, and which of them this thread may use.
//!
//! *Does not* cache: affinity masks and hotplug change under a running process.

use core::ffi::c_ulong;
use std::fs;
use std::io;
use std::path::Path;

use super::cpuset::CpuSet;

/// Where sysfs is mounted.
pub(crate) const SYS_ROOT: &str = "/sys";

/// The CPUs that the calling thread may run on, as narrowed by `taskset`, cpusets and hotplug.
///
/// A new thread inherits the mask of the one that starts it, so this is asked before any worker is
/// pinned. If the kernel refuses to say, it is every online CPU, or CPU 0 when even those are not
/// known: never the empty set.
pub(crate) fn allowed_cpus() -> CpuSet {
    affinity_of(0)
        .ok()
        .or_else(|| online_cpus(Path::new(SYS_ROOT)))
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| CpuSet::single(0))
}

/// The CPUs that are switched on, if sysfs below `sys` says so.
pub(crate) fn online_cpus(sys: &Path) -> Option<CpuSet> {
    read_list(&sys.join("devices/system/cpu/online"))
}

/// The CPUs that are plugged in, switched on or not, if sysfs below `sys` says so.
pub(crate) fn present_cpus(sys: &Path) -> Option<CpuSet> {
    read_list(&sys.join("devices/system/cpu/present"))
}

/// The CPUs that could ever be switched on, if sysfs below `sys` says so.
pub(crate) fn possible_cpus(sys: &Path) -> Option<CpuSet> {
    read_list(&sys.join("devices/system/cpu/possible"))
}

/// The CPUs that the administrator keeps free of unbound work (`isolcpus=`, isolated cpuset
/// partitions).
pub(crate) fn isolated_cpus(sys: &Path) -> CpuSet {
    read_list(&sys.join("devices/system/cpu/isolated")).unwrap_or_default()
}

/// A file that holds a CPU list.
pub(super) fn read_list(path: &Path) -> Option<CpuSet> {
    CpuSet::parse_list(&fs::read_to_string(path).ok()?).ok()
}

/// A file that holds one number.
pub(super) fn read_number(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The threads of this process, by the numbers that procfs has for them; none if it does not show
/// the process.
pub(crate) fn threads() -> Vec<libc::pid_t> {
    let Ok(listed) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    listed.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The CPUs that a thread of this process, or the calling one (0), may run on now.
///
/// Asks with growing buffers, because the kernel refuses one that is smaller than its own mask and
/// does not tell how large that is.
pub(crate) fn affinity_of(tid: libc::pid_t) -> io::Result<CpuSet> {
    let mut nr_cpus = 1024;
    loop {
        let mut words: Vec<c_ulong> = vec![0; nr_cpus / c_ulong::BITS as usize];
        let size = size_of_val(words.as_slice());
        // SAFETY: `words` is writable for the `size` bytes that the call is told, and all bit
        // patterns are valid.
        let rc = unsafe { libc::sched_getaffinity(tid, size, words.as_mut_ptr().cast()) };
        if rc == 0 {
            return Ok(CpuSet::from_kernel_words(&words));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || nr_cpus >= CpuSet::MAX_CPUS as usize {
            return Err(error);
        }
        nr_cpus *= 2;
    }
}
