//! The adaptive tick.

use std::vec::Vec;

use crate::Nanos;
use crate::detect::tick::{QUIET_TICKS, TickFound};
use crate::detect::{Quiet, Tick, TickRole};

const US: Nanos = 1_000;

fn after(tick: &mut Tick, looks: &[bool]) -> Vec<Nanos> {
    let found = |&has_woken| TickFound { has_woken, has_processes: false };
    looks.iter().map(|look| tick.after(found(look)) / US).collect()
}

#[test]
fn alone_it_halves_down_to_100_us_while_it_lets_somebody_start() {
    let mut tick = Tick::new(TickRole::Alone);
    assert_eq!(tick.begin(), 250 * US);
    assert_eq!(after(&mut tick, &[true; 3]), [125, 100, 100]);
}

#[test]
fn behind_a_better_source_it_halves_down_to_250_us() {
    let mut tick = Tick::new(TickRole::Behind);
    assert_eq!(tick.begin(), 250 * US);
    assert_eq!(after(&mut tick, &[true; 2]), [250, 250]);
    assert_eq!(after(&mut tick, &[false; 4]), [250, 500, 500, 1_000]);
    assert_eq!(after(&mut tick, &[true; 3]), [500, 250, 250]);
}

#[test]
fn alone_it_doubles_after_eight_fruitless_looks_up_to_a_millisecond() {
    let mut tick = Tick::new(TickRole::Alone);
    let intervals = after(&mut tick, &[false; 48]);
    assert_eq!(intervals[..8], [250, 250, 250, 250, 250, 250, 250, 500]);
    assert_eq!(intervals[15..], [1_000; 33]);
    assert_eq!(TickRole::Alone.longest(), 1_000 * US);
}

#[test]
fn behind_a_better_source_it_doubles_after_two_up_to_four_milliseconds() {
    let mut tick = Tick::new(TickRole::Behind);
    let intervals = after(&mut tick, &[false; 48]);
    assert_eq!(intervals[..8], [250, 500, 500, 1_000, 1_000, 2_000, 2_000, 4_000]);
    assert_eq!(intervals[8..], [4_000; 40]);
    assert_eq!(TickRole::Behind.longest(), 4_000 * US);
}

#[test]
fn one_look_that_lets_somebody_start_makes_the_others_count_anew() {
    let mut tick = Tick::new(TickRole::Alone);
    let looks = [false, false, false, false, false, false, false, true, false];
    assert_eq!(after(&mut tick, &looks), [250, 250, 250, 250, 250, 250, 250, 125, 125]);
    assert_eq!(after(&mut tick, &[false; 7]), [125, 125, 125, 125, 125, 125, 250]);
}

#[test]
fn it_is_first_until_16_looks_in_a_row_let_nobody_start() {
    let mut tick = Tick::new(TickRole::Behind);
    for _ in 0..2 {
        let _ = after(&mut tick, &[false; 15]);
        assert!(tick.is_first());
        let _ = after(&mut tick, &[false]);
        assert!(!tick.is_first());
        let _ = tick.begin();
        assert!(!tick.is_first(), "that it comes soon says nothing");
        let _ = after(&mut tick, &[true]);
    }
}

#[test]
fn who_relies_on_it_gets_the_first_interval() {
    let mut tick = Tick::new(TickRole::Behind);
    let _ = after(&mut tick, &[false; 30]);
    assert_eq!(tick.begin(), 250 * US);
    let _ = after(&mut tick, &[true; 5]);
    assert_eq!(tick.begin(), 250 * US, "not its shortest: somebody said so, it has not looked yet");
}

#[test]
fn where_the_better_source_is_refused_it_is_as_if_alone() {
    let mut tick = Tick::new(TickRole::Behind);
    let intervals = after(&mut tick, &[false; 48]);
    assert_eq!(intervals.last(), Some(&4_000));
    tick.turn_alone();
    assert_eq!(after(&mut tick, &[false; 24]), [1_000; 24]);
    assert_eq!(after(&mut tick, &[true; 5]), [500, 250, 125, 100, 100]);
}

#[test]
fn where_workers_wait_for_processes_it_is_not_shorter_than_a_millisecond() {
    let mut tick = Tick::new(TickRole::Behind);
    assert_eq!(tick.begin(), 250 * US);
    let mut after =
        |has_woken, has_processes| tick.after(TickFound { has_woken, has_processes }) / US;
    assert_eq!(after(false, true), 250, "it begins as everywhere");
    assert_eq!(after(true, true), 1_000);
    assert_eq!([(); 8].map(|()| after(false, true))[7], 2_000);
    assert_eq!(after(true, true), 1_000);
    assert_eq!([(); 3].map(|()| after(true, false)), [500, 250, 250]);
    assert_eq!(after(true, true), 1_000);
    assert_eq!(tick.begin(), 1_000 * US);
}

#[test]
fn a_pool_that_is_not_watched_is_looked_at_four_times_more() {
    let mut quiet = Quiet::default();
    assert!(quiet.stays(true));
    for _ in 1..QUIET_TICKS {
        assert!(quiet.stays(false));
    }
    let mut again = quiet;
    assert!(again.stays(true) && again.stays(false), "it counts anew");
    assert!(!quiet.stays(false));
}
