//! `struct workqueue_struct *`: a queue of the program's own, or one of the system's.
//!
//! Why: docs/decisions/c-queues-are-pointers.md

use std::ptr::NonNull;

use cmwq::raw::{self, Borrowed};
use cmwq::{Error, ErrorKind, Workqueue};

use crate::face;
use crate::system;

/// What C has pointers to; it knows no more of it.
#[expect(non_camel_case_types, reason = "the name is C's")]
pub struct workqueue_struct {
    _opaque: [u8; 0],
}

/// A queue from C.
pub(crate) enum Queue {
    Own(Borrowed),
    System(&'static Workqueue),
}

/// Why there is no queue, which has been said.
pub(crate) enum NoQueue {
    Null,
    NoThread,
    /// It was not made before the library was shut down.
    Shut,
}

impl NoQueue {
    /// As an error number.
    pub(crate) fn errno(&self) -> i32 {
        match self {
            Self::Null => -libc::EINVAL,
            Self::NoThread => -libc::ENOMEM,
            Self::Shut => -libc::ENODEV,
        }
    }
}

impl Queue {
    /// The queue, for the function `here`. `None`: there is none, which has been said.
    ///
    /// # Safety
    /// `wq` must be null, or a queue that was not destroyed.
    #[inline]
    pub(crate) unsafe fn of(here: &str, wq: *mut workqueue_struct) -> Option<Self> {
        // SAFETY: passed on to the caller.
        unsafe { Self::find(here, wq) }.ok()
    }

    /// As [`of`](Self::of), with what is wrong.
    ///
    /// # Safety
    /// As for `of`.
    #[inline]
    pub(crate) unsafe fn find(here: &str, wq: *mut workqueue_struct) -> Result<Self, NoQueue> {
        let Some(raw) = NonNull::new(wq) else {
            face::say_null(here, "workqueue");
            return Err(NoQueue::Null);
        };
        let found = if system::is_system(wq) {
            system::queue(wq).map(Self::System)
        } else {
            // SAFETY: the caller's promise; what is not the system's comes from `into_raw`.
            Ok(Self::Own(unsafe { Borrowed::new(raw.cast()) }))
        };
        found.and_then(Self::ready).map_err(|error| cannot_be_made(here, &error))
    }

    /// A queue of the program's own that is there, without a word if it is none.
    ///
    /// # Safety
    /// As for `of`.
    #[inline(always)]
    pub(crate) unsafe fn of_own(wq: *mut workqueue_struct) -> Option<Self> {
        let raw = NonNull::new(wq).filter(|_| !system::is_system(wq))?;
        // SAFETY: the caller's promise; what is not the system's comes from `into_raw`.
        let own = unsafe { Borrowed::new(raw.cast()) };
        raw::is_ready(&own).then_some(Self::Own(own))
    }

    /// In a child of a fork it may have to be made anew.
    #[inline]
    fn ready(self) -> Result<Self, Error> {
        raw::make_ready(&self).map(|()| self)
    }
}

/// Says it, too.
#[cold]
pub(crate) fn cannot_be_made(here: &str, error: &Error) -> NoQueue {
    face::say_refused(here, error);
    match error.kind() {
        ErrorKind::Unavailable => NoQueue::Shut,
        _ => NoQueue::NoThread,
    }
}

impl std::ops::Deref for Queue {
    type Target = Workqueue;

    #[inline]
    fn deref(&self) -> &Workqueue {
        match self {
            Self::Own(wq) => wq,
            Self::System(wq) => wq,
        }
    }
}
