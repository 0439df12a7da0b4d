//! Counting what has not finished yet, until the last one does.

use crate::os::sync::{AtomicU64, Ordering, acq_rel};

/// Things that have not finished, and one for whoever started them: until he is
/// [`done`](Self::done) himself it cannot come to an end, so that he may add more.
///
/// Whoever is last sees what all the others did before they were done.
#[derive(Debug)]
pub(crate) struct Countdown {
    /// How many are left, in the low half. The high half says of which process: see
    /// [`begin_in`](Self::begin_in).
    word: AtomicU64,
}

/// LIMIT: things at once. Half of what fits, so that those who add at the same time, and are
/// refused, do not carry into the process's half: a word of another process begins anew.
const MOST: u32 = u32::MAX / 2;

const fn word(process: u32, left: u32) -> u64 {
    (process as u64) << 32 | left as u64
}

const fn left(word: u64) -> u32 {
    word as u32
}

impl Countdown {
    /// Only the starter is counted.
    pub(crate) fn new() -> Self {
        Self::new_in(0)
    }

    /// As [`new`](Self::new), in a process that has this number; see [`begin_in`](Self::begin_in).
    pub(crate) fn new_in(process: u32) -> Self {
        Self { word: AtomicU64::new(word(process, 1)) }
    }

    /// At its end, to be restarted.
    pub(crate) fn at_end() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Begins again, after the end.
    pub(crate) fn restart(&self) {
        // ORDERING: no pairing: at the end nobody else is left, and newcomers learn of it by other
        // means.
        debug_assert_eq!(self.word.load(Ordering::Relaxed), 0, "restarted before the end");
        self.word.store(1, Ordering::Relaxed);
    }

    /// Forgets everything but the starter, if another process has counted: a forked child has
    /// nothing else of its parent's. `true`: this call did, and there was something.
    ///
    /// Of several threads that come first at once, one does, and what the others add afterwards is
    /// kept: the number and the count are one word.
    pub(crate) fn begin_in(&self, process: u32) -> bool {
        // ORDERING (all): no pairing: the word alone is looked at, and nobody is done by this.
        let mut now = self.word.load(Ordering::Relaxed);
        while now >> 32 != u64::from(process) {
            let anew = word(process, 1);
            match self.word.compare_exchange(now, anew, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return left(now) > 1,
                Err(other) => now = other,
            }
        }
        false
    }

    /// One thing more. By the starter, or something that is itself counted.
    ///
    /// # Panics
    /// If there are more than [`MOST`]; the count is then what it was before.
    pub(crate) fn add(&self) {
        // ORDERING: no pairing: the caller is counted, so this cannot be the last. A
        // read-modify-write, it leaves the release sequences of those that are done as they are.
        let was = left(self.word.fetch_add(1, Ordering::Relaxed));
        debug_assert_ne!(was, 0, "added after the end");
        if was > MOST {
            self.refuse();
        }
    }

    #[cold]
    fn refuse(&self) -> ! {
        // ORDERING: no pairing: as above; the caller is counted still.
        self.word.fetch_sub(1, Ordering::Relaxed);
        panic!("{MOST} things have not finished, and that is as many as can be counted");
    }

    /// As [`add`](Self::add), by anybody and at any time, also after the end, which then comes once
    /// more.
    pub(crate) fn add_late(&self) {
        // ORDERING: no pairing: as above.
        self.word.fetch_add(1, Ordering::Relaxed);
    }

    /// One thing has finished. `true`: it was the last.
    #[must_use]
    pub(crate) fn done(&self) -> bool {
        // ORDERING: AcqRel pairs with itself: the last one sees what all did, and may pass it on.
        left(self.word.fetch_sub(1, acq_rel("countdown"))) == 1
    }

    /// How many are left. For people.
    pub(crate) fn left(&self) -> u32 {
        // ORDERING: no pairing: a look.
        left(self.word.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn what_cannot_be_counted_is_refused_and_leaves_the_count_as_it_was() {
        for many in [MOST + 1, u32::MAX - 1] {
            let countdown = Countdown { word: AtomicU64::new(word(7, many)) };
            let refused = catch_unwind(AssertUnwindSafe(|| countdown.add()));
            assert!(refused.is_err());
            assert_eq!(countdown.left(), many);
            assert!(!countdown.begin_in(7), "it is still this process's");
        }
        let countdown = Countdown { word: AtomicU64::new(word(7, MOST)) };
        countdown.add();
        assert_eq!(countdown.left(), MOST + 1);
    }
}
