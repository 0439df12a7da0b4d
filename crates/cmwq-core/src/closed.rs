//! Which items a queue takes in while it is drained, destroyed or shut down.

/// Why a queue is closed to all but *chained* items: those that its own items queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Closed(u32);

impl Closed {
    /// The queue is open.
    pub const NOT: Self = Self(0);
    /// It is being drained. KERNEL: `__WQ_DRAINING` — same.
    pub const DRAINING: Self = Self(1 << 0);
    /// It is being destroyed. KERNEL: `__WQ_DESTROYING` — same.
    pub const DESTROYING: Self = Self(1 << 1);
    /// All queues are shut down, for good. KERNEL: none: a kernel does not end.
    pub const SHUT: Self = Self(1 << 2);
    /// It is going to be destroyed, behind the timers that are armed for it: their items are let
    /// in. KERNEL: none: timers are to be cancelled before.
    pub const BEHIND_TIMERS: Self = Self(1 << 3);

    /// The inverse of [`bits`](Self::bits).
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// For a driver that keeps the reasons in an atomic word.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Closed for this reason, too.
    #[inline]
    #[must_use]
    pub const fn and(self, why: Self) -> Self {
        Self(self.0 | why.0)
    }

    /// Whether this is one of the reasons.
    #[inline]
    #[must_use]
    pub const fn is_for(self, why: Self) -> bool {
        self.0 & why.0 != 0
    }

    /// Whether an item may be queued. If not, the owner of its PENDING makes it idle again.
    ///
    /// KERNEL: `__queue_work`, with `is_chained_work` — same.
    #[inline]
    #[must_use]
    pub fn lets_in(self, is_chained: impl FnOnce() -> bool) -> bool {
        self.0 == 0 || is_chained()
    }

    /// As [`lets_in`](Self::lets_in), for an item whose timer was armed and is not any more.
    #[inline]
    #[must_use]
    pub fn lets_in_from_timer(self, is_chained: impl FnOnce() -> bool) -> bool {
        self.0 & !Self::BEHIND_TIMERS.0 == 0 || is_chained()
    }

    /// Whether an item that was let in is still taken, asked with the lock of its pool. Who
    /// destroys a queue closes it, takes the lock of each of its pools once, and then waits: what
    /// came before is waited for, and what comes later is refused, as the item of a timer that
    /// expired just before. An item that runs keeps its queue in being, and so what it queues comes
    /// in time.
    ///
    /// KERNEL: none: there timers are to be cancelled before.
    #[inline]
    #[must_use]
    pub fn still_lets_in(self, is_chained: impl FnOnce() -> bool) -> bool {
        !self.is_for(Self::DESTROYING) || is_chained()
    }

    /// Whether a timer may be armed for an item. If not, the item is refused, and not queued at
    /// once: an item that arms its timer in each run would never end, and neither would the
    /// shutdown, or the queue that is destroyed behind its timers.
    ///
    /// KERNEL: `queue_delayed_work` arms in any case, and `__queue_work` refuses when the time has
    /// come — same for the other reasons. On a queue that is shut down the timer would never
    /// expire.
    #[inline]
    #[must_use]
    pub const fn lets_arm(self) -> bool {
        !self.is_for(Self::SHUT.and(Self::BEHIND_TIMERS))
    }

    /// Whether a periodic function is queued again. `is_late`: it is due at once, and would be let
    /// in as a chained item; a function that is always late would never end.
    #[inline]
    #[must_use]
    pub const fn lets_repeat(self, is_late: bool) -> bool {
        !is_late || self.0 == 0
    }
}

/// Whether it is reported that a queue is not empty after so many flushes of one drain: its items
/// queue each other. After 10, then after each 100, but not for ever.
///
/// KERNEL: `drain_workqueue` — same.
#[must_use]
pub const fn drain_is_long(flushes: u32) -> bool {
    flushes == 10 || (flushes.is_multiple_of(100) && flushes > 0 && flushes <= 1000)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::{Closed, drain_is_long};

    const REASONS: [Closed; 4] =
        [Closed::DRAINING, Closed::DESTROYING, Closed::SHUT, Closed::BEHIND_TIMERS];

    #[test]
    fn an_open_queue_takes_everything_in() {
        assert!(Closed::NOT.lets_in(|| false) && Closed::NOT.lets_arm());
        assert!(Closed::NOT.lets_in_from_timer(|| false));
        assert!(Closed::NOT.lets_repeat(true) && Closed::NOT.lets_repeat(false));
    }

    #[test]
    fn a_closed_one_takes_in_what_its_items_queue() {
        for why in REASONS {
            assert!(why.lets_in(|| true) && !why.lets_in(|| false), "{why:?}");
            assert!(why.lets_repeat(false) && !why.lets_repeat(true), "{why:?}");
        }
    }

    #[test]
    fn who_comes_late_to_a_queue_that_is_destroyed_is_refused() {
        for why in REASONS {
            assert_eq!(why.still_lets_in(|| false), why != Closed::DESTROYING, "{why:?}");
            assert!(why.still_lets_in(|| true), "{why:?}");
        }
        assert!(!Closed::BEHIND_TIMERS.and(Closed::DESTROYING).still_lets_in(|| false));
    }

    #[test]
    fn a_long_drain_is_reported_eleven_times() {
        let reported: Vec<_> = (0..10_000).filter(|&flushes| drain_is_long(flushes)).collect();
        assert_eq!(reported[..3], [10, 100, 200]);
        assert_eq!((reported.len(), reported.last()), (11, Some(&1000)));
    }

    #[test]
    fn timers_are_armed_until_all_is_shut_or_the_end_waits_for_them() {
        let every = Closed::DRAINING.and(Closed::DESTROYING);
        assert!(every.lets_arm() && every.is_for(Closed::DRAINING) && !every.is_for(Closed::SHUT));
        assert!(!every.and(Closed::SHUT).lets_arm());
        assert!(!Closed::BEHIND_TIMERS.lets_arm());
    }

    #[test]
    fn items_of_timers_are_let_in_where_the_end_waits_for_them() {
        for why in REASONS {
            let waits = why == Closed::BEHIND_TIMERS;
            assert_eq!(why.lets_in_from_timer(|| false), waits, "{why:?}");
            assert!(why.lets_in_from_timer(|| true), "{why:?}");
            assert_eq!(Closed::BEHIND_TIMERS.and(why).lets_in_from_timer(|| false), waits);
        }
    }
}
