//! Taking items back, wherever they are.

use super::support::{Fixture, work};
use crate::policy::UNMANAGED;
use crate::{Effects, Grab, Kick, PoolConfig, PoolId, WorkWord, WqKey};

#[test]
fn a_queued_item_is_taken_and_stays_pending_until_published() {
    let (mut f, pwq, [a, _]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    assert_eq!(f.grab(item), Grab::Taken(Kick::None, Effects::NONE));
    assert_eq!(work(item).word(), WorkWord::off_queue(PoolId(0), false).with_pending(true));
    assert!(work(item).claim().is_pending(), "a queuer is refused meanwhile");
    assert_eq!(f.grab(item), Grab::NotHere, "it cannot be taken twice");
    assert_eq!(f.pwq_load(pwq), Some((0, false, false)));
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").cancelled, 1);
    assert!(!f.sleeps(a), "nothing is left to run");

    work(item).publish_idle(WorkWord::off_queue(PoolId(0), false));
    let _ = f.queue(pwq, item);
    let _ = f.runs(a, item);
}

#[test]
fn an_active_item_frees_its_slot() {
    let (mut f, w) = Fixture::new(1, 2);
    let pwq = f.pwq(1);
    let (active, inactive) = (f.queue_new(pwq), f.queue_new(pwq));
    assert!(work(inactive).word().is_inactive());
    let _ = f.cancel(active);
    assert!(!work(inactive).word().is_inactive());
    let _ = f.runs(w[1], inactive);
}

#[test]
fn what_a_freed_slot_activates_is_not_left_waiting() {
    // The cancelled item waited for a busy worker, so nobody else is on the way. Linux forgets to
    // wake one.
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(2);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[3], item);
    let _ = f.queue(pwq, item);
    assert!(!f.sleeps(w[2]), "w2 gives it to w3");
    let inactive = f.item();
    assert_eq!(f.queue(pwq, inactive), Kick::None);
    assert_eq!(f.cancel(item).0, Kick::Wake(w[2]));
    let _ = f.runs(w[2], inactive);
}

#[test]
fn an_inactive_item_leaves_the_others_in_order() {
    let (mut f, w) = Fixture::new(1, 2);
    let pwq = f.pwq(1);
    let items = [(); 4].map(|()| f.queue_new(pwq));
    let _ = f.runs(w[1], items[0]);
    assert_eq!(f.cancel(items[2]), (Kick::None, Effects::NONE));
    assert_eq!(f.pwq_load(pwq), Some((1, true, true)));
    for item in [items[1], items[3]] {
        let _ = f.finish(w[1]);
        let _ = f.runs(w[1], item);
    }
    let _ = f.finish(w[1]);
    assert!(!f.sleeps(w[1]));
}

#[test]
fn a_scheduled_item_is_taken_from_its_worker() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[3], item);
    let _ = f.queue(pwq, item);
    assert!(!f.sleeps(w[2]), "w2 gives it to w3");
    let _ = f.cancel(item);
    assert!(!work(item).is_pending());
    assert!(f.is_executing(item), "the run goes on");
    let _ = f.finish(w[3]);
    assert!(!f.sleeps(w[3]));
    assert_eq!(f.pwq_load(pwq), Some((0, false, false)));
}

#[test]
fn running_and_idle_items_are_not_here() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let item = f.item();
    assert_eq!(f.grab(item), Grab::NotHere, "never queued");
    let _ = f.queue(pwq, item);
    let _ = f.runs(b, item);
    assert_eq!(f.grab(item), Grab::NotHere, "running");
    assert!(!work(item).is_pending(), "and it was not touched");
    let _ = f.finish(b);
    assert_eq!(f.grab(item), Grab::NotHere, "done");
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").cancelled, 0);
}

#[test]
fn an_item_on_another_pool_is_not_here() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let (mut elsewhere, _) = Fixture::with(PoolConfig::new(PoolId(1), 1), 2);
    let item = f.queue_new(pwq);
    assert_eq!(elsewhere.grab(item), Grab::NotHere);
    let _ = f.runs(b, item);
}

#[test]
fn the_last_item_of_a_colour_completes_the_flush() {
    let (mut f, pwq, _) = Fixture::per_cpu();
    let (first, second) = (f.queue_new(pwq), f.queue_new(pwq));
    assert!(f.flush_prep(pwq, Some(0), Some(1)));
    let later = f.queue_new(pwq);
    assert_eq!(f.cancel(first).1.flush_done, None);
    assert_eq!(f.cancel(later).1.flush_done, None, "of another colour");
    assert_eq!(f.cancel(second).1.flush_done, Some(WqKey(1)));
}

#[test]
fn a_disabled_item_is_refused_by_its_word() {
    let (mut f, pwq, _) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    assert!(matches!(f.grab(item), Grab::Taken(..)));
    let idle = work(item).word().with_pending(false);
    work(item).publish_idle(idle.with_disable_depth(idle.disable_depth() + 1));
    let seen = work(item).claim();
    assert_eq!((seen.is_pending(), seen.disable_depth()), (false, 1));
    // As a driver would: it won PENDING, finds the item disabled, and gives PENDING back.
    work(item).publish_idle(seen);
    assert_eq!(work(item).word().disable_depth(), 1);
    assert_eq!(work(item).word().pool(), Some(PoolId(0)));
}

#[test]
fn cancelling_what_a_woken_worker_came_for_is_harmless() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let item = f.item();
    assert_eq!(f.queue(pwq, item), Kick::Wake(b));
    let _ = f.cancel(item);
    assert!(!f.sleeps(b));
    assert_eq!(f.queue(pwq, item), Kick::Wake(b));
    let _ = f.runs(b, item);
}
