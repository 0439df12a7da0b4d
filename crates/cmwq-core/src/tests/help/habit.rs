//! Who computes, and who waits.

use crate::help::Habit;

/// Items of `count` that were queued while the thread was taken for one that computes, if it sleeps
/// as often as that says.
fn away(
    habit: &mut Habit,
    count: u32,
    sleeps: &mut u64,
    sleeps_after: impl Fn(bool) -> bool,
) -> u32 {
    (0..count)
        .filter(|_| {
            habit.queues(|| *sleeps);
            *sleeps += u64::from(sleeps_after(habit.computes()));
            habit.computes()
        })
        .count() as u32
}

#[test]
fn who_never_sleeps_computes_from_the_second_look() {
    let (mut habit, mut sleeps) = (Habit::UNKNOWN, 77);
    assert_eq!(away(&mut habit, 100, &mut sleeps, |_| false), 92);
}

#[test]
fn who_sleeps_after_each_item_never_computes() {
    let (mut habit, mut sleeps) = (Habit::UNKNOWN, 77);
    assert_eq!(away(&mut habit, 10_000, &mut sleeps, |_| true), 0);
}

/// Its items are run before it can wait for them, unless they are run elsewhere.
#[test]
fn who_is_preempted_by_its_items_is_mistaken_ever_more_rarely() {
    let (mut habit, mut sleeps) = (Habit::UNKNOWN, 77);
    // Eight items away after 8, 64, 512 and any 4,096 at home.
    assert_eq!(away(&mut habit, 8 + 8 + 64 + 8 + 512 + 8, &mut sleeps, |away| away), 24);
    assert_eq!(away(&mut habit, 3 * (4096 + 8), &mut sleeps, |away| away), 24);
}

#[test]
fn a_new_habit_is_noticed() {
    let (mut habit, mut sleeps) = (Habit::UNKNOWN, 77);
    away(&mut habit, 1000, &mut sleeps, |_| false);
    assert!(habit.computes());
    assert!(away(&mut habit, 1000, &mut sleeps, |_| true) <= 16);
    assert!(away(&mut habit, 1000, &mut sleeps, |_| false) >= 900);
}
