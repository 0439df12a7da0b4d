//! An item's way from queueing to finishing, and a worker's from idle to idle.

use super::support::{Fixture, count_other, pwq_config, work};
use crate::place::PoolKind;
use crate::policy::UNMANAGED;
use crate::{
    Create, Creator, Effects, Enqueued, Kick, PoolConfig, PoolId, PwqId, PwqRef, Stays, WqKey,
};

#[test]
fn an_item_goes_from_idle_to_queued_to_running_to_idle() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let item = f.item();
    assert_eq!(f.queue(pwq, item), Kick::Wake(b));
    let here = PwqRef { pool: PoolId(0), pwq };
    assert_eq!(work(item).word().pwq(), Some(here));
    assert!(!work(item).word().is_inactive());
    assert!(f.work_waits() && f.need_more_worker());
    assert!(!f.is_executing(item));

    assert_eq!(f.runs(b, item), Kick::None);
    assert!(!work(item).is_pending(), "PENDING is cleared before the function runs");
    assert_eq!(work(item).word().pool(), Some(PoolId(0)), "the word remembers the last pool");
    assert!(f.is_executing(item));
    assert_eq!((f.nr_running(), f.nr_idle(), f.nr_workers()), (1, 1, 2));
    assert_eq!(f.pwq_load(pwq), Some((1, false, true)));

    assert_eq!(f.finish(b), Effects::NONE);
    assert!(!f.is_executing(item));
    assert!(!f.sleeps(b));
    assert_eq!((f.nr_running(), f.nr_idle()), (0, 2));
    assert_eq!(f.pwq_load(pwq), Some((0, false, false)));
    let stats = f.pwq_stats(pwq).expect("the pwq");
    assert_eq!((stats.started, stats.completed, stats.cancelled), (1, 1, 0));
}

#[test]
fn a_claim_carries_what_the_driver_needs() {
    let (mut f, workers) = Fixture::new(1, 2);
    let pwq = f.add_pwq(pwq_config(77, 10));
    let item = f.item_with(count_other);
    let _ = f.queue(pwq, item);
    let claim = f.claim(workers[1]);
    assert_eq!((claim.item, claim.wq), (item.as_ptr(), WqKey(77)));
    assert!(core::ptr::fn_addr_eq(claim.func, work(item).func()));
    let view = f.worker_view(workers[1]).expect("the worker");
    assert_eq!(
        (view.seq, view.wq, view.running, view.idle),
        (claim.seq, Some(WqKey(77)), true, false)
    );
    let _ = f.finish(workers[1]);
    assert_eq!(f.worker_view(workers[1]).expect("the worker").wq, None);
}

#[test]
fn each_run_of_a_worker_has_its_own_seq() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    let first = f.claim(b).seq;
    let _ = f.finish(b);
    let _ = f.queue(pwq, item);
    assert!(f.claim(b).seq > first);
}

#[test]
fn a_running_worker_takes_the_next_item_without_sleeping() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let items = [(); 3].map(|()| f.queue_new(pwq));
    for item in items {
        let _ = f.runs(b, item);
        let _ = f.finish(b);
    }
    assert!(!f.sleeps(b));
}

#[test]
fn the_worker_that_idled_last_is_woken_first() {
    let (mut f, w) = Fixture::new(1, 3);
    let pwq = f.pwq(10);
    assert_eq!(f.standby(), Some(w[2]));
    assert!(!f.sleeps(w[0]), "w0 looks, finds nothing, and is the most recent now");
    assert_eq!(f.standby(), Some(w[0]));
    let item = f.item();
    assert_eq!(f.queue(pwq, item), Kick::Wake(w[0]));
    let _ = f.runs(w[0], item);
    assert_eq!(f.blocks(w[0]), Kick::None, "nothing waits");
    let other = f.item();
    assert_eq!(f.queue(pwq, other), Kick::Wake(w[2]), "then the one that idled before it");
}

#[test]
fn a_worker_from_the_middle_of_the_idle_list_leaves_it_in_order() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[1], item);
    assert_eq!(f.nr_idle(), 3);
    // It came unasked: the one that was woken for the item is still on its way.
    assert!(!f.sleeps(w[3]));
    for id in [w[3], w[2]] {
        assert_eq!(f.standby(), Some(id));
        let item = f.item();
        assert_eq!(f.queue(pwq, item), Kick::Wake(id));
        let _ = f.runs(id, item);
    }
    assert_eq!(f.standby(), Some(w[0]), "the last of the list");
}

#[test]
fn one_wake_is_enough() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let (first, second) = (f.item(), f.item());
    assert_eq!(f.queue(pwq, first), Kick::Wake(b));
    assert_eq!(f.queue(pwq, second), Kick::None, "b has been told already");
    assert_eq!(f.runs(b, first), Kick::Watch, "the second waits for b to block or finish");
}

#[test]
fn at_capacity_a_queuer_asks_for_a_watch() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    let first = f.queue_new(pwq);
    let _ = f.runs(b, first);
    let second = f.item();
    assert_eq!(f.queue(pwq, second), Kick::Watch);
    assert!(f.sleeps(a), "woken for nothing: it may not start the item, but should watch");
    let _ = f.finish(b);
    let _ = f.runs(b, second);
    assert!(!f.sleeps(a), "nothing waits, nothing to watch");
}

#[test]
fn a_spurious_wake_up_is_harmless() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    for _ in 0..3 {
        assert!(!f.sleeps(a));
        assert!(!f.sleeps(b));
    }
    // It also uses up the wake that was on its way, so that the next item is announced again.
    let item = f.item();
    assert_eq!(f.queue(pwq, item), Kick::Wake(b));
    let _ = f.runs(a, item);
    assert!(!f.sleeps(b));
    let _ = f.finish(a);
    assert!(!f.sleeps(a));
    assert!(!f.sleeps(b));
    assert_eq!(f.queue(pwq, item), Kick::Wake(b));
}

