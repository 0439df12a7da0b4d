//! How long a pool's items take, as far as helping it depends on that.
//!
//! Two CPUs that take short items from one pool hinder each other more than they help: each item
//! costs them the pool's lock and the item's memory, which go to and fro. So a guest that finds the
//! items short leaves, and the pool asks nobody for help any more until the tick finds that its own
//! workers take longer over them.
//!
//! And where an item is so long that a queuer which computes is better off without it.

use crate::ids::Nanos;

/// Less than this for an item, with all that is around it, is short: 1 µs.
const SHORT_NS: Nanos = 1_000;
/// A guest looks at so many items together.
const ITEMS: u32 = 16;
/// A pool whose items were short is asked anew if nobody looked for so long: 10 ms.
const OLD_NS: Nanos = 10_000_000;
/// A pool that starts nothing for so long does not do short items, or its own CPU has no time for
/// it: 1 ms.
const STILL_NS: Nanos = 1_000_000;

/// A guest's count of what it has run.
#[derive(Clone, Debug)]
pub struct Visit {
    since: Nanos,
    items: u32,
    /// Whether the items of the last look were short.
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

    /// The last items that were looked at were short.
    #[inline]
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.was_short == Some(true)
    }

    /// Whether the items of the whole visit were short, if it ends now. So they were if it was in
    /// vain and none `waits`: they were gone before anybody could come.
    #[must_use]
    pub fn was_short(&self, now: Nanos, waits: bool) -> bool {
        match self.items {
            0 => self.was_short.unwrap_or(!waits),
            items => are_short(now.saturating_sub(self.since), items.into()),
        }
    }
}

/// How far a pool had come by some time, to compare with later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// When.
    pub at: Nanos,
    /// Items that it had started, and such as came when none waited: see `PoolState::progress`.
    /// Where a backlog is, that is the same.
    pub started: u64,
}

impl Progress {
    /// Whether that was so long ago that nothing follows from it for a new backlog.
    #[must_use]
    pub const fn is_old(self, now: Self) -> bool {
        now.at.saturating_sub(self.at) > OLD_NS
    }

    /// Whether the items between the two were short. `None`: too early to tell.
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
/// Between the two, what was known stays.
const NOT_WORTH_MOVING_NS: Nanos = 5_000;

/// Whether items of which one has used the CPU for so long are worth another CPU than their
/// queuer's. `None`: as before.
#[must_use]
pub const fn is_worth_moving(took: Nanos) -> Option<bool> {
    match took {
        ..NOT_WORTH_MOVING_NS => Some(false),
        WORTH_MOVING_NS.. => Some(true),
        _ => None,
    }
}
