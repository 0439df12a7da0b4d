//! Items that use the CPU for long make room for others, as in the runtime.

use cmwq_sim::config::{Costs, Sabotage};
use cmwq_sim::scenario::Flag;
use cmwq_sim::script::Step;
use cmwq_sim::{Config, Moment, Nanos};

use crate::MS;

/// When the works start if threads take turns of 1 ms, in microseconds.
fn starts(flag: Flag, works: &[&[Step]]) -> Vec<Nanos> {
    let costs = Costs { slice: Some(MS), ..Costs::default() };
    crate::starts(flag, works, Config { costs, ..Config::exact(1) })
}

const LONG: &[Step] = &[Step::Burn(100 * MS)];
const MEDIUM: &[Step] = &[Step::Burn(8 * MS)];
const SHORT: &[Step] = &[Step::Burn(MS)];

#[test]
fn a_short_item_does_not_wait_for_a_long_one() {
    // Looks at 250 µs, from where the measure begins, … 2 ms, 2.5 … 6, 7, 8, 9, 10: 9.75 ms by
    // then, and at 11. The slice ends then, too.
    assert_eq!(starts(Flag::Percpu, &[LONG, SHORT]), [0, 11_000]);
    assert_eq!(starts(Flag::Managed, &[LONG, SHORT]), [0, 11_000]);
}

#[test]
fn who_is_never_taken_for_a_hog_is_noticed() {
    let sabotage = Some(Sabotage::NeverYield);
    let costs = Costs { slice: Some(MS), ..Costs::default() };
    let config = Config { costs, sabotage, ..Config::exact(1) };
    let complaint = crate::play(Flag::Percpu, &[LONG, SHORT], config).unwrap_err().to_string();
    assert!(complaint.contains("hogs"), "{complaint}");
}

#[test]
fn a_managed_pod_takes_as_many_hogs_out_of_the_count_as_it_has_cpus() {
    // The second one is not: the third item starts when one has ended, the first: they took turns.
    let managed = starts(Flag::Managed, &[LONG, LONG, SHORT]);
    assert_eq!(managed[..2], [0, 11_000]);
    assert!(managed[2] > 180_000, "{managed:?}");
    let percpu = starts(Flag::Percpu, &[LONG, LONG, SHORT]);
    assert!(percpu[2] < 40_000, "{percpu:?}");
}

#[test]
fn who_sleeps_is_no_hog() {
    let naps: Vec<Step> =
        (0..10).flat_map(|_| [Step::Burn(4 * MS), Step::Sleep(MS / 100)]).collect();
    // The second one starts in the first's first sleep.
    assert_eq!(starts(Flag::Percpu, &[&naps, LONG])[1], 4_000);
    assert_eq!(starts(Flag::Percpu, &[&naps, LONG, SHORT]).len(), 3);
}

#[test]
fn a_pod_whose_item_is_a_hog_helps_another_pod_at_once() {
    // The first item is taken for a hog by the look at 11 ms, and by then the other pod has been
    // looked at.
    let works = [(1, LONG), (0, MEDIUM), (0, MEDIUM), (0, MEDIUM), (0, MEDIUM)];
    assert_eq!(crate::starts_on(&works)[..4], [0, 0, 8_000, 11_000]);
}

#[test]
fn while_a_hog_waits_another_one_takes_its_room() {
    // The first is a hog at 11 ms, and waits from about 13 ms on.
    let waits = [Step::Burn(12 * MS), Step::Sleep(200 * MS)];
    let starts = starts(Flag::Managed, &[&waits, LONG, SHORT]);
    assert_eq!(starts[..2], [0, 11_000]);
    assert!(starts[2] < 30_000, "{starts:?}");
}

#[test]
fn a_hog_that_comes_back_to_a_full_pod_counts_until_there_is_room() {
    // The second takes the room of the first, which is back at about 60 ms: the third, which has
    // begun in the second's place, ends before the fourth begins.
    let waits = [Step::Burn(12 * MS), Step::Sleep(45 * MS), Step::Burn(100 * MS)];
    let starts = starts(Flag::Managed, &[&waits, LONG, LONG, SHORT]);
    assert!(starts[2] < 30_000, "{starts:?}");
    assert!(starts[3] > 100_000, "{starts:?}");
}

/// The third begins beside the first at 11 ms, and from 20 ms on the other CPU is idle.
const BESIDE: &[(u32, &[Step])] = &[(0, LONG), (1, &[Step::Burn(20 * MS)]), (0, LONG)];

#[test]
fn a_hog_goes_where_a_cpu_is_idle() {
    assert_eq!(crate::starts_on(BESIDE), [0, 0, 11_000]);
    let ends = crate::times_on(Moment::Finish, BESIDE);
    assert!(ends[2] < 125_000, "{ends:?}");
}

#[test]
fn a_hog_that_stays_bound_to_a_busy_cpu_is_noticed() {
    let complaint = crate::play_on(BESIDE, Some(Sabotage::NeverUnbind)).unwrap_err().to_string();
    assert!(complaint.contains("idle"), "{complaint}");
}

#[test]
fn a_hog_whose_wait_is_over_goes_where_a_cpu_is_idle() {
    // The first is back at about 43 ms, where the third computes. The other CPU is idle.
    let waits = [Step::Burn(12 * MS), Step::Sleep(30 * MS), Step::Burn(60 * MS)];
    let ends = crate::times_on(Moment::Finish, &[(0, &waits), BESIDE[1], BESIDE[2]]);
    assert!(ends[2] < 120_000, "{ends:?}");
}
