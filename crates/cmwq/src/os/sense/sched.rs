//! What a thread asks for itself: the idle class, CPUs, niceness, name, timer slack.
//!
//! *Does not* touch other threads, but for [`pin`]: each function is about its caller, so a worker
//! arranges itself when it starts.
//!
//! Names and classes are asked from the kernel itself where C libraries disagree about whether they
//! are per process or per thread.

use core::ffi::{c_long, c_ulong};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;

use crate::os::topo::CpuSet;

/// The kernel's number of the calling thread.
pub(crate) fn gettid() -> libc::pid_t {
    // SAFETY: takes nothing and cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    libc::pid_t::try_from(tid).unwrap_or_default()
}

/// Where the calling thread's stack is; empty if that cannot be told.
pub(crate) fn stack() -> Range<u64> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::zeroed();
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: of the calling thread; writes the attributes if it succeeds.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) } != 0 {
        return 0..0;
    }
    // SAFETY: written by the call above.
    let rc =
        unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size) };
    // SAFETY: as above, and not used any more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    let lowest = lowest as u64;
    if rc == 0 { lowest..lowest + size as u64 } else { 0..0 }
}

/// The CPU that the calling thread was on a moment ago.
#[inline]
pub(crate) fn current_cpu() -> Option<u32> {
    // SAFETY: takes nothing.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).ok()
}

/// How often the calling thread has given up its CPU to wait for something.
pub(crate) fn current_sleeps() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all zeroes is a value of it, and the call writes whole ones.
    let count = unsafe { usage.assume_init() }.ru_nvcsw;
    u64::try_from(count).unwrap_or_default()
}

/// Lets the calling thread run only when nothing else on its CPU wants to (`SCHED_IDLE`).
///
/// There may be no way back: leaving the class takes `RLIMIT_NICE`.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn enter_idle_class() -> io::Result<()> {
    // SAFETY: all zeroes is a value of it; musl has more members than the priority, which is 0.
    let param = unsafe { std::mem::zeroed::<libc::sched_param>() };
    const CURRENT_THREAD: libc::pid_t = 0;
    // Not by the C library's function of that name, which some libraries leave unimplemented.
    // SAFETY: `param` is readable during the call; the rest are numbers.
    let rc = unsafe {
        let class = libc::SCHED_IDLE;
        libc::syscall(libc::SYS_sched_setscheduler, CURRENT_THREAD, class, &raw const param)
    };
    check(rc)
}

/// Confines the calling thread to `cpus`.
///
/// # Errors
/// If none of them can be used.
pub(crate) fn pin_current(cpus: &CpuSet) -> io::Result<()> {
    pin(0, cpus)
}

/// Confines a thread of this process, or the calling one (0), to `cpus`.
///
/// # Errors
/// If none of them can be used.
pub(crate) fn pin(tid: libc::pid_t, cpus: &CpuSet) -> io::Result<()> {
    let words = cpus.to_kernel_words();
    let size = size_of_val(words.as_slice());
    // SAFETY: `words` is readable for the `size` bytes that the call is told.
    let rc = unsafe { libc::sched_setaffinity(tid, size, words.as_ptr().cast()) };
    check(c_long::from(rc))
}

/// Whether a thread was not pinned since none of the CPUs is there, or in its cpuset.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// Sets the niceness of the calling thread alone, from -20 (favoured) to 19.
///
/// # Errors
/// If the caller may not favour itself that much.
pub(crate) fn set_nice_current(nice: i32) -> io::Result<()> {
    let tid = libc::id_t::try_from(gettid()).unwrap_or_default();
    // SAFETY: takes numbers only.
    let rc = unsafe { libc::setpriority(libc::PRIO_PROCESS as _, tid, nice) };
    check(c_long::from(rc))
}

/// The longest name a thread can have, in bytes.
pub(crate) const MAX_THREAD_NAME: usize = 15;

/// As much of a name as a thread can have: cut between characters, and before a zero byte.
pub(crate) fn fitting_name(name: &str) -> &str {
    let name = name.split('\0').next().unwrap_or_default();
    let mut len = name.len().min(MAX_THREAD_NAME);
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    &name[..len]
}

/// The calling thread's name, as `ps -L` shows it.
pub(crate) fn thread_name() -> Vec<u8> {
    let mut name = [0_u8; MAX_THREAD_NAME + 1];
    // SAFETY: the buffer is as large as names are.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

/// How late timers of the calling thread may be. Threads that it creates begin with that.
pub(crate) fn timer_slack_ns() -> u32 {
    // SAFETY: takes a number only.
    let slack_ns = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    // An error is negative; 0 asks for the slack that the thread began with.
    u32::try_from(slack_ns).unwrap_or(0)
}

/// Sets how late timers of the calling thread may be to save wake-ups. The usual slack is 50 000
/// ns; 0 would restore it. Linux takes any; filters and other kernels refuse it, where it stays as
/// it is.
pub(crate) fn set_timer_slack_ns(slack_ns: u32) {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, c_ulong::from(slack_ns)) };
}

fn check(rc: c_long) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::fitting_name;

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(fitting_name("cmwq/0:1"), "cmwq/0:1");
        assert_eq!(fitting_name("123456789012345"), "123456789012345");
        assert_eq!(fitting_name("1234567890123456"), "123456789012345");
        // The last character takes two bytes, of which only one would fit.
        assert_eq!(fitting_name("12345678901234é"), "12345678901234");
        assert_eq!(fitting_name("1234567890123é"), "1234567890123é");
        assert_eq!(fitting_name("a\0b"), "a");
        assert_eq!(fitting_name(""), "");
    }
}
