//! Ticks in time that nobody waits for.

use crate::{MissedTicks, Ticks};

/// When ticks happen whose functions take so long, and how many were left out each time.
fn ticks(missed: MissedTicks, takes: &[u64]) -> [std::vec::Vec<u64>; 2] {
    let (mut now, mut ticks) = (0, Ticks::new(10, 10, missed));
    let mut found = [std::vec::Vec::new(), std::vec::Vec::new()];
    for time in takes {
        now = ticks.due().max(now);
        found[0].push(now);
        now += time;
        found[1].push(ticks.advance(now));
    }
    found
}

#[test]
fn ticks_that_are_missed_are_left_out_made_up_for_or_put_off() {
    let takes = [1, 35, 1, 1, 1, 1];
    let at = |missed| ticks(missed, &takes)[0].clone();
    assert_eq!(at(MissedTicks::Skip), [10, 20, 60, 70, 80, 90]);
    assert_eq!(at(MissedTicks::Burst), [10, 20, 55, 56, 57, 60]);
    assert_eq!(at(MissedTicks::Delay), [10, 21, 66, 77, 88, 99]);
    assert_eq!(ticks(MissedTicks::Skip, &takes)[1], [0, 3, 0, 0, 0, 0]);
    assert_eq!(ticks(MissedTicks::Burst, &takes)[1], [0; 6]);
}

#[test]
fn a_tick_that_ends_as_the_next_is_due_misses_that() {
    assert_eq!(ticks(MissedTicks::Skip, &[10, 9, 1])[0], [10, 30, 40]);
    assert_eq!(ticks(MissedTicks::Burst, &[10, 9, 1])[0], [10, 20, 30]);
}

#[test]
fn the_end_of_time_is_not_passed() {
    for missed in [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay] {
        let mut ticks = Ticks::new(u64::MAX - 1, u64::MAX, missed);
        let _ = ticks.advance(u64::MAX);
        assert_eq!(ticks.due(), u64::MAX);
    }
}

#[test]
#[should_panic(expected = "an interval of 0")]
fn there_is_no_interval_of_nothing() {
    let _ = Ticks::new(0, 0, MissedTicks::Skip);
}
