//! Why a closure has no value.

use std::any::Any;
use std::fmt;
use std::panic::resume_unwind;

use crate::api::refused::Refused;
use crate::os::panic;
use crate::os::sync::PlainMutex;
use crate::os::sync::plain::PoisonError;

/// What stands in for a payload where there was no panic.
struct NoPanic;

/// The closure panicked, and this is what it panicked with; or its queue refused it.
///
/// It can be sent and shared, whatever the payload is, so `?` turns it into `Box<dyn Error + Send +
/// Sync>` and into the error types of `anyhow` and `eyre`.
pub struct JoinError(Box<Why>);

enum Why {
    Panicked {
        message: Option<Box<str>>,
        /// Payloads can be sent and not shared. Nobody locks it: it is only taken out.
        payload: PlainMutex<Box<dyn Any + Send>>,
    },
    Refused(Refused),
}

impl JoinError {
    pub(in crate::api) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        let message = panic::message(&*payload).map(Box::from);
        Self(Box::new(Why::Panicked { message, payload: PlainMutex::new(payload) }))
    }

    pub(in crate::api) fn refused(why: Refused) -> Self {
        Self(Box::new(Why::Refused(why)))
    }

    /// What a scoped closure's handle says.
    pub(crate) fn into_payload(self) -> Box<dyn Any + Send> {
        match *self.0 {
            Why::Refused(why) => Box::new(why.text()),
            Why::Panicked { .. } => self.into_panic(),
        }
    }

    /// Panics with it: as the closure did, or with why it was refused, of which the hook has not
    /// heard yet.
    #[cold]
    pub(crate) fn raise(self) -> ! {
        match self.why() {
            Some(why) => panic!("{why}"),
            None => resume_unwind(self.into_panic()),
        }
    }

    /// Whether the closure does not run here: the queue was being drained, closed or shut down, and
    /// only what its own items queue is let in then (see
    /// [`Workqueue::drain`](crate::Workqueue::drain) and [`shutdown`](crate::shutdown)); or the
    /// parent of this forked process had queued it, where it runs. [`why`](Self::why) tells these
    /// apart.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.why().is_some()
    }

    /// Why the closure does not run here; never [`Refused::Full`]. `None`: it panicked.
    ///
    /// ```
    /// use cmwq::Refused;
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// wq.clone().close().wait();
    /// let error = wq.queue(|| ()).join().unwrap_err();
    /// assert_eq!(error.why(), Some(Refused::Closed));
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[must_use]
    pub fn why(&self) -> Option<Refused> {
        match *self.0 {
            Why::Refused(why) => Some(why),
            Why::Panicked { .. } => None,
        }
    }

    /// Whether the closure panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        !self.is_refused()
    }

    /// The panic's payload, for `std::panic::resume_unwind` or a downcast. Of a closure that was
    /// refused there was no panic: the result is then a value of a private type, which no downcast
    /// finds. Ask [`is_refused`](Self::is_refused) first.
    #[must_use]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        match *self.0 {
            Why::Panicked { payload, .. } => {
                payload.into_inner().unwrap_or_else(PoisonError::into_inner)
            }
            Why::Refused(_) => Box::new(NoPanic),
        }
    }

    /// The panic's message, if it has one: what `panic!` was given, or any other payload that is a
    /// `&str` or a `String`.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match &*self.0 {
            Why::Panicked { message, .. } => message.as_deref(),
            Why::Refused(_) => None,
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Why::Panicked { message, .. } => {
                let message = message.as_deref().unwrap_or("(no message)");
                write!(f, "the work item panicked: {message}")
            }
            Why::Refused(why) => why.fmt(f),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Why::Panicked { message, .. } => f.debug_tuple("JoinError").field(message).finish(),
            Why::Refused(why) => f.debug_tuple("JoinError").field(why).finish(),
        }
    }
}

impl std::error::Error for JoinError {}
