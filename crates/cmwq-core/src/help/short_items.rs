//! Whether a pool's items are long enough that others should help it, and long enough to run on
//! another CPU than their queuer's.
//!
//! Two CPUs that take short items from one pool hinder each other more than they help: for each
//! item the cache lines of the pool's lock and of the item go to and fro. So a guest that finds the
//! items short leaves, and the pool asks for no help until the tick finds that its own workers take
//! longer for an item. But a guest stays that is the only one who runs them, since the pool's own
//! worker is in a long item, which may well be the one that queues them.
//!
//! A long item of a queuer that computes is better run on another CPU, and very long ones are begun
//! in order by all CPUs of a cache: [`Length`].

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

/// Whether a helper begins the next item of those that it has taken along. Not if it was found
/// blocked, since its CPU is another worker's now; not if its own pool
/// [is crowded](crate::PoolState::is_crowded), has work in its inbox, or says that it has a backlog
/// ([`Set::Backlog`](super::Set)); and not if a caller computes on its CPU. At the end of the batch
/// the pool is [asked](crate::PoolState::wants_back).
#[inline]
#[must_use]
pub fn may_begin_next(
    was_blocked: bool,
    is_crowded: bool,
    inbox_is_empty: bool,
    has_backlog: impl FnOnce() -> bool,
    caller_computes: impl FnOnce() -> bool,
) -> bool {
    !was_blocked && !is_crowded && inbox_is_empty && !has_backlog() && !caller_computes()
}

/// A worker's visit to another pod's pool, from its coming to its going.
#[derive(Clone, Debug)]
pub struct Visit {
    since: Nanos,
    items: u32,
    /// How many items the pool had started then.
    nr_started: u64,
    /// Whether the last items that were measured were short.
    was_short: Option<bool>,
    /// Whether nobody else started any meanwhile.
    was_alone: bool,
    /// The tick looks at the pool. Only the tick can find later that its items are worth helping.
    has_tick: bool,
    /// The worker's own pool wants it back.
    is_wanted: bool,
}

impl Visit {
    /// The guest comes to a pool that has started so many items. `has_tick`: the tick looks at the
    /// pool.
    #[must_use]
    pub const fn begin(now: Nanos, nr_started: u64, has_tick: bool) -> Self {
        let (was_short, was_alone) = (None, false);
        Self { since: now, items: 0, nr_started, was_short, was_alone, has_tick, is_wanted: false }
    }

    /// The guest has run `items` more. `is_wanted`: whether the worker's own pool
    /// [wants it back](crate::PoolState::wants_back). Whether the visit is over. `may_leave`:
    /// whether no items are scheduled that only this guest can run
    /// ([`PoolState::guest_may_leave`](crate::PoolState::guest_may_leave)).
    #[inline]
    #[must_use]
    pub fn is_over(
        &mut self,
        items: u32,
        is_wanted: bool,
        now: impl FnOnce() -> Progress,
        may_leave: impl FnOnce() -> bool,
    ) -> bool {
        self.is_wanted = is_wanted;
        self.count(items, now);
        let is_in_the_way = self.finds_them_short() && !self.was_alone;
        (self.is_wanted || is_in_the_way) && may_leave()
    }

    /// Whether the guest stays although the items are short. Then nobody else is to come.
    #[inline]
    #[must_use]
    pub fn stays_alone(&self) -> bool {
        self.was_alone && self.finds_them_short()
    }

    /// The guest goes. Whether the pool's items are found short. `work_waits`: in that pool.
    #[must_use]
    pub fn finds_short(&self, now: Nanos, work_waits: bool) -> bool {
        !self.is_wanted && self.has_tick && self.was_short(now, work_waits)
    }

    /// The guest goes. Whether nobody runs the pool's items now, which so are worth help again,
    /// however short: it ran them alone, and is wanted by its own pool.
    #[must_use]
    pub fn leaves_nobody(&self) -> bool {
        self.is_wanted && self.stays_alone()
    }

    #[inline]
    fn count(&mut self, items: u32, now: impl FnOnce() -> Progress) {
        self.items += items;
        if self.items >= ITEMS {
            let now = now();
            let items = u64::from(self.items);
            self.was_short = Some(are_short(now.at.saturating_sub(self.since), items));
            self.was_alone = now.started.wrapping_sub(self.nr_started) == items;
            (self.since, self.nr_started, self.items) = (now.at, now.started, 0);
        }
    }

    /// Whether the items that were measured last were short, and the tick would find it out if
    /// others are not.
    #[inline]
    fn finds_them_short(&self) -> bool {
        self.was_short == Some(true) && self.has_tick
    }

    /// Whether the items of the whole visit were short, if it ends now. A visit without any item
    /// counts as short if none `waits`: the items were gone before a guest could come.
    fn was_short(&self, now: Nanos, waits: bool) -> bool {
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
    /// [`PoolState::nr_started`](crate::PoolState::nr_started).
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
/// From this on the CPUs of a cache can take items from one pool: 64 of them take its lock 320,000
/// times a second then.
const WORTH_COLLECTING_NS: Nanos = 200_000;

/// How long items need the CPU, as far as it matters for where they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Length {
    /// Not longer than it takes to wake another CPU; or not measured yet.
    #[default]
    Short,
    /// Worth running on another CPU than their queuer's.
    Long,
    /// So long that the pods of a cache can have one backlog ([`collects`](super::collects)).
    VeryLong,
}

impl Length {
    /// Of items one of which has used the CPU for `took`. `None`: as before.
    #[must_use]
    pub const fn of(took: Nanos) -> Option<Self> {
        match took {
            ..NOT_WORTH_MOVING_NS => Some(Self::Short),
            WORTH_COLLECTING_NS.. => Some(Self::VeryLong),
            WORTH_MOVING_NS.. => Some(Self::Long),
            _ => None,
        }
    }
}

/// A worker measures one item per so many times that it went idle and slept: two reads of its CPU
/// clock take a tenth of the time of such a sleep. While it always has a next item, it measures
/// none.
const SLEEPS_PER_SAMPLE: u32 = 8;

/// When a worker of a managed pool measures its next item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    sleeps: u32,
    is_due: bool,
}

impl Sampling {
    /// The worker has slept.
    #[inline]
    pub const fn slept(&mut self) {
        self.sleeps = self.sleeps.wrapping_add(1);
        if self.sleeps % SLEEPS_PER_SAMPLE == 1 {
            self.is_due = true;
        }
    }

    /// Whether the CPU time of the item that begins is to be measured.
    #[inline]
    #[must_use]
    pub const fn is_due(self) -> bool {
        self.is_due
    }

    /// A measured item has used the CPU for `took`. Returns how long the items of its queue are;
    /// `None`: as before.
    #[must_use]
    pub const fn measured(&mut self, took: Nanos) -> Option<Length> {
        self.is_due = false;
        Length::of(took)
    }
}
