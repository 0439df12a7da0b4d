//! When the watchdog looks: not at all, until a thread leaves work waiting.
//!
//! | a thread that leaves work waiting | the watchdog |
//! |---|---|
//! | 1. under a lock: work waits | 1. unset the alarm |
//! | 2. after it: is the alarm unset? set it | 2. under that lock: does work wait? |
//! | | 3. it does: set the alarm |
//!
//! One of the two sees what the other did: if the watchdog had the lock first, the other sees the
//! alarm unset. It may see the alarm still set although that has just rung; then the watchdog has
//! yet to look.

use cmwq_core::Nanos;

use crate::engine::tools::plan::{NEVER, Plan};
use crate::os::sync::{AtomicU64, Mutex, Ordering, lock};

/// The watchdog is off.
const OFF: Nanos = 0;

/// See the module header.
#[derive(Debug)]
pub(crate) struct Alarm {
    plan: Plan,
    /// When it rings; `NEVER`: unset.
    at: AtomicU64,
    /// After which time something stands still, in ns; 0: the watchdog is off.
    thresh: AtomicU64,
    /// Lock: whether the watchdog is on. Both `thresh` and `at` say so.
    switching: Mutex<()>,
}

// ORDERING (all accesses of `at`): no pairing of their own: ordered by the locks under which work
// waits, see the module header; and by `plan`, for what the thread sleeps on.
impl Alarm {
    /// The watchdog is off until [`unset`](Self::unset), or until its threshold changes.
    pub(crate) fn new(thresh: Nanos) -> Self {
        let (at, thresh) = (AtomicU64::new(OFF), AtomicU64::new(thresh));
        Self { plan: Plan::new(), at, thresh, switching: Mutex::new(()) }
    }

    pub(crate) fn thresh(&self) -> Nanos {
        self.thresh.load(Ordering::Relaxed)
    }

    /// Turns the watchdog on, with this threshold and the alarm unset, or with 0 off.
    pub(crate) fn set_thresh(&self, thresh: Nanos) {
        let _switching = lock(&self.switching);
        self.thresh.store(thresh, Ordering::Relaxed);
        if thresh == 0 { self.turn_off() } else { self.unset() }
    }

    /// The threshold for a look, the alarm being unset for it. `None`: the watchdog is off, and so
    /// is the alarm.
    pub(crate) fn thresh_to_look(&self) -> Option<Nanos> {
        let thresh = self.thresh();
        if thresh != 0 {
            return Some(thresh);
        }
        let _switching = lock(&self.switching);
        // Whoever has turned it on meanwhile sets the alarm after that.
        if self.thresh() == 0 {
            self.turn_off();
        }
        None
    }

    /// Whether a thread that leaves work waiting has to set the alarm. To be asked after the lock
    /// was dropped.
    #[inline]
    pub(crate) fn is_unset(&self) -> bool {
        self.at.load(Ordering::Relaxed) == NEVER
    }

    /// Sets the alarm for `at`, unless it rings sooner.
    pub(crate) fn set(&self, at: Nanos) {
        self.plan.lower(&self.at, at);
    }

    /// Whether it has rung. If so, it is unset.
    pub(crate) fn rings(&self, now: Nanos) -> bool {
        let at = self.at.load(Ordering::Relaxed);
        let rings = at != OFF && at <= now;
        if rings {
            self.unset();
        }
        rings
    }

    /// Unsets it, also if it was off.
    pub(crate) fn unset(&self) {
        self.at.store(NEVER, Ordering::Relaxed);
    }

    fn turn_off(&self) {
        self.at.store(OFF, Ordering::Relaxed);
    }

    /// Sleeps until the alarm rings, or until [`wake`](Self::wake). By the watchdog.
    pub(crate) fn sleep(&self) {
        self.plan.sleep(|| match self.at.load(Ordering::Relaxed) {
            OFF => NEVER,
            at => at,
        });
    }

    /// Wakes the watchdog. May be called by a signal handler.
    pub(crate) fn wake(&self) {
        self.plan.wake();
    }
}
