//! How long a pool's items take.

use crate::help::{Progress, Visit};
use crate::ids::Nanos;

/// As in `short_items`.
const OLD_NS: Nanos = 10_000_000;

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
    let then = Progress { at: 1_000, started: u64::MAX };
    let after = |took: Nanos, items: u64| {
        then.was_short(Progress { at: 1_000 + took, started: u64::MAX.wrapping_add(items) })
    };
    assert_eq!(after(250_000, 251), Some(true));
    assert_eq!(after(250_000, 250), Some(false));
    assert_eq!(after(10_000_000, 3), Some(false));
}

#[test]
fn what_was_known_long_ago_is_forgotten() {
    let [then, soon, later] = [5, 5 + OLD_NS, 6 + OLD_NS].map(|at| Progress { at, started: 9 });
    assert!(!then.is_old(soon));
    assert!(then.is_old(later));
}

#[test]
fn standing_still_tells_nothing_at_first() {
    let then = Progress { at: 1_000, started: 5 };
    assert_eq!(then.was_short(Progress { at: 1_000 + 999_999, started: 5 }), None);
    assert_eq!(then.was_short(Progress { at: 1_001_000, started: 5 }), Some(false));
}
