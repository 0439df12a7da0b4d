//! The stall watchdog: who stands still, when it is said, and what does not count.

use alloc::vec::Vec;

use super::support::{Fixture, work};
use crate::policy::UNMANAGED;
use crate::{Looked, Nanos, PanicPolicy, Watchdog};

const THRESH: Nanos = 40;
const INTERVAL: Nanos = 10;
const NEVER: PanicPolicy = PanicPolicy { on_stall: 0, on_stall_time: 0 };

fn watchdog() -> Watchdog<u8> {
    Watchdog::new(THRESH)
}

/// One look at `now`, at which `0` has made that progress.
fn look(dog: &mut Watchdog<u8>, now: Nanos, progress: u64) -> Option<Nanos> {
    look_touched(dog, now, progress, false)
}

fn look_touched(dog: &mut Watchdog<u8>, now: Nanos, progress: u64, touched: bool) -> Option<Nanos> {
    dog.begin(now);
    let stalled = dog.see(0, progress, touched);
    let looked = dog.end(NEVER);
    assert_eq!(looked, Looked { next: Some(now + INTERVAL), has_to_panic: false });
    stalled
}

/// Looks in time from `from` on; when there was something to say, and for how long nothing had
/// happened then.
fn reports(
    dog: &mut Watchdog<u8>,
    from: Nanos,
    looks: u64,
    progress: impl Fn(Nanos) -> u64,
) -> Vec<(Nanos, Nanos)> {
    let times = (0..looks).map(|n| from + n * INTERVAL);
    times.filter_map(|now| Some((now, look(dog, now, progress(now))?))).collect()
}

#[test]
fn what_stands_still_is_reported_once_per_threshold() {
    let said = reports(&mut watchdog(), 1_000, 14, |_| 7);
    assert_eq!(said, [(1_040, 40), (1_080, 80), (1_120, 120)]);
}

#[test]
fn progress_begins_it_anew() {
    let said = reports(&mut watchdog(), 0, 30, |now| now / 40);
    assert_eq!(said, [], "something happens every 40");
    let said = reports(&mut watchdog(), 0, 13, |now| u64::from(now >= 50));
    assert_eq!(said, [(40, 40), (90, 40)]);
}

#[test]
fn what_no_longer_waits_is_forgotten() {
    let mut dog = watchdog();
    assert_eq!(reports(&mut dog, 0, 4, |_| 7), []);
    dog.begin(40);
    assert_eq!(dog.end(NEVER), Looked { next: None, has_to_panic: false });
    assert_eq!(reports(&mut dog, 1_000, 5, |_| 7), [(1_040, 40)], "since the time it waits again");
}

#[test]
fn each_has_its_own_time() {
    let mut dog = watchdog();
    let mut said = Vec::new();
    for n in 0..8 {
        dog.begin(n * INTERVAL);
        said.extend(dog.see(1, 0, false).map(|time| (n, 1, time)));
        if n >= 2 {
            said.extend(dog.see(2, 0, false).map(|time| (n, 2, time)));
        }
        let _ = dog.end(NEVER);
    }
    assert_eq!(said, [(4, 1, 40), (6, 2, 40)]);
}

#[test]
fn touching_excuses() {
    let mut dog = watchdog();
    assert_eq!(reports(&mut dog, 0, 4, |_| 7), []);
    assert_eq!(look_touched(&mut dog, 40, 7, true), None);
    assert_eq!(reports(&mut dog, 50, 4, |_| 7), [(80, 40)]);
}

/// Looks at these times; when there was something to say.
fn said_at(times: &[Nanos]) -> Vec<Nanos> {
    let mut dog = watchdog();
    times.iter().copied().filter(|&now| look(&mut dog, now, 7).is_some()).collect()
}

#[test]
fn a_watchdog_that_was_stopped_does_not_count_the_time() {
    // Stopped from 30 to 65: what the others could not do meanwhile is not held against them.
    assert_eq!(said_at(&[0, 10, 20, 30, 65, 75]), [65], "30 had passed, and one interval");
    assert_eq!(said_at(&[0, 10, 45, 55, 65]), [65]);
    // For longer than a threshold: everything anew, at once and as often as it takes.
    assert_eq!(said_at(&[0, 10, 20, 30, 90, 100, 110, 120, 130]), [130]);
    assert_eq!(said_at(&[0, 30, 1_030, 2_030, 3_030, 4_030, 5_030]), []);
}

#[test]
fn a_watchdog_that_is_always_late_finds_it_all_the_same() {
    // Each look comes two intervals late, on a machine that has no time for it.
    assert_eq!(said_at(&[0, 30, 60, 90, 120, 150]), [120]);
}

#[test]
fn the_time_that_telling_takes_does_not_count() {
    let mut dog = watchdog();
    assert_eq!(reports(&mut dog, 0, 5, |_| 7), [(40, 40)]);
    assert_eq!(dog.told(1_000), Some(1_010));
    assert_eq!(reports(&mut dog, 1_010, 4, |_| 7), [(1_040, 80)]);
    dog.begin(1_050);
    assert_eq!(dog.end(NEVER).next, None);
    assert_eq!(dog.told(1_060), None, "nothing waits");
}

#[test]
fn while_items_come_unseen_it_is_looked_again() {
    let mut dog = watchdog();
    dog.begin(0);
    dog.keep_looking();
    assert_eq!(dog.end(NEVER).next, Some(10));
    dog.begin(10);
    assert_eq!(dog.end(NEVER).next, None, "not for ever");
}

