//! How much CPU time a thread has used, or another process, asked from any thread.
//!
//! *Owns* nothing: a clock is a number that names a thread or a process.
//!
//! It is the cheapest question there is about another thread, but answers only "has it run since I
//! last asked?". Blocked and preempted look the same, so it is a filter before the dearer
//! questions.

use core::mem::MaybeUninit;
use std::io;

/// The CPU-time clock of a thread of this process, or of a whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuClock {
    id: libc::clockid_t,
}

/// What of the CPU time: that of all kinds, by the scheduler.
const SCHED: libc::clockid_t = 2;

impl CpuClock {
    /// The clock of the calling thread.
    ///
    /// # Errors
    /// If there are no such clocks.
    pub(crate) fn of_current_thread() -> io::Result<Self> {
        let mut id = MaybeUninit::uninit();
        // SAFETY: the calling thread exists, and `id` is writable.
        let errno = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), id.as_mut_ptr()) };
        if errno != 0 {
            return Err(io::Error::from_raw_os_error(errno));
        }
        // SAFETY: the call succeeded, so it has written `id`.
        Ok(Self { id: unsafe { id.assume_init() } })
    }

    /// The clock of a process with all its threads, those that have ended included, if there is
    /// such a process.
    ///
    /// *Kernel*: "CLOCK_PROCESS_CPUTIME_ID" of others in `clock_getres(2)`; the C library's
    /// `clock_getcpuclockid` makes the same number, and asks the kernel whether it is somebody's.
    pub(super) fn of_process(pid: u32) -> Self {
        Self { id: !pid.cast_signed() << 3 | SCHED }
    }

    /// The clock of a thread of this process, if there is such a thread.
    ///
    /// *Kernel*: as `pthread_getcpuclockid` makes the number.
    pub(super) fn of_thread(tid: libc::pid_t) -> Self {
        /// Of one thread alone.
        const THREAD: libc::clockid_t = 4;
        Self { id: !tid << 3 | THREAD | SCHED }
    }

    /// The CPU time that the thread has used, in nanoseconds; `None` when it has ended. That of a
    /// process lasts until somebody has waited for it; it is as of the scheduler's last tick there,
    /// or last switch.
    ///
    /// The clock goes by the thread's number. Once the thread has ended a new thread may get that
    /// number, and the clock is then that one's: who keeps a clock must know that its thread lives.
    pub(crate) fn now_ns(self) -> Option<u64> {
        read(self.id)
    }
}

/// The CPU time that the calling thread has used, in nanoseconds.
pub(crate) fn current_cpu_time() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

fn read(id: libc::clockid_t) -> Option<u64> {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `now` is writable. Any clock number may be asked for; those of no thread are refused.
    let rc = unsafe { libc::clock_gettime(id, now.as_mut_ptr()) };
    if rc != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it has written `now`.
    let now = unsafe { now.assume_init() };
    let seconds = u64::try_from(now.tv_sec).ok()?;
    let nanoseconds = u64::try_from(now.tv_nsec).ok()?;
    Some(seconds * 1_000_000_000 + nanoseconds)
}
