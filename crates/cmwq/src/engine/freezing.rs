//! Freezing: for a time, freezable queues start nothing new.
//!
//! An application freezes before something that must not be disturbed (a snapshot, a migration, a
//! suspend of its own) and thaws afterwards. Items that were active when it began finish; what is
//! queued meanwhile waits, in order.
//!
//! KERNEL: `freeze_workqueues_begin`, `freeze_workqueues_busy`, `thaw_workqueues` — same: the
//! effective `max_active` of freezable queues is 0.

use cmwq_core::PwqRef;

use crate::engine::pool::{Pool, Todo};
use crate::engine::runtime::Runtime;
use crate::engine::wq::{Kind, Wq};
use crate::os::sync::{Ordering, lock};

/// Begins to freeze: freezable queues start nothing more. Returns at once; what has started or was
/// about to goes on, see [`freeze_busy`].
///
/// Flushing a frozen queue waits until it is thawed; cancelling does not. Freezing while frozen
/// does nothing.
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
    if let Ok(runtime) = Runtime::global() {
        runtime.set_frozen(true);
    }
}

/// Whether any item of a freezable queue is still active: after [`freeze`], wait until it is not.
///
/// Outside of a freeze it tells about the moment, and nothing can be relied on.
#[must_use]
#[doc(alias = "freeze_workqueues_busy")]
pub fn freeze_busy() -> bool {
    let Ok(runtime) = Runtime::global() else { return false };
    let wqs = runtime.wqs();
    wqs.iter().any(|wq| wq.spec.freezable && wq.any_pwq(|(nr_active, ..)| nr_active > 0))
}

/// Ends the freeze: what was queued meanwhile starts, in order.
#[doc(alias = "thaw_workqueues")]
pub fn thaw() {
    if let Ok(runtime) = Runtime::global() {
        runtime.set_frozen(false);
    }
}

impl Runtime {
    fn set_frozen(&'static self, is_frozen: bool) {
        // ORDERING: no pairing of its own: who makes a pwq reads it under the queue's lock, and is
        // found by `adjust_max_active` afterwards or sees this, which comes before that lock.
        self.is_frozen.store(is_frozen, Ordering::Relaxed);
        self.inspect.header(|header| header.is_frozen.store(is_frozen.into(), Ordering::Relaxed));
        for wq in self.wqs().iter().filter(|wq| wq.spec.freezable) {
            wq.adjust_max_active();
        }
    }
}

impl Wq {
    /// Whether the queue starts nothing for now.
    pub(crate) fn is_frozen(&self) -> bool {
        // ORDERING: see `set_frozen`.
        self.spec.freezable && self.runtime.is_frozen.load(Ordering::Relaxed)
    }

    /// Changes how many items may be in execution. Takes effect at once: more start in order, and
    /// of fewer no more start until enough have finished.
    pub(crate) fn set_max_active(&self, max_active: u32) {
        lock(&self.state).limits.set_max_active(max_active);
        self.adjust_max_active();
    }

    pub(crate) fn max_active(&self) -> u32 {
        lock(&self.state).limits.max_active()
    }

    pub(crate) fn min_active(&self) -> u32 {
        lock(&self.state).limits.min_active()
    }

    pub(crate) fn set_min_active(&self, min_active: u32) {
        lock(&self.state).limits.set_min_active(min_active);
        self.adjust_max_active();
    }

    /// Applies what has changed of limits, freezing or CPUs to all pwqs, and starts what may start.
    ///
    /// KERNEL: `wq_adjust_max_active` — same.
    pub(crate) fn adjust_max_active(&self) {
        let state = lock(&self.state);
        self.show_settings(&state);
        let is_frozen = self.is_frozen();
        let nodes = state.nodes.adjust(&state.limits, is_frozen, &self.spread(&state));
        let todos = if state.limits.is_split() {
            Vec::new()
        } else {
            self.set_each(&state.links, state.limits.own(is_frozen))
        };
        drop(state);
        for (pool, todo) in todos {
            pool.act(todo);
        }
        // What was frozen was not watched.
        self.runtime.watchdog.work_waits(&self.runtime.service);
        for limit in nodes {
            // One item of one pwq at a time: whoever has more goes to the end of the line.
            while let Some(to) = limit.hand_over() {
                Pool::grant(self.runtime, Some(to));
            }
        }
    }

    /// Returns what is left to do once WQ is dropped.
    fn set_each(&self, links: &[PwqRef], max_active: u32) -> Vec<(&'static Pool, Todo)> {
        let set = |at: &PwqRef| {
            let pool = self.runtime.pool(at.pool)?;
            let mut guard = pool.lock();
            let kick = guard.core.set_max_active(at.pwq, max_active);
            guard.mirror.set_max_active(at.pwq, max_active);
            Some((pool, guard.todo(pool, kick)))
        };
        links.iter().filter_map(set).collect()
    }

    /// Whether the limit can be changed: not for ordered and BH queues.
    pub(crate) fn has_limit(&self) -> bool {
        !matches!(self.spec.kind, Kind::Ordered | Kind::Bh)
    }
}
