//! Counting what has not finished yet, until the last one does.

use crate::os::sync::{AtomicUsize, Ordering, acq_rel};

/// Things that have not finished, and one for whoever started them: until he is
/// [`done`](Self::done) himself it cannot come to an end, so that he may add more.
///
/// Whoever is last sees what all the others did before they were done.
#[derive(Debug)]
pub(crate) struct Countdown {
    left: AtomicUsize,
}

impl Countdown {
    /// Only the starter is counted.
    pub(crate) fn new() -> Self {
        Self { left: AtomicUsize::new(1) }
    }

    /// At its end, to be restarted.
    pub(crate) fn at_end() -> Self {
        Self { left: AtomicUsize::new(0) }
    }

    /// Begins again, after the end.
    pub(crate) fn restart(&self) {
        // ORDERING: no pairing: at the end nobody else is left, and newcomers learn of it by other
        // means.
        debug_assert_eq!(self.left.load(Ordering::Relaxed), 0, "restarted before the end");
        self.left.store(1, Ordering::Relaxed);
    }

    /// Forgets everything but the starter: a forked child has nothing else of its parent's.
    /// `true`: there was something.
    pub(crate) fn begin_anew(&self) -> bool {
        // ORDERING: no pairing: the child has one thread.
        self.left.swap(1, Ordering::Relaxed) > 1
    }

    /// One thing more. By the starter, or something that is itself counted.
    pub(crate) fn add(&self) {
        // ORDERING: no pairing: the caller is counted, so this cannot be the last. A
        // read-modify-write, it leaves the release sequences of those that are done as they are.
        let was = self.left.fetch_add(1, Ordering::Relaxed);
        debug_assert_ne!(was, 0, "added after the end");
    }

    /// As [`add`](Self::add), by anybody and at any time, also after the end, which then comes once
    /// more.
    pub(crate) fn add_late(&self) {
        // ORDERING: no pairing: as above.
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// One thing has finished. `true`: it was the last.
    #[must_use]
    pub(crate) fn done(&self) -> bool {
        // ORDERING: AcqRel pairs with itself: the last one sees what all did, and may pass it on.
        self.left.fetch_sub(1, acq_rel("countdown")) == 1
    }

    /// How many are left. For people.
    pub(crate) fn left(&self) -> usize {
        // ORDERING: no pairing: a look.
        self.left.load(Ordering::Relaxed)
    }
}
