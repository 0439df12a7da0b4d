//! What the stall watchdog wants to know of a pool.

use alloc::vec::Vec;

use super::PoolState;
use crate::ids::{PwqId, WqKey};
use crate::list::Node;

/// A pwq with items that wait for a slot of `max_active`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Which.
    pub pwq: PwqId,
    /// Its queue.
    pub wq: WqKey,
}

impl PoolState {
    /// Whether an item waits here, for a worker or for a slot, so that the watchdog has to look.
    /// `true` once more, perhaps, after the last item has gone.
    #[inline]
    #[must_use]
    pub fn is_to_be_watched(&self) -> bool {
        self.work_waits() || self.has_parked
    }

    /// How often an item was started, or began to wait where none waited. While this number stays
    /// the same and work waits, there is no progress. KERNEL: `last_progress_ts` — same, with a
    /// count in place of a time.
    #[must_use]
    pub const fn progress(&self) -> u64 {
        self.progress
    }

    /// The pwqs whose items wait for a slot of `max_active`. Linear in the number of pwqs, if an
    /// item had to wait since the last call.
    pub fn parked(&mut self) -> Vec<Parked> {
        if !self.has_parked {
            return Vec::new();
        }
        let waiting = self.pwqs.iter().filter(|(_, pwq)| !pwq.inactive.is_empty());
        let parked: Vec<_> = waiting.map(|(id, p)| Parked { pwq: PwqId(id), wq: p.wq }).collect();
        self.has_parked = !parked.is_empty();
        parked
    }

    /// Puts an item at the end of the worklist.
    ///
    /// # Safety
    /// As for `List::push_back`.
    #[inline]
    pub(super) unsafe fn push_work(&mut self, node: Node) {
        if self.worklist.is_empty() {
            self.progress += 1;
        }
        // SAFETY: passed on to the caller.
        unsafe { self.worklist.push_back(node) };
    }
}
