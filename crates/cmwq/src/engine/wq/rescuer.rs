//! A queue's rescuer as its callers know it; what its thread does is in
//! [`threads::rescuer`](crate::engine::threads::rescuer).

use std::collections::VecDeque;
use std::fmt;

use cmwq_core::{PwqRef, WqKey};

use crate::engine::tools::thread::Thread;
use crate::os::park::{self, Event};
use crate::os::sync::{Arc, Mutex, lock};

/// See the module header.
pub(crate) struct Rescuer {
    pub(crate) wq: WqKey,
    pub(crate) thread: Arc<Thread>,
    pub(crate) maydays: Mutex<Maydays>,
    /// Its thread has ended.
    pub(crate) gone: Event,
}

/// Lock: maydays.
#[derive(Debug, Default)]
pub(crate) struct Maydays {
    /// The pwqs that have called, in order. Each once: see the core's invariant *(called)*.
    pub(crate) called: VecDeque<PwqRef>,
    pub(crate) is_stopping: bool,
}

impl Rescuer {
    /// Calls the rescuer for `at`. KERNEL: `send_mayday` — same; the pwq is not pinned, because a
    /// queue stops its rescuer before it leaves its pools.
    pub(crate) fn call(&self, at: PwqRef) {
        let mut maydays = lock(&self.maydays);
        if maydays.is_stopping {
            return;
        }
        maydays.called.push_back(at);
        drop(maydays);
        self.thread.parker.unpark(park::WAKE);
    }
}

impl fmt::Debug for Rescuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rescuer")
            .field("wq", &self.wq)
            .field("thread", &self.thread.comm.base())
            .finish_non_exhaustive()
    }
}
