//! Who is a hog, by looks at intervals.

use std::vec::Vec;

use crate::Nanos;
use crate::detect::hogs::{self, Evidence, HogWatch};
use crate::place::PoolKind;
use crate::policy::UNMANAGED;

const MS: Nanos = 1_000_000;

/// Looks at one run: CPU time and time in ms, sleeps so far; which of them says "hog".
fn looks(watch: &mut HogWatch, seq: u64, looks: &[(u64, u64, u64)]) -> Vec<bool> {
    let look = |&(cpu, now, sleeps): &(u64, u64, u64)| {
        watch.judge(Evidence { seq, cpu: cpu * MS, now: now * MS }, 10 * MS, || Some(sleeps))
    };
    looks.iter().map(look).collect()
}

#[test]
fn the_threshold_counts_from_the_first_look() {
    let watch = &mut HogWatch::default();
    let run = [(100, 0, 5), (104, 4, 5), (108, 8, 5), (109, 9, 5), (111, 11, 5)];
    assert_eq!(looks(watch, 1, &run), [false, false, false, false, true]);
    assert_eq!(looks(watch, 2, &[(120, 20, 6), (125, 25, 6)]), [false, false], "a new run");
}

#[test]
fn time_without_the_cpu_does_not_count() {
    let run = [(0, 0, 1), (2, 2, 1), (4, 20, 1), (9, 80, 1), (11, 120, 1)];
    assert_eq!(looks(&mut HogWatch::default(), 1, &run), [false, false, false, false, true]);
}

#[test]
fn a_sleep_starts_it_anew() {
    let watch = &mut HogWatch::default();
    let run = [(0, 0, 1), (4, 4, 1), (8, 9, 2), (12, 13, 2), (17, 18, 2), (18, 19, 2)];
    assert_eq!(looks(watch, 1, &run), [false, false, false, false, false, true]);
    watch.slept();
    assert_eq!(looks(watch, 1, &[(30, 40, 2), (34, 44, 2), (41, 51, 2)]), [false, false, true]);
}

#[test]
fn a_sleep_before_the_first_count_is_told_by_the_clock() {
    let run = [(0, 0, 1), (2, 6, 2), (11, 15, 2), (12, 16, 2)];
    assert_eq!(looks(&mut HogWatch::default(), 1, &run), [false, false, false, true]);
}

#[test]
fn without_a_count_of_sleeps_time_has_to_do() {
    let mut watch = HogWatch::default();
    let mut look =
        |cpu| watch.judge(Evidence { seq: 1, cpu: cpu * MS, now: cpu * MS }, 10 * MS, || None);
    assert_eq!([0, 5, 10].map(&mut look), [false, false, true]);
}

#[test]
fn the_threshold_is_scaled_on_slow_machines() {
    let thresh_us = |bogomips| hogs::default_thresh(Some(bogomips)) / 1_000;
    assert_eq!(thresh_us(5_000), 10_000);
    assert_eq!(thresh_us(4_000), 10_000);
    // As a kernel of 1750 BogoMIPS was seen to do.
    assert_eq!(thresh_us(1_750), 22_857);
    assert_eq!(thresh_us(40), 1_000_000);
    assert_eq!(thresh_us(39), 1_000_000);
    assert_eq!(thresh_us(0), 1_000_000);
    assert_eq!(hogs::default_thresh(None), 10 * MS);
}

#[test]
fn reports_back_off() {
    let said = |thresh| (1..=40).filter(|&n| hogs::is_reported(n, thresh)).collect::<Vec<_>>();
    assert_eq!(said(4), [4, 5, 7, 11, 19, 35]);
    assert_eq!(said(1), [1, 2, 4, 8, 16, 32]);
    assert_eq!(said(0), [0; 0]);
}

#[test]
fn a_managed_pod_has_as_many_hogs_as_cpus() {
    assert_eq!([0, 1, 2, 3].map(|hogs| hogs::room(PoolKind::Managed, 2, || hogs)), [2, 1, 0, 0]);
    assert_eq!(hogs::room(PoolKind::Managed, UNMANAGED, || 7), UNMANAGED - 7);
    for kind in [PoolKind::Percpu, PoolKind::Unbound, PoolKind::Bh] {
        assert_eq!(hogs::room(kind, 1, || 1_000), u32::MAX, "{kind:?}");
        assert!(hogs::is_mistake(kind));
    }
    assert!(!hogs::is_mistake(PoolKind::Managed), "it is made for computing");
}

/// Six milliseconds at a time with short sleeps between, and the second look is late: nobody knows
/// of those before it.
#[test]
fn a_first_count_that_is_late_tells_nothing() {
    let watch = &mut HogWatch::default();
    let run = [(0, 0, 1), (21, 21, 5), (25, 25, 6), (29, 29, 6), (34, 34, 7), (45, 45, 7)];
    assert_eq!(looks(watch, 1, &run), [false, false, false, false, false, true]);
    let hog = [(50, 50, 7), (75, 75, 7), (100, 100, 7)];
    assert_eq!(looks(watch, 2, &hog), [false, false, true], "one look more");
}
