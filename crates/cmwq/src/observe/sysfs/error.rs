//! Why an attribute cannot be read or written.

use std::fmt;

use crate::os::error::{Error, ErrorKind};

/// What kind of failure an [`AttributeError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such attribute, or not for this kind of queue (`ENOENT`).
    Absent,
    /// It can be read only (`EACCES`).
    ReadOnly,
    /// The queue is not [registered](crate::observe::sysfs), so it can be read only (`ENOENT`).
    NotRegistered,
    /// The value makes no sense, or is out of range (`EINVAL`; `EOVERFLOW` for a mask that is too
    /// wide).
    Invalid,
    /// The process may not have the priority (`EPERM`).
    NotPermitted,
    /// The value could not be tried, or the queue is another process's (`EAGAIN`).
    Unavailable,
}

impl Refusal {
    /// Its name in the control protocol: `absent`, `read-only`, `not-registered`, `invalid`,
    /// `not-permitted` or `unavailable`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::ReadOnly => "read-only",
            Self::NotRegistered => "not-registered",
            Self::Invalid => "invalid",
            Self::NotPermitted => "not-permitted",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Why an attribute cannot be read or written; its text says what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeError {
    refusal: Refusal,
    errno: i32,
    what: String,
}

impl AttributeError {
    pub(super) fn new(refusal: Refusal, what: impl Into<String>) -> Self {
        let errno = match refusal {
            Refusal::Absent | Refusal::NotRegistered => libc::ENOENT,
            Refusal::ReadOnly => libc::EACCES,
            Refusal::Invalid => libc::EINVAL,
            Refusal::NotPermitted => libc::EPERM,
            Refusal::Unavailable => libc::EAGAIN,
        };
        Self { refusal, errno, what: what.into() }
    }

    pub(super) fn invalid(what: impl Into<String>) -> Self {
        Self::new(Refusal::Invalid, what)
    }

    pub(super) fn overflow(what: impl Into<String>) -> Self {
        Self { errno: libc::EOVERFLOW, ..Self::invalid(what) }
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        self.refusal
    }

    /// What a read or write of the kernel's file would have failed with.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

pub(super) fn no_such(name: &str, of: &str, known: &[&str]) -> AttributeError {
    let known = known.join(", ");
    AttributeError::new(Refusal::Absent, format!("{of} has no attribute '{name}', but {known}"))
}

impl fmt::Display for AttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for AttributeError {}

impl From<Error> for AttributeError {
    fn from(error: Error) -> Self {
        let refusal = match error.kind() {
            ErrorKind::PermissionDenied => Refusal::NotPermitted,
            ErrorKind::InvalidInput => Refusal::Invalid,
            _ => Refusal::Unavailable,
        };
        Self::new(refusal, error.to_string())
    }
}
