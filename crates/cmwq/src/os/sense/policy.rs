//! The scheduling policy of a thread: class, niceness, real-time priority, deadline, slice.
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
    /// Of a normal thread: the slice that it asks for, 0 for the usual one. From 6.12 on.
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const SIZE: u32 = size_of::<Policy>() as u32;
const NO_FLAGS: u32 = 0;
/// `SCHED_FLAG_RESET_ON_FORK`: threads created by this one begin as normal ones. The kernel insists
/// on it for deadline threads.
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
        Self::of(CURRENT_THREAD)
    }

    /// What the threads of the process have that were given no other: what its first thread hands
    /// on. If that is a real-time thread and the caller is not, what the caller hands on.
    pub(crate) fn of_process() -> Self {
        let mine = Self::of_current_thread().map_or(Self::NORMAL, Self::handed_on);
        // SAFETY: takes nothing and cannot fail.
        match Self::of(unsafe { libc::getpid() }).map(Self::handed_on) {
            Ok(first) if mine.is_real_time() || !first.is_real_time() => first,
            _ => mine,
        }
    }

    fn of(tid: libc::pid_t) -> io::Result<Self> {
        Self::by_newer_call(tid).or_else(|error| Self::by_older_calls(tid).ok_or(error))
    }

    fn by_newer_call(tid: libc::pid_t) -> io::Result<Self> {
        let mut policy = Self::NORMAL;
        // SAFETY: `policy` is writable for the size that the call is told; the rest are numbers.
        let rc =
            unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut policy, SIZE, NO_FLAGS) };
        check(rc)?;
        // What the kernel tells of a newer version would be refused when it is given back.
        policy.size = SIZE;
        Ok(policy)
    }

    /// More sandboxes permit these. They do not tell what a deadline thread has.
    fn by_older_calls(tid: libc::pid_t) -> Option<Self> {
        // SAFETY: all zeroes is a value of it; musl has more members than the priority.
        let mut param = unsafe { std::mem::zeroed::<libc::sched_param>() };
        // Not by the C library's functions, which some libraries leave unimplemented.
        // SAFETY: `param` is writable; the rest are numbers.
        let (class, rc, nice) = unsafe {
            (
                libc::syscall(libc::SYS_sched_getscheduler, tid),
                libc::syscall(libc::SYS_sched_getparam, tid, &raw mut param),
                libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid),
            )
        };
        check(rc).ok()?;
        let class = u32::try_from(class).ok()?;
        let resets = class & libc::SCHED_RESET_ON_FORK.unsigned_abs() != 0;
        let class = class & !libc::SCHED_RESET_ON_FORK.unsigned_abs();
        let priority = u32::try_from(param.sched_priority).ok()?;
        // The call itself has 20 less the level.
        let nice = 20 - i32::try_from(nice).ok().filter(|nice| *nice > 0)?;
        let nice = if priority > 0 { 0 } else { nice };
        let flags = if resets { RESET_ON_FORK } else { 0 };
        let policy = Self { class, flags, nice, priority, ..Self::NORMAL };
        (!policy.is_deadline()).then_some(policy)
    }

    /// What threads begin with that are created by one with this policy.
    fn handed_on(self) -> Self {
        let begins = Self { flags: 0, ..self.without_slice() };
        match self.flags & RESET_ON_FORK {
            0 => begins,
            _ if self.is_real_time() || self.is_deadline() => Self::NORMAL,
            _ => Self { nice: self.nice.max(0), ..begins },
        }
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

    fn is_real_time(&self) -> bool {
        self.priority > 0
    }

    pub(crate) fn is_deadline(&self) -> bool {
        self.class == SCHED_DEADLINE
    }
}

/// Asks for short slices of CPU time: where a thread that woke up asks for less than the one that
/// has the CPU, it need not wait for the end of that one's slice. Its share of the CPU is the same.
/// Threads of favourable niceness, and those of a real-time or another policy, keep what they have.
///
/// # Errors
/// If the kernel refuses. Older ones accept it and do nothing.
pub(crate) fn set_slice_ns_current(slice_ns: u64) -> io::Result<()> {
    let has = Policy::by_newer_call(CURRENT_THREAD)?;
    if has.nice < 0 || has.class != Policy::NORMAL.class {
        // The flag below would take that from the threads that this one creates, and without
        // privileges they could not have it back.
        return Ok(());
    }
    // Workers that this thread creates have the usual slice.
    Policy { runtime_ns: slice_ns, flags: has.flags | RESET_ON_FORK, ..has }.assume()
}

fn check(rc: c_long) -> io::Result<()> {
    if rc >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_calls_tell_the_same() {
        let newer = Policy::of_current_thread().unwrap();
        let older = Policy::by_older_calls(CURRENT_THREAD).unwrap();
        assert!(older.is_like(&newer), "{older:?}, {newer:?}");
        assert_eq!(Policy::by_older_calls(-1), None);
    }

    #[test]
    fn what_is_reset_is_not_handed_on() {
        let resets = |policy| Policy { flags: RESET_ON_FORK, ..policy };
        let fifo = Policy::real_time(3, false);
        assert_eq!(fifo.handed_on(), fifo);
        assert_eq!(resets(fifo).handed_on(), Policy::NORMAL);
        assert_eq!(Policy::deadline(1, 2, 3).handed_on(), Policy::NORMAL);
        assert_eq!(Policy::normal(-4).handed_on(), Policy::normal(-4));
        assert_eq!(resets(Policy::normal(-4)).handed_on(), Policy::normal(0));
        assert_eq!(resets(Policy::normal(4)).handed_on(), Policy::normal(4));
    }
}
