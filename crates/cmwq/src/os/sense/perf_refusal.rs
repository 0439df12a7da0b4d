//! Why switch records cannot be had, and what would help.
//!
//! *Does not* try anything but reading one setting; [`probe`] tries, by opening and closing what a
//! worker would open.

use core::error::Error;
use core::fmt;
use std::fs;
use std::io;

use super::kernel;
use super::perf::SwitchRecords;

/// Tries to record the calling thread.
///
/// # Errors
/// If it cannot be done.
pub(crate) fn probe() -> Result<(), Refusal> {
    if !kernel::is_from(TELLS_PREEMPTION) {
        let source = io::ErrorKind::Unsupported.into();
        return Err(Refusal { cause: RefusalCause::Absent, source });
    }
    SwitchRecords::open_current_thread().map(drop)
}

/// The version from which a record says whether the thread was preempted. In those before, it would
/// be taken for blocked.
const TELLS_PREEMPTION: (u32, u32) = (4, 17);

/// Why a thread's switches cannot be recorded. Prints as an explanation with advice.
#[derive(Debug)]
pub(crate) struct Refusal {
    cause: RefusalCause,
    source: io::Error,
}

/// What stands in the way of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The setting `kernel.perf_event_paranoid`, which has this value, asks for more privilege than
    /// we have.
    Paranoid(i32),
    /// A system call filter, as containers have, or a security module.
    Forbidden,
    /// The kernel records no context switches.
    Absent,
    /// No more descriptors may be opened.
    Descriptors,
    /// No more memory may be locked.
    LockedMemory,
    /// None of these.
    Other,
}

impl Refusal {
    /// Explains why the event could not be opened.
    pub(super) fn of_event(source: io::Error) -> Self {
        Self { cause: event_cause(source.raw_os_error(), read_paranoid()), source }
    }

    /// Explains why the ring of an event that was opened could not be mapped.
    pub(super) fn of_ring(source: io::Error) -> Self {
        Self { cause: ring_cause(source.raw_os_error()), source }
    }

    /// What stands in the way.
    pub(crate) fn cause(&self) -> RefusalCause {
        self.cause
    }
}

impl RefusalCause {
    /// What is in the way, in words.
    pub fn reason(self) -> String {
        match self {
            Self::Paranoid(level) => format!("kernel.perf_event_paranoid is {level}"),
            Self::Forbidden => {
                "a system call filter or security module forbids perf_event_open".to_owned()
            }
            Self::Absent => "this kernel does not offer it".to_owned(),
            Self::Descriptors => "no file descriptors are left".to_owned(),
            Self::LockedMemory => "no more memory may be locked".to_owned(),
            Self::Other => "perf_event_open failed".to_owned(),
        }
    }

    /// What to do about it.
    pub fn advice(self) -> String {
        match self {
            Self::Paranoid(_) => format!(
                "set it to {MAX_PARANOID} or less \
                 (sysctl kernel.perf_event_paranoid={MAX_PARANOID}) or grant CAP_PERFMON"
            ),
            Self::Forbidden => {
                "in a container, use a seccomp profile that allows it or grant CAP_PERFMON"
                    .to_owned()
            }
            Self::Absent => {
                "it takes a 64-bit Linux 4.17 or later with CONFIG_PERF_EVENTS".to_owned()
            }
            Self::Descriptors => "raise the limit (ulimit -n)".to_owned(),
            Self::LockedMemory => {
                "raise kernel.perf_event_mlock_kb or the limit (ulimit -l)".to_owned()
            }
            Self::Other => "perf_event_open(2) tells what the error means".to_owned(),
        }
    }
}

/// The strictest `perf_event_paranoid` at which a thread without privilege may record itself.
const MAX_PARANOID: i32 = 2;

fn event_cause(errno: Option<i32>, paranoid: Option<i32>) -> RefusalCause {
    match (errno, paranoid) {
        // The kernel's own answer to too little privilege. Filters are set to answer EPERM or
        // ENOSYS.
        (Some(libc::EACCES), Some(level)) if level > MAX_PARANOID => RefusalCause::Paranoid(level),
        (Some(libc::EACCES | libc::EPERM), _) => RefusalCause::Forbidden,
        // A kernel that has the setting has the call, so somebody else denies it.
        (Some(libc::ENOSYS), Some(_)) => RefusalCause::Forbidden,
        (Some(libc::ENOSYS | libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP), _) => {
            RefusalCause::Absent
        }
        (Some(libc::EMFILE | libc::ENFILE), _) => RefusalCause::Descriptors,
        // The one error without a number: this program cannot read records on 32-bit machines.
        (None, _) => RefusalCause::Absent,
        _ => RefusalCause::Other,
    }
}

fn ring_cause(errno: Option<i32>) -> RefusalCause {
    match errno {
        // Past `perf_event_mlock_kb` and RLIMIT_MEMLOCK together, mapping is not permitted.
        Some(libc::EPERM) => RefusalCause::LockedMemory,
        None => RefusalCause::Absent,
        _ => RefusalCause::Other,
    }
}

fn read_paranoid() -> Option<i32> {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reason, advice, source) = (self.cause.reason(), self.cause.advice(), &self.source);
        write!(f, "context switches cannot be recorded: {reason}; {advice} ({source})")
    }
}

/// Without a `source`, which the message has.
impl Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        let kind = refusal.source.kind();
        Self::new(kind, refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::{Refusal, RefusalCause, event_cause, ring_cause};
    use std::io;

    #[test]
    fn causes_are_told_apart() {
        use RefusalCause::{Absent, Descriptors, Forbidden, LockedMemory, Other, Paranoid};
        assert_eq!(event_cause(Some(libc::EACCES), Some(3)), Paranoid(3));
        assert_eq!(event_cause(Some(libc::EACCES), Some(2)), Forbidden);
        assert_eq!(event_cause(Some(libc::EACCES), None), Forbidden);
        assert_eq!(event_cause(Some(libc::EPERM), Some(4)), Forbidden);
        assert_eq!(event_cause(Some(libc::ENOSYS), Some(2)), Forbidden);
        assert_eq!(event_cause(Some(libc::ENOSYS), None), Absent);
        assert_eq!(event_cause(Some(libc::EINVAL), Some(2)), Absent);
        assert_eq!(event_cause(Some(libc::EMFILE), Some(2)), Descriptors);
        assert_eq!(event_cause(Some(libc::ENOMEM), Some(2)), Other);
        assert_eq!(ring_cause(Some(libc::EPERM)), LockedMemory);
        assert_eq!(ring_cause(Some(libc::ENOMEM)), Other);
    }

    #[test]
    fn explanations_say_what_to_do_and_keep_the_error() {
        let full = Refusal::of_event(io::Error::from_raw_os_error(libc::EMFILE));
        assert!(full.to_string().contains("ulimit -n"), "{full}");
        assert!(full.to_string().ends_with("(os error 24))"), "{full}");
        let short = Refusal::of_ring(io::Error::from_raw_os_error(libc::EPERM));
        assert!(short.to_string().contains("perf_event_mlock_kb"), "{short}");
        assert_eq!(io::Error::from(short).kind(), io::ErrorKind::PermissionDenied);
    }
}
