//! How many items of a queue may be in execution: `max_active`, or 0 while the queue is frozen.

use cmwq_core::{LockFor, PwqRef, Pwqs};

use super::Wq;
use crate::engine::pool::{Pool, Todo};
use crate::os::sync::{Ordering, lock};

impl Wq {
    /// Whether the queue starts nothing for now.
    pub(crate) fn is_frozen(&self) -> bool {
        // ORDERING: see `set_frozen`.
        self.spec.freezable && self.runtime.is_frozen.load(Ordering::Relaxed)
    }

    /// Changes how many items may be in execution. Takes effect at once: after a rise more items
    /// start, in order; after a fall none starts until enough have finished.
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

    /// Applies changed limits, freezing or CPUs to all pwqs, and starts items that may start now.
    ///
    /// KERNEL: `wq_adjust_max_active` — same.
    pub(crate) fn adjust_max_active(&self) {
        let state = lock(&self.state);
        self.record_settings(&state);
        let is_frozen = self.is_frozen();
        let nodes = state.nodes.adjust(&state.limits, is_frozen, self.spread(&state));
        let todos = if state.limits.tells_each() {
            self.set_each(&state.pwqs, state.limits.own(is_frozen))
        } else {
            Vec::new()
        };
        drop(state);
        for (pool, todo) in todos {
            pool.act(todo);
        }
        // The watchdog did not watch the queue while it was frozen.
        self.runtime.work_waits();
        for limit in nodes {
            // One item of one pwq at a time: a pwq with more goes to the end of the line.
            while let Some(to) = limit.hand_over() {
                Pool::grant(self.runtime, Some(to));
            }
        }
    }

    /// Returns what is left to do once WQ is dropped.
    fn set_each(&self, pwqs: &Pwqs, max_active: u32) -> Vec<(&'static Pool, Todo)> {
        let set = |at: PwqRef| {
            let pool = self.runtime.pool(at.pool)?;
            let mut guard = pool.lock(LockFor::Find);
            let kick = guard.core.set_max_active(at.pwq, max_active);
            guard.mirror.set_max_active(at.pwq, max_active);
            Some((pool, pool.unlock_for_later(guard, kick)))
        };
        pwqs.iter().filter_map(set).collect()
    }

    /// Whether the limit can be changed: not for ordered and BH queues.
    pub(crate) fn has_limit(&self) -> bool {
        self.spec.kind.has_limit()
    }
}
