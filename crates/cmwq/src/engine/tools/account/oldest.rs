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

/// See the module header. Times are numbers above 0, which grow. Each number has the generation of
/// its process, see `fork`: what waits in the parent of a forked child does not wait in the child.
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
pub(super) struct Note {
    whose: Generation,
    slot: Option<u8>,
}

/// A generation of processes, by its last bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(u16);

impl Generation {
    const SHIFT: u32 = 48;

    pub(super) fn of(generation: u32) -> Self {
        Self(generation as u16)
    }

    fn word(self, number: u64) -> u64 {
        u64::from(self.0) << Self::SHIFT | number.min((1 << Self::SHIFT) - 1)
    }

    /// A number of another one is 0 here.
    fn number(self, word: u64) -> u64 {
        if word >> Self::SHIFT == u64::from(self.0) { word & ((1 << Self::SHIFT) - 1) } else { 0 }
    }
}

impl Oldest {
    pub(super) fn new() -> Self {
        Self {
            nr_others: AtomicU64::new(0),
            others_since: AtomicU64::new(0),
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// One comes to wait.
    pub(super) fn enter(&self, whose: Generation, now: u64) -> Note {
        // ORDERING (all of this type): no pairing: for people.
        if whose.number(self.nr_others.load(Ordering::Relaxed)) == 0 {
            let take = |slot: &AtomicU64| {
                let (was, now) = (slot.load(Ordering::Relaxed), whose.word(now));
                let is_empty = whose.number(was) == 0;
                let order = Ordering::Relaxed;
                is_empty && slot.compare_exchange(was, now, order, order).is_ok()
            };
            if let Some(slot) = self.slots.iter().position(take) {
                return Note { whose, slot: Some(slot as u8) };
            }
            // Before it is counted, so that whoever looks then finds a time.
            self.others_since.fetch_max(whose.word(now), Ordering::Relaxed);
        }
        self.count_others(whose, |nr| Some(nr + 1));
        Note { whose, slot: None }
    }

    /// One that came at `since` begins.
    pub(super) fn begun(&self, whose: Generation, note: Note, since: u64) {
        if note.whose == whose && note.slot.is_none() {
            self.others_since.fetch_max(whose.word(since), Ordering::Relaxed);
        }
        self.left(whose, note);
    }

    /// One waits no more, and whether it begins says nothing about the others.
    pub(super) fn left(&self, whose: Generation, note: Note) {
        match note.slot {
            _ if note.whose != whose => {}
            Some(slot) => self.slots[usize::from(slot)].store(0, Ordering::Relaxed),
            None => self.count_others(whose, |nr| nr.checked_sub(1)),
        }
    }

    fn count_others(&self, whose: Generation, change: impl Fn(u64) -> Option<u64>) {
        let change = |word| Some(whose.word(change(whose.number(word))?));
        let _ = self.nr_others.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    /// When the oldest came. `None`: nobody waits.
    pub(super) fn since(&self, whose: Generation) -> Option<u64> {
        let number = |word: &AtomicU64| whose.number(word.load(Ordering::Relaxed));
        let has_others = number(&self.nr_others) > 0;
        let others = has_others.then(|| number(&self.others_since));
        self.slots.iter().map(number).filter(|&since| since != 0).chain(others).min()
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use super::*;

    const OF: Generation = Generation(3);

    /// The time of the one before, which has begun, is the most that it can be wrong by.
    fn is_near(found: Option<u64>, front: u64) -> bool {
        found == Some(front) || found == Some(front - 1)
    }

    #[test]
    fn a_backlog_that_nobody_adds_to_has_an_oldest_to_its_end() {
        let oldest = Oldest::new();
        let notes: Vec<_> = (1..=100).map(|now| (now, oldest.enter(OF, now))).collect();
        for (since, note) in notes {
            assert!(is_near(oldest.since(OF), since), "{since}: {:?}", oldest.since(OF));
            oldest.begun(OF, note, since);
        }
        assert_eq!(oldest.since(OF), None);
    }

    #[test]
    fn a_backlog_that_does_not_end_grows_no_younger_than_its_oldest() {
        let oldest = Oldest::new();
        let mut notes: std::collections::VecDeque<_> =
            (1..=40).map(|now| (now, oldest.enter(OF, now))).collect();
        for now in 41..1000 {
            let (since, note) = notes.pop_front().unwrap();
            assert!(is_near(oldest.since(OF), since), "{since}: {:?}", oldest.since(OF));
            oldest.begun(OF, note, since);
            notes.push_back((now, oldest.enter(OF, now)));
        }
        // The newest are taken back: of the others that says nothing.
        let kept = notes.split_off(1);
        kept.into_iter().for_each(|(_, note)| oldest.left(OF, note));
        let (since, note) = notes.pop_front().unwrap();
        assert!(is_near(oldest.since(OF), since), "{since}: {:?}", oldest.since(OF));
        oldest.begun(OF, note, since);
        assert_eq!(oldest.since(OF), None);
    }

    /// What began long ago says nothing about a backlog that is new.
    #[test]
    fn after_a_rest_times_are_new() {
        let oldest = Oldest::new();
        for now in [1, 1_000_000] {
            let notes: Vec<_> = (now..now + 40).map(|now| (now, oldest.enter(OF, now))).collect();
            assert_eq!(oldest.since(OF), Some(now));
            notes.iter().take(16).for_each(|&(since, note)| oldest.begun(OF, note, since));
            assert_eq!(oldest.since(OF), Some(now + 16));
            notes.iter().skip(16).for_each(|&(since, note)| oldest.begun(OF, note, since));
            assert_eq!(oldest.since(OF), None);
        }
    }

    /// Neither a slot nor a number, and a child that lets go of them takes nothing from itself.
    #[test]
    fn what_waits_in_the_parent_does_not_wait_in_the_child() {
        let child = Generation(OF.0 + 1);
        let oldest = Oldest::new();
        let notes: Vec<_> = (1..=40).map(|now| oldest.enter(OF, now)).collect();
        assert_eq!(oldest.since(child), None);
        let own: Vec<_> = (100..140).map(|now| oldest.enter(child, now)).collect();
        notes.into_iter().for_each(|note| oldest.begun(child, note, 1000));
        assert_eq!(oldest.since(child), Some(100));
        own.iter().take(16).for_each(|&note| oldest.left(child, note));
        assert_eq!(oldest.since(child), Some(116));
        own.iter().skip(16).for_each(|&note| oldest.left(child, note));
        assert_eq!(oldest.since(child), None);
    }
}
