//! Which threads outside of the pools compute, and which wait for their items.

/// Items between two looks at the thread's sleeps, while it computes.
const ITEMS: u32 = 8;
/// A thread that was taken for computing and then waits is taken for waiting for so many times more
/// items than the last time. A worker that preempts its queuer has often run the item before the
/// queuer can wait for it, so the queuer looks as if it never waited.
const BACKOFF: u32 = 8;
/// LIMIT: of the items between two looks.
const ITEMS_MAX: u32 = ITEMS * BACKOFF * BACKOFF * BACKOFF;

/// Whether a thread computes or waits, by how often it sleeps: it computes if it sleeps less often
/// than once for every two items that it queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habit {
    computes: bool,
    /// Items until the next look.
    left: u32,
    /// Items between looks while it waits.
    rest: u32,
    /// How often it had slept at the last look.
    sleeps: Option<u64>,
}

impl Habit {
    /// Nothing is known of the thread.
    pub const UNKNOWN: Self = Self { computes: false, left: 0, rest: ITEMS, sleeps: None };

    /// Whether the thread computes, as far as is known.
    #[inline]
    #[must_use]
    pub const fn computes(self) -> bool {
        self.computes
    }

    /// The thread queues a long item. `sleeps`: how often it has slept.
    pub fn queues(&mut self, sleeps: impl FnOnce() -> u64) {
        if self.left == 0 {
            self.judge(sleeps());
        }
        self.left -= 1;
    }

    fn judge(&mut self, sleeps: u64) {
        let items = if self.computes { ITEMS } else { self.rest };
        // A forked child's count begins anew.
        let before = self.sleeps.replace(sleeps);
        let slept = before.and_then(|before| sleeps.checked_sub(before));
        let computes = slept.is_some_and(|slept| slept < u64::from(items / 2));
        self.rest = match (self.computes, computes) {
            (true, true) => ITEMS,
            (true, false) => (self.rest * BACKOFF).min(ITEMS_MAX),
            (false, _) => self.rest,
        };
        self.computes = computes;
        self.left = if computes { ITEMS } else { self.rest };
    }
}
