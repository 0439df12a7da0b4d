//! What a pool does because other pods have a backlog.

use super::support::Fixture;
use crate::consts::MANY_FIRST_WAITS;
use crate::place::PoolKind;
use crate::{Kick, PoolConfig, PoolId, Waited};

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
fn who_lends_a_worker_is_watched_while_that_runs() {
    let (mut f, _, [_, b]) = Fixture::per_cpu();
    assert_eq!(f.ask_to_help(), Kick::Wake(b));
    assert!(!f.sleeps(b));
    let _ = f.lends(b).expect("a stays as standby");
    assert!(f.has_to_watch(NO, NO), "what it helps may not ask for help any more");
    let _ = f.blocks(b);
    assert!(!f.has_to_watch(NO, NO), "there is nothing to see, however long that takes");
    let _ = f.lend_again(b);
    assert!(f.has_to_watch(NO, NO));
    f.lend_end(b);
    assert!(!f.sleeps(b));
    assert!(!f.has_to_watch(NO, NO));
}

#[test]
fn in_place_of_who_is_blocked_somebody_looks_for_work_elsewhere() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    let _ = f.runs(b, item);
    assert_eq!(f.blocks(b), Kick::None, "no work waits here");
    assert_eq!(f.replace_blocked(Kick::None, false, NO, NO), Kick::None);
    assert_eq!(
        f.replace_blocked(Kick::None, false, YES, YES),
        Kick::None,
        "its caller has the CPU"
    );
    assert_eq!(
        f.replace_blocked(Kick::Watch, false, NO, YES),
        Kick::Watch,
        "work of its own comes first"
    );
    assert_eq!(f.replace_blocked(Kick::None, true, NO, YES), Kick::Watch, "it calls others itself");
    assert_eq!(f.replace_blocked(Kick::None, false, NO, YES), Kick::Wake(a));
    let _ = f.finish(b);
}

#[test]
fn who_helps_others_is_wanted_back_by_work_callers_and_those_that_compute() {
    let config = PoolConfig { kind: PoolKind::Managed, ..PoolConfig::new(PoolId(0), 1) };
    let (mut f, w) = Fixture::with(config, 3);
    let pwq = f.pwq(256);
    let _ = f.kick_to_help();
    assert!(!f.sleeps(w[2]));
    let seq = f.lends(w[2]).expect("there are others");
    assert!(!f.wants_back(NO));
    assert!(f.wants_back(YES), "its caller has the CPU");

    // Another one takes its place, and it is back.
    assert!(f.worker_blocked(w[2], seq) == Kick::None);
    let item = f.queue_new(pwq);
    assert!(f.wants_back(NO), "work waits");
    let _ = f.runs(w[1], item);
    let _ = f.lend_again(w[2]);
    assert!(f.wants_back(NO), "two run");
    let at_once = Waited { before: 0, after: 0 };
    (0..MANY_FIRST_WAITS).for_each(|_| f.item_waited(at_once));
    assert!(!f.wants_back(NO), "the next item waits as they do");
    assert!(f.wants_back(YES));
    f.item_did_not_wait();
    assert!(f.wants_back(NO));
    f.lend_end(w[2]);
    assert!(!f.sleeps(w[2]));
    let _ = f.finish(w[1]);
}

#[test]
fn whoever_runs_is_watched_for_others_unless_somebody_watches_already() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    assert_eq!(f.watch_for_others(false), Kick::None, "nobody runs");
    let item = f.queue_new(pwq);
    let _ = f.runs(b, item);
    assert_eq!(f.watch_for_others(false), Kick::Watch);
    assert_eq!(f.watch_for_others(true), Kick::None);
    let _ = f.finish(b);
}

#[test]
fn while_a_caller_computes_the_sentinel_calls_whoever_is_there() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    assert_eq!(f.kick_when_idle(true), Kick::None, "it will");
    assert_eq!(f.kick_when_idle(false), Kick::Watch);
    let item = f.queue_new(pwq);
    let _ = f.runs(b, item);
    assert_eq!(f.kick_when_idle(false), Kick::None, "its own item has the CPU");
    let _ = f.finish(b);
    let (mut empty, _) = Fixture::new(1, 0);
    assert_eq!(empty.kick_when_idle(false), Kick::NeedFirst);
}

#[test]
fn a_helper_is_wanted_at_home_for_work_for_room_and_for_its_caller() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    assert!(!f.wants_back(NO) && f.wants_back(YES) && !f.has_backlog());
    let (first, second) = (f.queue_new(pwq), f.queue_new(pwq));
    assert!(f.wants_back(NO), "work waits");
    assert!(!f.has_backlog(), "it may start");
    let _ = f.runs(b, first);
    assert!(f.has_backlog());
    let _ = f.finish(b);
    let _ = f.runs(b, second);
    assert!(!f.wants_back(NO), "as many run as may");
    let _ = f.finish(b);
}

#[test]
fn a_call_is_answered_by_whoever_looks_whatever_he_finds() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    assert_eq!(f.ask_to_help(), Kick::Wake(b));
    assert!(f.is_asked_to_help());
    assert_eq!(f.ask_to_help(), Kick::None, "once is enough");
    assert!(!f.sleeps(b));
    assert!(!f.is_asked_to_help(), "he looks in other pods");

    assert_eq!(f.ask_to_help(), Kick::Wake(b));
    let item = f.queue_new(pwq);
    let _ = f.runs(b, item);
    assert!(!f.is_asked_to_help(), "work has come in between");
    assert_eq!(f.blocks(b), Kick::None);
    assert_eq!(f.ask_to_help(), Kick::Wake(a), "the CPU is free again");
    let _ = f.finish(b);
}
