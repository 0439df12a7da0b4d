//! The rounds of a BH context through its CPU's pools, and its visits there: how much of one pool's
//! work it does before it looks at the other.

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

    /// Counts an item that was run. Whether the visit is over. `may_leave`: whether no items are
    /// scheduled that only this guest can run
    /// ([`PoolState::guest_may_leave`](crate::PoolState::guest_may_leave)).
    #[inline]
    #[must_use]
    pub fn is_over(
        &mut self,
        now: impl FnOnce() -> Nanos,
        may_leave: impl FnOnce() -> bool,
    ) -> bool {
        self.items_left = self.items_left.saturating_sub(1);
        (self.items_left == 0 || now() >= self.ends_at) && may_leave()
    }
}

/// What a context does next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BhNext {
    /// It looks at the pool with this [place](BhRound::place), if there is one: where work waits it
    /// visits, and in any case says what is [left](BhRound::leaves).
    Look(usize),
    /// Its round is over and has left work behind, so the next one begins.
    Again,
    /// Its round is over: it sleeps until it is raised, if it was not meanwhile.
    Sleep,
}

/// A context's round: it looks at each of its CPU's pools once, that of high priority first.
///
/// KERNEL: `workqueue_softirq_action`, for `HI_SOFTIRQ` and then for `TASKLET_SOFTIRQ` — same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BhRound {
    next: usize,
    is_left: bool,
}

impl BhRound {
    /// The pools of a CPU.
    pub const NR_POOLS: usize = 2;

    /// A round that begins.
    #[must_use]
    pub const fn begin() -> Self {
        Self { next: 0, is_left: false }
    }

    /// The place of a pool in the round.
    #[must_use]
    pub const fn place(is_high: bool) -> usize {
        if is_high { 0 } else { 1 }
    }

    /// What the context does next. With the end of a round the next one begins.
    pub const fn next(&mut self) -> BhNext {
        if self.next < Self::NR_POOLS {
            self.next += 1;
            return BhNext::Look(self.next - 1);
        }
        let is_left = self.is_left;
        *self = Self::begin();
        if is_left { BhNext::Again } else { BhNext::Sleep }
    }

    /// The context turns away from a pool, where work waits or does not. Whether the pool counts as
    /// watched: its context comes again by itself. If not, the next item that is queued there
    /// raises the context.
    #[must_use]
    pub const fn leaves(&mut self, work_waits: bool) -> bool {
        self.is_left |= work_waits;
        work_waits
    }
}