#[test]
fn another_threshold_begins_anew() {
    let mut dog = watchdog();
    assert_eq!(reports(&mut dog, 0, 4, |_| 7), []);
    dog.set_thresh(400);
    dog.begin(40);
    assert_eq!(dog.see(0, 7, false), None);
    assert_eq!(dog.end(NEVER).next, Some(140));
}

/// Three stalls of growing length; at which report the policy has enough.
fn panics_at(policy: PanicPolicy) -> Option<u32> {
    let mut dog = watchdog();
    for n in 0..13 {
        dog.begin(n * INTERVAL);
        let _ = dog.see(0, 7, false);
        let _ = dog.see(1, n, false);
        if dog.end(policy).has_to_panic {
            return Some(dog.nr_reports());
        }
    }
    assert_eq!(dog.nr_reports(), 3);
    None
}

#[test]
fn too_many_or_too_long_is_the_end() {
    assert_eq!(panics_at(NEVER), None);
    assert_eq!(panics_at(PanicPolicy { on_stall: 1, ..NEVER }), Some(1));
    assert_eq!(panics_at(PanicPolicy { on_stall: 3, ..NEVER }), Some(3));
    assert_eq!(panics_at(PanicPolicy { on_stall: 4, ..NEVER }), None);
    assert_eq!(panics_at(PanicPolicy { on_stall_time: 40, ..NEVER }), Some(1));
    assert_eq!(panics_at(PanicPolicy { on_stall_time: 41, ..NEVER }), Some(2));
    assert_eq!(panics_at(PanicPolicy { on_stall_time: 121, ..NEVER }), None);
}

#[test]
fn several_stalls_at_a_look_are_one_report() {
    let mut dog = watchdog();
    for n in 0..5 {
        dog.begin(n * INTERVAL);
        let _ = (dog.see(0, 7, false), dog.see(1, 7, false));
        let policy = PanicPolicy { on_stall: 2, ..NEVER };
        assert!(!dog.end(policy).has_to_panic);
    }
    assert_eq!(dog.nr_reports(), 1);
}

// ---- what a pool says

#[test]
fn a_pool_counts_starts_and_beginnings_of_waits() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    assert!(!f.is_to_be_watched());
    let before = f.progress();
    let first = f.queue_new(pwq);
    assert!(f.is_to_be_watched() && f.progress() > before, "it begins to wait");
    let _ = f.runs(b, first);
    assert!(!f.is_to_be_watched(), "nothing waits");
    let second = f.queue_new(pwq);
    let waiting = f.progress();
    let _ = f.queue_new(pwq);
    assert_eq!(f.progress(), waiting, "more that waits is no progress");
    let _ = f.finish(b);
    assert_eq!(f.progress(), waiting, "nor is an end");
    let _ = f.runs(b, second);
    assert!(f.progress() > waiting);
}

#[test]
fn a_cancelled_wait_is_not_continued_by_the_next() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let first = f.queue_new(pwq);
    let _ = f.runs(b, first);
    let waits = f.queue_new(pwq);
    let before = f.progress();
    let _ = f.cancel(waits);
    let _ = f.queue_new(pwq);
    assert!(f.progress() > before);
}

#[test]
fn items_behind_max_active_are_watched() {
    let (mut f, w) = Fixture::new(UNMANAGED, 2);
    let pwq = f.pwq(1);
    let first = f.queue_new(pwq);
    let _ = f.runs(w[1], first);
    assert_eq!(f.look().queues_with_inactive().count(), 0);
    let inactive = f.queue_new(pwq);
    assert!(work(inactive).word().is_inactive() && !f.work_waits());
    assert!(f.is_to_be_watched());
    assert_eq!(f.look().queues_with_inactive().count(), 1);
    assert!(!f.look().waits_no_more());
    f.forget_inactive();
    assert!(f.is_to_be_watched(), "as long as it waits");
    let _ = f.finish(w[1]);
    let _ = f.runs(w[1], inactive);
    assert_eq!(f.look().queues_with_inactive().count(), 0);
    assert!(f.look().waits_no_more());
    f.forget_inactive();
    assert!(!f.is_to_be_watched() && !f.look().waits_no_more(), "and no longer");
}

#[test]
fn of_many_touches_some_are_noted() {
    let interval = Watchdog::<u32>::interval(1_600);
    assert!(!Watchdog::<u32>::notes_touch(1_600, 1_000, 1_000 + interval / 4));
    assert!(Watchdog::<u32>::notes_touch(1_600, 1_000, 1_001 + interval / 4));
    assert!(!Watchdog::<u32>::notes_touch(1_600, 1_000, 900), "clocks differ");
}

#[test]
fn a_touch_since_the_last_look_excuses() {
    let mut dog = Watchdog::<u32>::new(40);
    dog.begin(100);
    dog.begin(110);
    assert!(dog.excuses(0, 0, 105) && !dog.excuses(0, 0, 100), "no pool");
    assert!(!dog.excuses(1, 90, 105) && dog.excuses(1, 101, 105), "another CPU does not count");
    assert!(dog.excuses(2, 90, 105) && !dog.excuses(2, 90, 100), "one of several CPUs");
}

#[test]
fn the_measure_of_a_frozen_queue_begins_when_it_is_thawed() {
    let mut dog = Watchdog::new(40);
    let mut said = Vec::new();
    for look in 0..12 {
        dog.begin(10 * look);
        if let Some(time) = dog.see_queue(7, look < 5, || 1, false) {
            said.push((10 * look, time));
        }
        dog.keep_looking();
        let _ = dog.end(PanicPolicy::default());
    }
    assert_eq!(said, [(90, 40)]);
}
