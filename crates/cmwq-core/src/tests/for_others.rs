//! What a pool does because other pods have a backlog.

use super::support::Fixture;
use crate::Kick;

const YES: fn() -> bool = || true;
const NO: fn() -> bool = || false;

#[test]
fn who_has_work_or_uses_a_cpu_that_others_want_is_watched() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    assert!(!f.has_to_watch(NO, YES), "nobody uses the CPU");
    assert!(f.has_to_watch(YES, YES), "its caller does");
    assert!(!f.has_to_watch(YES, NO));
    let item = f.queue_new(pwq);
    assert!(f.has_to_watch(NO, NO), "work waits");
    let _ = f.runs(b, item);
    assert!(!f.has_to_watch(NO, NO), "no work waits, here or elsewhere");
    assert!(f.has_to_watch(NO, YES));
    let _ = f.finish(b);
}

#[test]
fn in_place_of_who_is_blocked_somebody_looks_for_work_elsewhere() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    let _ = f.runs(b, item);
    assert_eq!(f.blocks(b), Kick::None, "no work waits here");
    assert_eq!(f.replace_blocked(Kick::None, NO, NO), Kick::None);
    assert_eq!(f.replace_blocked(Kick::None, YES, YES), Kick::None, "its caller has the CPU");
    assert_eq!(f.replace_blocked(Kick::Watch, NO, YES), Kick::Watch, "work of its own comes first");
    assert_eq!(f.replace_blocked(Kick::None, NO, YES), Kick::Wake(a));
    let _ = f.finish(b);
}
