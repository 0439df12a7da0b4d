//! How long a pool's items take.

use crate::help::Length;
use crate::help::short_items::Sampling;
use crate::help::{Progress, Visit};
use crate::ids::Nanos;

/// As in `short_items`.
const OLD_NS: Nanos = 10_000_000;

fn at(at: Nanos) -> impl Fn() -> Progress + Copy {
    move || Progress { at, started: 1_000 }
}

#[test]
fn a_guest_judges_sixteen_items_together() {
    let mut visit = Visit::begin(100, 0, true);
    let nobody_asks = || -> bool { unreachable!("it is not over") };
    let nobody_looks = || -> Progress { unreachable!("nobody looks now") };
    assert!((0..15).all(|_| !visit.is_over(1, false, nobody_looks, nobody_asks)));
    assert!(visit.is_over(1, false, || Progress { at: 100 + 16 * 999, started: 17 }, || true));
    assert!((0..15).all(|_| visit.is_over(1, false, nobody_looks, || true)), "until the next look");
    let progress = Progress { at: 100 + 16 * 999 + 16 * 1000, started: 40 };
    assert!(!visit.is_over(1, false, || progress, nobody_asks), "1 µs for each");
}

#[test]
fn a_guest_stays_for_short_items_that_nobody_else_runs() {
    let mut visit = Visit::begin(100, 7, true);
    let nobody_asks = || -> bool { unreachable!("it is not over") };
    assert!(!visit.is_over(16, false, || Progress { at: 200, started: 23 }, nobody_asks));
    assert!(visit.stays_alone());
    let nobody_looks = || -> Progress { unreachable!("too few for a look") };
    assert!(!visit.is_over(3, false, nobody_looks, nobody_asks) && visit.stays_alone());
    assert!(!visit.is_over(33, false, || Progress { at: 300, started: 59 }, nobody_asks));
    assert!(visit.stays_alone() && visit.is_over(1, true, nobody_looks, || true), "wanted back");
    assert!(visit.leaves_nobody(), "others are to come, however short the items");
    assert!(!visit.is_over(14, false, nobody_looks, nobody_asks));
    assert!(!visit.leaves_nobody(), "it stays");
    assert!(visit.is_over(1, false, || Progress { at: 400, started: 76 }, || true));
    assert!(!visit.stays_alone(), "somebody has started one of the seventeen");
    assert!(visit.is_over(1, true, nobody_looks, || true) && !visit.leaves_nobody());
}

#[test]
fn of_long_items_nobody_says_that_a_guest_is_alone() {
    let mut visit = Visit::begin(0, 0, true);
    assert!(!visit.is_over(16, false, || Progress { at: 16_000, started: 16 }, || true));
    assert!(!visit.stays_alone());
}

#[test]
fn a_guest_goes_that_is_wanted_back_but_not_from_what_only_it_can_run() {
    let mut visit = Visit::begin(100, 0, false);
    assert!(
        !visit.is_over(1, false, at(100), || true) && !visit.is_over(1, true, at(100), || false)
    );
    assert!(visit.is_over(1, true, at(100), || true));
    assert!(!visit.finds_short(100, false), "it goes for another reason");
}

#[test]
fn nothing_is_found_short_where_no_tick_would_measure_again() {
    let mut visit = Visit::begin(100, 0, false);
    assert!((0..16).all(|_| !visit.is_over(1, false, at(101), || true)));
    assert!(!visit.finds_short(101, false));
}

#[test]
fn a_short_visit_is_judged_at_its_end() {
    let mut visit = Visit::begin(100, 0, true);
    assert!(visit.finds_short(100_000, false), "in vain");
    assert!(!visit.finds_short(100_000, true), "the pool has become able to start them itself");
    let too_few = || -> Progress { unreachable!("too few for a look") };
    assert!((0..3).all(|_| !visit.is_over(1, false, too_few, || true)));
    assert!(visit.finds_short(100 + 3 * 999, true));
    assert!(!visit.finds_short(100 + 3 * 1000, false));
    assert!((3..16).all(|_| !visit.is_over(1, false, at(200_000), || true)));
    assert!(!visit.finds_short(900_000, false), "sixteen long ones, and then none");
}

#[test]
fn an_item_is_measured_after_the_first_of_every_eight_sleeps() {
    let mut sampling = Sampling::default();
    let mut measured = std::vec::Vec::new();
    for sleep in 1..=20 {
        sampling.slept();
        if sampling.is_due() {
            measured.push((sleep, sampling.measured(if sleep < 9 { 20_000 } else { 7_000 })));
        }
        assert!(!sampling.is_due(), "one item");
    }
    assert_eq!(measured, [(1, Some(Length::Long)), (9, None), (17, None)]);
    sampling = Sampling::default();
    assert!(!sampling.is_due(), "who has not slept is not measured");
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

#[test]
fn items_are_short_long_or_very_long() {
    let lengths = [0, 4_999, 5_000, 9_999, 10_000, 199_999, 200_000, u64::MAX].map(Length::of);
    let (short, long, very) = (Some(Length::Short), Some(Length::Long), Some(Length::VeryLong));
    assert_eq!(lengths, [short, short, None, None, long, long, very, very]);
    assert!(Length::Short < Length::Long && Length::Long < Length::VeryLong);
}
