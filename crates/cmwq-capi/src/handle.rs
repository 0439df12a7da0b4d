//! `struct workqueue_struct *`: a queue of the program's own, or one of the system's.

use std::ptr::NonNull;

use cmwq::Workqueue;
use cmwq::raw::Borrowed;

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

impl Queue {
    /// # Safety
    /// `wq` must be a queue that was not destroyed.
    #[inline]
    pub(crate) unsafe fn of(wq: *mut workqueue_struct) -> Self {
        match NonNull::new(wq) {
            Some(raw) if !system::is_system(wq) => {
                // SAFETY: the caller's promise; what is not the system's comes from `into_raw`.
                Self::Own(unsafe { Borrowed::new(raw.cast()) })
            }
            Some(_) => Self::System(system::queue(wq)),
            None => panic!("a null pointer in place of a workqueue"),
        }
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
