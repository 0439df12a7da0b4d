//! Freezing: for a time, freezable queues start nothing new.
//!
//! An application freezes before something that must not be disturbed (a snapshot, a migration, a
//! suspend of its own) and thaws afterwards. Items that were active when it began finish; what is
//! queued meanwhile waits, in order.
//!
//! KERNEL: `freeze_workqueues_begin`, `freeze_workqueues_busy`, `thaw_workqueues` — same: the
//! effective `max_active` of freezable queues is 0.

use crate::engine::process::watch_forks;
use crate::engine::runtime::Runtime;
use crate::engine::tools::params::early::lock_early;
use crate::os::sync::Ordering;

/// Begins to freeze: freezable queues start nothing more. Returns at once; what has started or was
/// about to goes on, see [`freeze_busy`].
///
/// Whoever waits for items of a frozen queue waits until it is thawed: flushing, draining, joining,
/// dropping the last handle, and [`shutdown`](crate::shutdown). Cancelling does not. Freezing while
/// frozen does nothing: it does not nest. It may come before the library's first use: the library
/// then begins frozen. A forked child begins thawed.
///
/// ```
/// let wq = cmwq::Workqueue::builder("log").freezable().build()?;
/// cmwq::freeze();
/// let item = wq.queue(|| 1);
/// assert!(!cmwq::freeze_busy(), "nothing had started");
/// cmwq::thaw();
/// assert_eq!(item.join().unwrap(), 1);
/// # Ok::<(), cmwq::Error>(())
/// ```
#[doc(alias = "freeze_workqueues_begin")]
pub fn freeze() {
    set_frozen(true);
}

/// Whether any item of a freezable queue is still active: after [`freeze`], ask again at intervals
/// until it is not. Nobody is told; there is no call that waits. Takes the locks of the pools of
/// all freezable queues, one after the other.
///
/// Outside of a freeze the answer is about the moment, and nothing can be relied on.
#[must_use]
#[doc(alias = "freeze_workqueues_busy")]
pub fn freeze_busy() -> bool {
    let Some(runtime) = Runtime::existing() else { return false };
    let wqs = runtime.wqs();
    wqs.iter().any(|wq| wq.spec.freezable && wq.any_pwq(|load| load.nr_active > 0))
}

/// Ends the freeze: what was queued meanwhile starts, in order. Does nothing if there is none, so
/// one call ends it however often [`freeze`] was called. Does not wait.
#[doc(alias = "thaw_workqueues")]
pub fn thaw() {
    set_frozen(false);
}

/// A thread that makes the runtime at the same time reads this flag and publishes the runtime under
/// the same lock: it sees the flag, or the runtime is found here.
fn set_frozen(is_frozen: bool) {
    // A child begins thawed, also one of a process that does not use the library before it forks.
    watch_forks();
    lock_early().is_frozen = is_frozen;
    if let Some(runtime) = Runtime::existing() {
        runtime.set_frozen(is_frozen);
    }
}

impl Runtime {
    pub(crate) fn set_frozen(&'static self, is_frozen: bool) {
        // ORDERING: no pairing of its own: who makes a pwq reads it under the queue's lock, and is
        // found by `adjust_max_active` afterwards or sees this, which comes before that lock.
        self.is_frozen.store(is_frozen, Ordering::Relaxed);
        self.inspect.header(|header| header.is_frozen.store(is_frozen.into(), Ordering::Relaxed));
        for wq in self.wqs().iter().filter(|wq| wq.spec.freezable) {
            wq.adjust_max_active();
        }
    }
}
