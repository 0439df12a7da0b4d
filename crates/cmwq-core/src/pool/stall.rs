//! What the stall watchdog wants to know of a pool.

use super::PoolState;
use crate::list::Node;

impl PoolState {
    /// Whether an item waits here, for a worker or for a slot, so that the watchdog has to look.
    /// `true` once more, perhaps, after the last item has gone.
    #[inline]
    #[must_use]
    pub fn is_to_be_watched(&self) -> bool {
        self.work_waits() || self.had_inactive
    }

    /// How often an item was started, or began to wait where none waited. While this number stays
    /// the same and work waits, there is no progress. KERNEL: `last_progress_ts` — same, with a
    /// count in place of a time.
    #[must_use]
    pub const fn progress(&self) -> u64 {
        self.nr_started + self.nr_began_to_wait
    }

    /// How many items were started, by whomever.
    #[must_use]
    pub const fn nr_started(&self) -> u64 {
        self.nr_started
    }

    /// Whoever looks has seen nothing that waits: what waited for a slot once does not count any
    /// more, unless it does again.
    pub fn forget_inactive(&mut self) {
        self.had_inactive = self.pwqs.iter().any(|(_, pwq)| !pwq.inactive.is_empty());
    }

    /// Puts an item at the end of the worklist.
    ///
    /// # Safety
    /// As for `List::push_back`.
    #[inline]
    pub(super) unsafe fn push_work(&mut self, node: Node) {
        if self.worklist.is_empty() {
            self.nr_began_to_wait += 1;
        }
        // SAFETY: passed on to the caller.
        unsafe { self.worklist.push_back(node) };
    }
}
