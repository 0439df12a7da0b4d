//! Why a closure has no value.

use std::any::Any;
use std::fmt;

use crate::os::panic;

/// What stands in for a payload where there was no panic.
struct Refused;

/// The closure panicked, and this is what it panicked with; or its queue refused it.
pub struct JoinError(Box<dyn Any + Send>);

impl JoinError {
    pub(super) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self(payload)
    }

    pub(super) fn refused() -> Self {
        Self(Box::new(Refused))
    }

    /// Whether the closure did not run: the queue was being drained or shut down, and only what its
    /// own items queue is let in then. See [`Workqueue::drain`](crate::Workqueue::drain) and
    /// [`shutdown`](crate::shutdown).
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.0.is::<Refused>()
    }

    /// Whether the closure panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        !self.is_refused()
    }

    /// The panic's payload, for `std::panic::resume_unwind` or a downcast. Of a closure that was
    /// refused, something that nobody knows.
    #[must_use]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        self.0
    }

    /// The panic's message, if it has one.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        panic::message(&*self.0)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_refused() {
            return f.write_str(
                "the workqueue was being drained or shut down and refused the work item",
            );
        }
        write!(f, "the work item panicked: {}", self.message().unwrap_or("(no message)"))
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_refused() {
            return f.write_str("JoinError(Refused)");
        }
        f.debug_tuple("JoinError").field(&self.message()).finish()
    }
}

impl std::error::Error for JoinError {}
