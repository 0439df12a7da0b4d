//! How long a pool's items take, as far as helping it depends on that.
//!
//! Two CPUs that take short items from one pool hinder each other more than they help: each item costs them the pool's lock and
//! the item's memory, which go to and fro. So a guest that finds the items short leaves, and the pool asks nobody for help any more
//! until the tick finds that its own workers take longer over them.
//!
//! Pure: the driver brings the time and counts.

use cmwq_core::Nanos;

/// Less than this for an item, with all that is around it, is short: 1 µs.
const SHORT_NS: Nanos = 1_000;
/// A guest looks at so many items together.
const ITEMS: u32 = 16;
/// A pool whose items were short is asked anew if nobody looked for so long: 10 ms.
const OLD_NS: Nanos = 10_000_000;
/// A pool that starts nothing for so long does not do short items, or its own CPU has no time for it: 1 ms.
const STILL_NS: Nanos = 1_000_000;

/// A guest's count of what it has run.
#[derive(Debug)]
pub(crate) struct Visit {
    since: Nanos,
    items: u32,
    /// Whether the items of the last look were short.
    was_short: Option<bool>,
}

impl Visit {
    pub(crate) fn begin(now: Nanos) -> Self {
        Self { since: now, items: 0, was_short: None }
    }

    /// Another item was run.
    #[inline]
    pub(crate) fn count(&mut self, now: impl FnOnce() -> Nanos) {
        self.items += 1;
        if self.items == ITEMS {
            let now = now();
            self.was_short = Some(are_short(now.saturating_sub(self.since), ITEMS.into()));
            (self.since, self.items) = (now, 0);
        }
    }

    /// The last items that were looked at were short.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.was_short == Some(true)
    }

    /// Whether the items of the whole visit were short, if it ends now. So they were if it was in vain and none `waits`: they were
    /// gone before anybody could come.
    pub(crate) fn was_short(&self, now: Nanos, waits: bool) -> bool {
        match self.items {
            0 => self.was_short.unwrap_or(!waits),
            items => are_short(now.saturating_sub(self.since), items.into()),
        }
    }
}

/// How far a pool had come by some time, to tell its pace from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) at: Nanos,
    /// Items that it had started, and such as came when none waited: see `PoolState::progress`. Where a backlog is, that is the same.
    pub(crate) progress: u64,
}

impl Mark {
    /// Whether that was so long ago that nothing follows from it for a new backlog.
    pub(crate) fn is_old(self, now: Self) -> bool {
        now.at.saturating_sub(self.at) > OLD_NS
    }

    /// Whether the items between the two were short. `None`: too early to tell.
    pub(crate) fn was_short(self, now: Self) -> Option<bool> {
        let took = now.at.saturating_sub(self.at);
        match now.progress.wrapping_sub(self.progress) {
            0 if took < STILL_NS => None,
            0 => Some(false),
            items => Some(are_short(took, items)),
        }
    }
}

fn are_short(took: Nanos, items: u64) -> bool {
    took < SHORT_NS.saturating_mul(items)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_guest_judges_sixteen_items_together() {
        let mut visit = Visit::begin(100);
        for item in 1..=16 {
            assert!(!visit.is_short(), "after {item} items nobody has looked");
            visit.count(|| 100 + 16 * 999);
        }
        assert!(visit.is_short());
        (0..15).for_each(|_| visit.count(|| unreachable!("nobody looks now")));
        assert!(visit.is_short(), "until the next look");
        visit.count(|| 100 + 16 * 999 + 16 * 1000);
        assert!(!visit.is_short(), "1 µs for each");
    }

    #[test]
    fn a_short_visit_is_judged_at_its_end() {
        let mut visit = Visit::begin(100);
        assert!(visit.was_short(100_000, false), "in vain");
        assert!(!visit.was_short(100_000, true), "the pool has become able to start them itself");
        (0..3).for_each(|_| visit.count(|| unreachable!("too few for a look")));
        assert!(visit.was_short(100 + 3 * 999, true));
        assert!(!visit.was_short(100 + 3 * 1000, false));
        (3..16).for_each(|_| visit.count(|| 200_000));
        assert!(!visit.was_short(900_000, false), "sixteen long ones, and then none");
    }

    #[test]
    fn a_pace_is_time_by_items() {
        let mark = Mark { at: 1_000, progress: u64::MAX };
        let after = |took: Nanos, items: u64| {
            mark.was_short(Mark { at: 1_000 + took, progress: u64::MAX.wrapping_add(items) })
        };
        assert_eq!(after(250_000, 251), Some(true));
        assert_eq!(after(250_000, 250), Some(false));
        assert_eq!(after(10_000_000, 3), Some(false));
    }

    #[test]
    fn what_was_known_long_ago_is_forgotten() {
        let [then, soon, later] = [5, 5 + OLD_NS, 6 + OLD_NS].map(|at| Mark { at, progress: 9 });
        assert!(!then.is_old(soon));
        assert!(then.is_old(later));
    }

    #[test]
    fn standing_still_tells_nothing_at_first() {
        let mark = Mark { at: 1_000, progress: 5 };
        assert_eq!(mark.was_short(Mark { at: 1_000 + 999_999, progress: 5 }), None);
        assert_eq!(mark.was_short(Mark { at: 1_001_000, progress: 5 }), Some(false));
    }
}
