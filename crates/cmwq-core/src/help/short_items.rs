//! Whether a pool's items are long enough that others should help it, and long enough to run on
//! another CPU than their queuer's.
//!
//! Two CPUs that take short items from one pool hinder each other more than they help: for each
//! item the cache lines of the pool's lock and of the item go to and fro. So a guest that finds the
//! items short leaves, and the pool asks for no help until the tick finds that its own workers take
//! longer for an item.
//!
//! A long item of a queuer that computes is better run on another CPU: [`is_worth_moving`].

use crate::ids::Nanos;

/// An item that takes less than this, with all its overhead, is short: 1 µs.
const SHORT_NS: Nanos = 1_000;
/// Items that a guest measures together.
const ITEMS: u32 = 16;
/// A pool's short items are forgotten if they were not measured for so long: 10 ms.
const OLD_NS: Nanos = 10_000_000;
/// A pool that starts nothing for so long does not run short items, or its own CPU has no time for
/// it: 1 ms.
const STILL_NS: Nanos = 1_000_000;

/// A guest's count of what it has run.
#[derive(Clone, Debug)]
pub struct Visit {
    since: Nanos,
    items: u32,
    /// Whether the last [`ITEMS`] items were short.
    was_short: Option<bool>,
}

impl Visit {
    /// The guest comes.
    #[must_use]
    pub const fn begin(now: Nanos) -> Self {
        Self { since: now, items: 0, was_short: None }
    }

    /// Another item was run.
    #[inline]
    pub fn count(&mut self, now: impl FnOnce() -> Nanos) {
        self.items += 1;
        if self.items == ITEMS {
            let now = now();
            self.was_short = Some(are_short(now.saturating_sub(self.since), ITEMS.into()));
            (self.since, self.items) = (now, 0);
        }
    }

    /// Whether the items that were measured last were short.
    #[inline]
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.was_short == Some(true)
    }

    /// Whether the items of the whole visit were short, if it ends now. A visit without any item
    /// counts as short if none `waits`: the items were gone before a guest could come.
    #[must_use]
    pub fn was_short(&self, now: Nanos, waits: bool) -> bool {
        match self.items {
            0 => self.was_short.unwrap_or(!waits),
            items => are_short(now.saturating_sub(self.since), items.into()),
        }
    }
}

/// How many items a pool had started by some time, to compare with later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The time.
    pub at: Nanos,
    /// `PoolState::progress`: items that were started, and items that came when none waited. With a
    /// backlog there are none of the latter.
    pub started: u64,
}

impl Progress {
    /// Whether this is so long ago that it says nothing about a new backlog.
    #[must_use]
    pub const fn is_old(self, now: Self) -> bool {
        now.at.saturating_sub(self.at) > OLD_NS
    }

    /// Whether the items started since were short. `None`: too early to tell.
    #[must_use]
    pub fn was_short(self, now: Self) -> Option<bool> {
        let took = now.at.saturating_sub(self.at);
        match now.started.wrapping_sub(self.started) {
            0 if took < STILL_NS => None,
            0 => Some(false),
            items => Some(are_short(took, items)),
        }
    }
}

fn are_short(took: Nanos, items: u64) -> bool {
    took < SHORT_NS.saturating_mul(items)
}

/// Waking an idle CPU takes some microseconds, on virtual machines some tens.
const WORTH_MOVING_NS: Nanos = 10_000;
/// Items that take longer than this and less than [`WORTH_MOVING_NS`] change nothing.
const NOT_WORTH_MOVING_NS: Nanos = 5_000;

/// Whether items, one of which has used the CPU for `took`, are worth running on another CPU than
/// their queuer's. `None`: as before.
#[must_use]
pub const fn is_worth_moving(took: Nanos) -> Option<bool> {
    match took {
        ..NOT_WORTH_MOVING_NS => Some(false),
        WORTH_MOVING_NS.. => Some(true),
        _ => None,
    }
}
