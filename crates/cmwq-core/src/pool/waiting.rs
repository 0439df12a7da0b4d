//! Whether the items of a pool wait before they compute.
//!
//! At capacity a pool starts nothing until somebody blocks. That is right for items that compute,
//! and wrong for those that fetch something first: whoever comes back from its wait has the CPU, so
//! nothing new begins to wait meanwhile, and when the last one is done the CPU is idle for as long
//! as the next ones wait. Such an item needs the CPU for a short time only until it is blocked, or
//! at least for no longer than after it. So a worker of a managed pool that has finished an item
//! takes another one although enough workers run, as long as the pool's items wait first: one
//! begins for each that ends, so no more of them are under way than were at once when nothing else
//! was runnable.
//!
//! What an item uses of the CPU before its first wait is measured when it was found blocked. The
//! pool believes it after a few items in a row, and stops believing it with the first item that did
//! not wait, or not at once.
//!
//! KERNEL: `keep_working` — differs: there `nr_running` alone decides.

use super::PoolState;
use crate::consts::{COMPUTES_AFTER_WAIT_NS, MANY_FIRST_WAITS, WAITS_FIRST_NS, WAITS_SOON_NS};
use crate::ids::Nanos;

/// CPU time of an item that was found blocked, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waited {
    /// Until it was first found so.
    pub before: Nanos,
    /// Since then.
    pub after: Nanos,
}

impl Waited {
    /// Whether it costs little to begin such an item while others compute. What computes first and
    /// then waits, and is done, keeps nobody from beginning when it is back, so nothing is gained.
    const fn is_first(self) -> bool {
        self.before < WAITS_FIRST_NS || (self.before < WAITS_SOON_NS && self.before <= self.after)
    }
}

impl PoolState {
    /// An item has ended during which its worker was found blocked. Only managed pools learn from
    /// that ([`learns_waits`](crate::PoolConfig::learns_waits)).
    pub fn item_waited(&mut self, waited: Waited) {
        if !self.config.learns_waits {
            return;
        }
        let count = |counts: bool, so_far: u8| if counts { so_far.saturating_add(1) } else { 0 };
        self.short_wakes = count(waited.after < COMPUTES_AFTER_WAIT_NS, self.short_wakes);
        self.first_waits = count(waited.is_first(), self.first_waits);
    }

    /// An item has ended that never waited. To be reported of items whose [`Claim`](crate::Claim)
    /// asks for it.
    pub fn item_did_not_wait(&mut self) {
        self.first_waits = 0;
    }

    /// Whether workers that have ended an item take another one although enough workers run. Of
    /// each item that one of this pool's workers begins meanwhile, here or in another pool, it has
    /// to be told if it did not wait.
    #[inline]
    #[must_use]
    pub fn items_wait_first(&self) -> bool {
        self.first_waits >= MANY_FIRST_WAITS
    }
}