#[test]
fn a_pool_without_workers_asks_for_its_first() {
    let (mut f, _) = Fixture::new(1, 0);
    let pwq = f.pwq(10);
    let (first, second) = (f.item(), f.item());
    assert_eq!(f.queue(pwq, first), Kick::NeedFirst);
    assert_eq!(f.may_create(Creator::First, false, 0), Create::Now);
    let a = f.worker_new();
    assert_eq!(f.queue(pwq, second), Kick::None, "one is on its way");
    assert_eq!(f.born(a, None), Kick::Wake(a));
    f.check();
    // It is the last idle one, so it makes another before it starts.
    f.manages(a);
    let b = f.worker_new();
    assert_eq!(f.born(b, Some(a)), Kick::None, "a takes the item itself");
    assert_eq!(f.runs(a, first), Kick::Watch);
    assert_eq!(f.nr_idle(), 1, "a standby");
}

#[test]
fn unmanaged_pools_wake_worker_by_worker() {
    // The kernel's chain: queueing wakes one, and each wakes the next before it runs its item.
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(10);
    let items = [(); 3].map(|()| f.item());
    assert_eq!(f.queue(pwq, items[0]), Kick::Wake(w[3]));
    assert_eq!(f.queue(pwq, items[1]), Kick::None);
    assert_eq!(f.queue(pwq, items[2]), Kick::None);
    assert_eq!(f.runs(w[3], items[0]), Kick::Wake(w[2]));
    assert_eq!(f.runs(w[2], items[1]), Kick::Wake(w[1]));
    assert_eq!(f.runs(w[1], items[2]), Kick::None);
    assert_eq!(f.nr_running(), 3);
}

#[test]
fn an_item_can_be_queued_again_while_it_runs() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    let _ = f.runs(b, item);
    assert_eq!(f.queue(pwq, item), Kick::Watch);
    assert!(work(item).is_pending() && f.is_executing(item));
    let _ = f.finish(b);
    let _ = f.runs(b, item);
    let _ = f.finish(b);
    assert!(!work(item).is_pending());
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").completed, 2);
}

#[test]
fn queueing_in_one_step_does_all_or_nothing() {
    let (mut f, _, [_, b]) = Fixture::per_cpu();
    let pwq = f.pwq(1);
    let item = f.item();
    let idle = work(item).word();
    assert!(!work(item).claim().is_pending());
    // SAFETY: the fixture keeps its items.
    let lost = unsafe { f.enqueue_idle(pwq, item, idle) };
    assert_eq!(lost, Enqueued::Changed, "somebody else owns it now");
    assert_eq!(f.pwq_load(pwq), Some((0, false, false)), "and the slot was given back");
    f.check();

    work(item).publish_idle(idle);
    // SAFETY: as above.
    let won = unsafe { f.enqueue_idle(pwq, item, idle) };
    assert_eq!(won, Enqueued::Queued(Kick::Wake(b)));
    let inactive = f.item();
    // SAFETY: as above.
    let queued = unsafe { f.enqueue_idle(pwq, inactive, work(inactive).word()) };
    assert_eq!(queued, Enqueued::Queued(Kick::None));
    assert!(work(inactive).word().is_inactive(), "no slot: it waits its turn");
    let also = f.item();
    let seen = work(also).word();
    assert!(!work(also).claim().is_pending());
    // SAFETY: as above.
    let lost = unsafe { f.enqueue_idle(pwq, also, seen) };
    assert_eq!(lost, Enqueued::Changed);
    assert_eq!(f.pwq_load(pwq), Some((1, true, true)), "losing without a slot changes nothing");
    f.check();
}

#[test]
fn a_pwq_is_removed_only_when_nothing_is_in_flight() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    assert_eq!(f.remove_pwq(pwq), Err(Stays::InUse), "queued");
    let _ = f.runs(b, item);
    assert_eq!(f.remove_pwq(pwq), Err(Stays::InUse), "running");
    let _ = f.finish(b);
    let stats = f.remove_pwq(pwq).expect("idle");
    assert_eq!((stats.started, stats.completed), (1, 1));
    assert_eq!(f.remove_pwq(pwq), Err(Stays::InUse), "gone");
    assert_eq!((f.pwq_stats(pwq), f.pwq_load(pwq)), (None, None));
    assert_eq!(f.pwq(5), pwq, "its place is used again");
    assert_eq!(f.pwq_wq(PwqId(99)), None);
}

#[test]
fn a_bh_pool_leaves_its_mark() {
    let mut config = PoolConfig::new(PoolId(9), 1);
    config.kind = PoolKind::Bh;
    let (mut f, w) = Fixture::with(config, 2);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[1], item);
    assert!(work(item).word().is_bh());
    assert_eq!(work(item).word().pool(), Some(PoolId(9)));
    let _ = f.finish(w[1]);
    let _ = f.queue(pwq, item);
    let _ = f.cancel(item);
    assert!(work(item).word().is_bh());
}

/// A wake-up that was meant for somebody else may come before that.
#[test]
fn a_worker_may_not_begin_before_its_creator_has_said_that_it_is_there() {
    let (mut f, _, _) = Fixture::per_cpu();
    let id = f.worker_new();
    assert!(!f.is_created(id), "its thread may run already");
    assert_eq!(f.worker_created(id, None, 0), Kick::None);
    assert!(f.is_created(id));
    let other = f.worker_new();
    f.create_failed(other, None, 0);
    assert!(!f.is_created(other), "no thread could be had");
}
