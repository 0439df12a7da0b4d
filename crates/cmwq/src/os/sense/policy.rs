//! The scheduling policy of the calling thread: class, niceness, real-time priority, deadline.
//!
//! By `sched_setattr`, which sets all of it at once, so that nothing is left of what a thread
//! inherited from its creator.

use core::ffi::c_long;
use std::io;

/// `struct sched_attr` in its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    size: u32,
    class: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const SIZE: u32 = size_of::<Policy>() as u32;
const NO_FLAGS: u32 = 0;
/// Threads created by this one begin as normal ones. The kernel insists on it for deadline threads.
const RESET_ON_FORK: u64 = 1;
const SCHED_DEADLINE: u32 = 6;
const CURRENT_THREAD: libc::pid_t = 0;

impl Policy {
    const NORMAL: Self = Self {
        size: SIZE,
        class: libc::SCHED_OTHER as u32,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime_ns: 0,
        deadline_ns: 0,
        period_ns: 0,
    };

    pub(crate) const fn normal(nice: i32) -> Self {
        Self { nice, ..Self::NORMAL }
    }

    /// `SCHED_FIFO`, or `SCHED_RR` with `round_robin`; priority 1 to 99.
    pub(crate) const fn real_time(priority: u8, round_robin: bool) -> Self {
        let class = if round_robin { libc::SCHED_RR } else { libc::SCHED_FIFO };
        Self { class: class as u32, priority: priority as u32, ..Self::NORMAL }
    }

    /// `SCHED_DEADLINE`.
    pub(crate) const fn deadline(runtime_ns: u64, deadline_ns: u64, period_ns: u64) -> Self {
        let flags = RESET_ON_FORK;
        Self { class: SCHED_DEADLINE, flags, runtime_ns, deadline_ns, period_ns, ..Self::NORMAL }
    }

    /// The calling thread's.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn of_current_thread() -> io::Result<Self> {
        let mut policy = Self::NORMAL;
        // SAFETY: `policy` is writable for the size that the call is told; the rest are numbers.
        let rc = unsafe {
            libc::syscall(libc::SYS_sched_getattr, CURRENT_THREAD, &raw mut policy, SIZE, NO_FLAGS)
        };
        check(rc)?;
        // What the kernel tells of a newer version would be refused when it is given back.
        policy.size = SIZE;
        Ok(policy)
    }

    /// Makes it the calling thread's.
    ///
    /// # Errors
    /// If the thread may not have it.
    pub(crate) fn assume(&self) -> io::Result<()> {
        // SAFETY: `self` is readable for the size in it; the rest are numbers.
        let rc = unsafe {
            libc::syscall(libc::SYS_sched_setattr, CURRENT_THREAD, &raw const *self, NO_FLAGS)
        };
        check(rc)
    }

    /// Whether a thread that has this policy has `other` as far as scheduling goes.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        Self { flags: 0, ..self.without_slice() } == Self { flags: 0, ..other.without_slice() }
    }

    /// The kernel tells a normal thread's slice in the place of a deadline thread's runtime.
    fn without_slice(self) -> Self {
        let is_deadline = self.class == SCHED_DEADLINE;
        Self { runtime_ns: if is_deadline { self.runtime_ns } else { 0 }, ..self }
    }

    /// Whether the two differ in niceness only, for which there is a call of its own.
    pub(crate) fn is_normal_like(&self, other: &Self) -> bool {
        let is_normal = |policy: &Self| policy.class == Self::NORMAL.class;
        is_normal(self) && is_normal(other)
    }

    pub(crate) const fn niceness(&self) -> i32 {
        self.nice
    }

    pub(crate) fn is_deadline(&self) -> bool {
        self.class == SCHED_DEADLINE
    }
}

fn check(rc: c_long) -> io::Result<()> {
    if rc >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
