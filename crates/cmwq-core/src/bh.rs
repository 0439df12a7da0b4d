//! Visits of a BH context to its CPU's pools: how much of one pool's work it does before it looks
//! at the other.

use crate::ids::Nanos;

/// Items per visit to a pool. KERNEL: `BH_WORKER_RESTARTS` — same.
pub const BH_VISIT_ITEMS: u32 = 10;
/// Time per visit to a pool: 2 ms. KERNEL: `BH_WORKER_JIFFIES` — same.
pub const BH_VISIT_NS: Nanos = 2_000_000;

/// A context's visit to one pool.
///
/// KERNEL: `bh_worker` — same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BhVisit {
    ends_at: Nanos,
    items_left: u32,
}

impl BhVisit {
    /// A visit that begins at `now`, in nanoseconds.
    #[must_use]
    pub const fn begin(now: Nanos) -> Self {
        Self { ends_at: now.saturating_add(BH_VISIT_NS), items_left: BH_VISIT_ITEMS }
    }

    /// Counts an item that was run. Whether the visit is over, unless items are scheduled that only
    /// this guest can run ([`PoolState::guest_may_leave`](crate::PoolState::guest_may_leave)).
    #[inline]
    #[must_use]
    pub fn is_over(&mut self, now: impl FnOnce() -> Nanos) -> bool {
        self.items_left = self.items_left.saturating_sub(1);
        self.items_left == 0 || now() >= self.ends_at
    }
}
