//! Since when the oldest of a queue's sampled closures waits.
//!
//! The first ones that wait have a slot each, with their time. Those that come while all slots are
//! taken are only counted, and so is who comes while any such waits: a slot never goes to somebody
//! who is younger than one without. Where closures begin in the order in which they were queued,
//! the oldest one without a slot is the next behind the last that has begun, so the time of that
//! one stands for its own.

use crate::os::sync::{AtomicU64, Ordering};

/// LIMIT: so many are known by their own times.
const NR_SLOTS: usize = 16;

/// See the module header. Times are numbers above 0, which grow.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Oldest {
    /// How many wait without a slot.
    nr_others: AtomicU64,
    /// The earliest of them came then: the first of them, or the last one that has begun.
    others_since: AtomicU64,
    /// When those with slots came; 0: an empty slot.
    slots: [AtomicU64; NR_SLOTS],
}

/// Where one that waits is noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note(Option<usize>);

impl Oldest {
    pub(super) fn new() -> Self {
        Self {
            nr_others: AtomicU64::new(0),
            others_since: AtomicU64::new(0),
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// One comes to wait.
    pub(super) fn enter(&self, now: u64) -> Note {
        // ORDERING (all of this type): no pairing: for people.
        if self.nr_others.load(Ordering::Relaxed) == 0 {
            let take = |slot: &AtomicU64| {
                slot.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            };
            if let Some(slot) = self.slots.iter().position(take) {
                return Note(Some(slot));
            }
            // Before it is counted, so that whoever looks then finds a time.
            self.others_since.fetch_max(now, Ordering::Relaxed);
        }
        self.nr_others.fetch_add(1, Ordering::Relaxed);
        Note(None)
    }

    /// One that came at `since` begins.
    pub(super) fn begun(&self, note: Note, since: u64) {
        if note.0.is_none() {
            self.others_since.fetch_max(since, Ordering::Relaxed);
        }
        self.left(note);
    }

    /// One waits no more, and whether it begins says nothing about the others.
    pub(super) fn left(&self, note: Note) {
        match note.0 {
            Some(slot) => self.slots[slot].store(0, Ordering::Relaxed),
            None => _ = self.nr_others.fetch_sub(1, Ordering::Relaxed),
        }
    }

    /// When the oldest came. `None`: nobody waits.
    pub(super) fn since(&self) -> Option<u64> {
        let slots = self.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        let has_others = self.nr_others.load(Ordering::Relaxed) > 0;
        let others = has_others.then(|| self.others_since.load(Ordering::Relaxed));
        slots.filter(|&since| since != 0).chain(others).min()
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use super::*;

    /// The time of the one before, which has begun, is the most that it can be wrong by.
    fn is_near(found: Option<u64>, front: u64) -> bool {
        found == Some(front) || found == Some(front - 1)
    }

    #[test]
    fn a_backlog_that_nobody_adds_to_has_an_oldest_to_its_end() {
        let oldest = Oldest::new();
        let notes: Vec<_> = (1..=100).map(|now| (now, oldest.enter(now))).collect();
        for (since, note) in notes {
            assert!(is_near(oldest.since(), since), "{since}: {:?}", oldest.since());
            oldest.begun(note, since);
        }
        assert_eq!(oldest.since(), None);
    }

    #[test]
    fn a_backlog_that_does_not_end_grows_no_younger_than_its_oldest() {
        let oldest = Oldest::new();
        let mut notes: std::collections::VecDeque<_> =
            (1..=40).map(|now| (now, oldest.enter(now))).collect();
        for now in 41..1000 {
            let (since, note) = notes.pop_front().unwrap();
            assert!(is_near(oldest.since(), since), "{since}: {:?}", oldest.since());
            oldest.begun(note, since);
            notes.push_back((now, oldest.enter(now)));
        }
        // The newest are taken back: of the others that says nothing.
        let kept = notes.split_off(1);
        kept.into_iter().for_each(|(_, note)| oldest.left(note));
        let (since, note) = notes.pop_front().unwrap();
        assert!(is_near(oldest.since(), since), "{since}: {:?}", oldest.since());
        oldest.begun(note, since);
        assert_eq!(oldest.since(), None);
    }

    /// What began long ago says nothing about a backlog that is new.
    #[test]
    fn after_a_rest_times_are_new() {
        let oldest = Oldest::new();
        for now in [1, 1_000_000] {
            let notes: Vec<_> = (now..now + 40).map(|now| (now, oldest.enter(now))).collect();
            assert_eq!(oldest.since(), Some(now));
            notes.iter().take(16).for_each(|&(since, note)| oldest.begun(note, since));
            assert_eq!(oldest.since(), Some(now + 16));
            notes.iter().skip(16).for_each(|&(since, note)| oldest.begun(note, since));
            assert_eq!(oldest.since(), None);
        }
    }
}
