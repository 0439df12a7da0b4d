//! When a thread that sleeps looks again, and how others make it look sooner.
//!
//! Deadlines are kept elsewhere, some behind locks and some in atomics. The thread is woken only
//! for a deadline before the one that it has planned for. With both fences, one of the two sides
//! sees what the other wrote:
//!
//! | a thread with a deadline at `T` | the thread of the plan |
//! |---|---|
//! | 1. lower a deadline to `T` | 1. plan to look at no time |
//! | 2. fence | 2. fence |
//! | 3. is the plan later than `T`? wake it | 3. gather all deadlines, plan for the first, sleep until then |
//!
//! A lock that both sides take for the deadline does as well as the fences.

use std::time::Duration;

use cmwq_core::Nanos;

use crate::os::clock;
use crate::os::park::{Parker, WAKE};
use crate::os::sync::{AtomicU64, Ordering, seq_cst_fence};

/// No deadline.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// See the module header.
#[derive(Debug)]
pub(crate) struct Plan {
    parker: Parker,
    /// When the thread will look again; 0 while it is awake and going to gather deadlines anyway.
    planned: AtomicU64,
}

impl Plan {
    /// For a thread that is awake.
    pub(crate) fn new() -> Self {
        Self { parker: Parker::new(), planned: AtomicU64::new(0) }
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        self.parker.unpark(WAKE);
    }

    /// Makes sure that the thread looks at `at` or sooner. The caller has set the deadline under a
    /// lock that the thread takes to gather it.
    #[inline]
    pub(crate) fn need_by(&self, at: Nanos) {
        // ORDERING: no pairing of its own: see the module header.
        if at < self.planned.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// As [`need_by`](Self::need_by), for a deadline in an atomic that the caller has written.
    pub(crate) fn need_by_unlocked(&self, at: Nanos) {
        // ORDERING: the fence pairs with the one in `sleep`.
        seq_cst_fence("plan_need_by");
        self.need_by(at);
    }

    /// Lowers a deadline to `at`.
    pub(crate) fn lower(&self, deadline: &AtomicU64, at: Nanos) {
        // ORDERING: see `need_by_unlocked`.
        if deadline.fetch_min(at, Ordering::Relaxed) > at {
            self.need_by_unlocked(at);
        }
    }

    /// Sleeps until the deadline that `gather` finds, or until woken. By the thread.
    pub(crate) fn sleep(&self, gather: impl FnOnce() -> Nanos) {
        // ORDERING: the fence pairs with the one in `need_by_unlocked`: we are woken for a deadline
        // that `gather` misses.
        self.planned.store(NEVER, Ordering::Relaxed);
        seq_cst_fence("plan_sleep");
        let at = gather();
        // ORDERING: no pairing: a thread that still reads "never" wakes us for nothing.
        self.planned.store(at, Ordering::Relaxed);
        let timeout = match at {
            NEVER => None,
            at => Some(Duration::from_nanos(at.saturating_sub(clock::now()))),
        };
        if timeout != Some(Duration::ZERO) {
            self.parker.park(timeout);
        }
        // ORDERING: no pairing: deadlines that we are not woken for now are gathered before the
        // next sleep.
        self.planned.store(0, Ordering::Relaxed);
    }
}
