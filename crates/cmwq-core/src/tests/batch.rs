//! Items that are taken along, with one thread; for more, see the loom models and the search.

use std::sync::Arc;
use std::vec::Vec;

use super::support::{Fixture, ItemPtr, work};
use crate::place::PoolKind;
use crate::policy::UNMANAGED;
use crate::{Batch, Inbox, Kick, PoolConfig, PoolId, PoolState, PwqId, WorkerId};

const POOL: PoolId = PoolId(0);

/// A pool whose worker runs another item while so many have arrived.
fn arrived(count: usize) -> (Fixture, PwqId, WorkerId, Vec<ItemPtr>) {
    let mut config = PoolConfig::of_kind(POOL, PoolKind::Percpu, 1, true);
    config.batches = Some(0);
    let (mut f, workers) = Fixture::with(config, 2);
    let pwq = f.pwq(256);
    let first = f.queue_new(pwq);
    let _ = f.runs(workers[1], first);
    let inbox = Inbox::new();
    inbox.saturate();
    let items: Vec<_> = (0..count).map(|_| f.item()).collect();
    for &item in &items {
        assert!(work(item).claim_for(work(item).word(), POOL));
        // SAFETY: owned, and there as long as the fixture.
        assert!(unsafe { inbox.push(item, pwq) });
    }
    assert_eq!(f.take_inbox(&inbox), None, "its worker comes for it");
    (f, pwq, workers[1], items)
}

/// A pool whose worker has claimed the first of so many items and taken the next two along.
pub(super) fn with_a_batch(count: usize) -> (Fixture, PwqId, WorkerId, Vec<ItemPtr>) {
    let (mut f, pwq, worker, items) = arrived(count);
    f.record_activations();
    let _ = f.finish(worker);
    let claim = f.claim(worker);
    assert_eq!((claim.item, claim.more), (items[0].as_ptr(), 2));
    (f, pwq, worker, items)
}

/// A pool whose worker runs another item while a helper has claimed the first of so many items and
/// taken the next two along. Returns the helper and its batch.
fn with_a_helpers_batch(count: usize) -> (Fixture, [WorkerId; 2], Arc<Batch>, Vec<ItemPtr>) {
    let (mut f, _, worker, items) = arrived(count);
    let mut abroad = PoolState::new(PoolConfig::of_kind(PoolId(1), PoolKind::Managed, 1, true));
    let own = abroad.worker_new();
    let batch = abroad.batch_for(own).expect("its own pool makes batches");
    let helper = f.helper_enter(Some(Arc::clone(&batch)));
    f.catch_up_to_first();
    let claim = f.guest_next(helper, false).expect("an item");
    assert_eq!((claim.item, claim.more), (items[0].as_ptr(), 2));
    (f, [worker, helper], batch, items)
}

#[test]
fn who_stands_by_is_not_taken_for_woken_when_items_are_listed() {
    let config = PoolConfig::of_kind(POOL, PoolKind::Percpu, 1, false);
    let (mut f, workers) = Fixture::with(config, 2);
    let pwq = f.pwq(256);
    let running = f.queue_new(pwq);
    let _ = f.runs(workers[1], running);
    let next = f.queue_new(pwq);
    // Behind that one, so it has only arrived.
    let _last = f.queue_new(pwq);
    assert_eq!(f.blocks(workers[1]), Kick::Wake(workers[0]));
    f.manages(workers[0]);
    let standby = f.worker_new();
    assert_eq!(f.born(standby, Some(workers[0])), Kick::None);
    // By a thread that looks for an item, before the manager is back.
    f.catch_up();
    let _ = f.runs(workers[0], next);
    assert_eq!(f.blocks(workers[0]), Kick::Wake(standby), "for the last one");
}

/// The pool's CPU goes, or it gets another one.
#[test]
fn what_is_queued_after_a_change_of_concurrency_overtakes_nothing() {
    for concurrency in [UNMANAGED, 2] {
        let mut taken_along = with_a_batch(4);
        taken_along.3.remove(0);
        for (mut f, pwq, worker, mut items) in [arrived(3), taken_along] {
            let _ = f.set_concurrency(concurrency);
            items.push(f.queue_new(pwq));
            for item in items {
                let _ = f.finish(worker);
                let _ = f.runs(worker, item);
            }
        }
    }
}

#[test]
fn a_helper_takes_items_along_while_the_pools_worker_is_in_another_one() {
    let (mut f, [worker, helper], batch, items) = with_a_helpers_batch(5);
    for &item in &items[1..3] {
        // SAFETY: as often as the claim says.
        let begun = unsafe { batch.begin(POOL) }.expect("nobody called it back");
        assert_eq!(begun.0, item.as_ptr());
    }
    let (running, started) = (f.nr_running(), f.nr_started());
    f.catch_up_to_first();
    assert_eq!((f.nr_running(), f.nr_started()), (running, started + 2), "the counts are right");
    assert!(f.is_executing(items[2]) && !f.is_executing(items[1]));
    let _ = f.finish(helper);
    let claim = f.guest_next(helper, false).expect("another one");
    assert_eq!((claim.item, claim.more), (items[3].as_ptr(), 0), "one waits behind a batch");
    let _ = f.finish(helper);
    let _ = f.guest_leave(helper);
    let _ = f.finish(worker);
    let _ = f.runs(worker, items[4]);
    f.check();
}

/// What a helper has taken along is older than what waits.
#[test]
fn a_worker_that_asks_for_work_calls_a_helpers_batch_back() {
    let (mut f, [worker, helper], batch, items) = with_a_helpers_batch(5);
    // SAFETY: for the first time.
    assert!(unsafe { batch.begin(POOL) }.is_some());
    let _ = f.finish(worker);
    assert_eq!(f.claim(worker).item, items[2].as_ptr());
    // SAFETY: for the second time of two.
    assert!(unsafe { batch.begin(POOL) }.is_none(), "it was called back");
    assert!(f.is_executing(items[1]), "it is the helper's");
    let _ = f.finish(helper);
    f.check();
}

#[test]
fn who_brings_no_batch_takes_nothing_along() {
    let (mut f, _, _, items) = arrived(5);
    let guest = f.guest_enter();
    f.catch_up_to_first();
    let claim = f.guest_next(guest, false).expect("an item");
    assert_eq!((claim.item, claim.more), (items[0].as_ptr(), 0));
}

/// What has become active since the last look; nothing may have been missed.
fn noted(f: &mut Fixture) -> Vec<usize> {
    let mut addrs = Vec::new();
    assert_eq!(f.take_activations(|note| addrs.push(note.addr)), 0);
    addrs
}

#[test]
fn only_pools_whose_items_come_through_an_inbox_make_batches() {
    let makes = |kind| {
        let mut pool = PoolState::new(PoolConfig::of_kind(POOL, kind, 1, true));
        let worker = pool.worker_new();
        (pool.makes_batches(), pool.batch_for(worker).is_some())
    };
    for kind in [PoolKind::Managed, PoolKind::Percpu] {
        assert_eq!(makes(kind), (true, true), "{kind:?}");
    }
    for kind in [PoolKind::Unbound, PoolKind::Bh] {
        assert_eq!(makes(kind), (false, false), "{kind:?}");
    }
}

#[test]
fn what_is_taken_along_and_called_back_becomes_active_once() {
    let (mut f, _, worker, items) = with_a_batch(5);
    let batch = f.batch_for(worker).expect("it makes batches");
    // SAFETY: by the batch's worker, for the first time.
    let begun = unsafe { batch.begin(POOL) }.expect("nobody called it back");
    assert_eq!(begun.0, items[1].as_ptr());
    f.catch_up();
    for &item in &items[2..] {
        let _ = f.finish(worker);
        assert_eq!(f.claim(worker).item, item.as_ptr());
    }
    let _ = f.finish(worker);
    // That of a batch which was begun is noted by who has begun it.
    let expected: Vec<_> = [0, 2, 3, 4].map(|n: usize| items[n].as_ptr() as usize).into();
    assert_eq!(noted(&mut f), expected);
}

#[test]
fn what_is_queued_later_comes_behind_what_was_taken_along() {
    let (mut f, pwq, worker, mut items) = with_a_batch(5);
    items.push(f.queue_new(pwq));
    assert!(f.has_batch_out(), "it was called back for an item that comes behind it");
    f.catch_up();
    items.push(f.queue_new(pwq));
    let batch = f.batch_for(worker).expect("it makes batches");
    // SAFETY: by the batch's worker, for the first time.
    assert_eq!(unsafe { batch.begin(POOL) }.map(|begun| begun.0), None, "it was called back");
    let mut order = Vec::new();
    while order.len() < items.len() - 1 {
        let _ = f.finish(worker);
        let claim = f.claim(worker);
        order.push(claim.item);
        for _ in 0..claim.more {
            // SAFETY: as often as the claim says.
            order.extend(unsafe { batch.begin(POOL) }.map(|begun| begun.0));
        }
    }
    let queued: Vec<_> = items[1..].iter().map(|item| item.as_ptr()).collect();
    assert_eq!(order, queued);
}

#[test]
fn what_is_queued_while_a_worker_wakes_up_can_be_taken_along() {
    let mut config = PoolConfig::of_kind(POOL, PoolKind::Percpu, 1, true);
    (config.batches, config.may_saturate) = (Some(0), true);
    let (mut f, workers) = Fixture::with(config, 2);
    let pwq = f.pwq(256);
    let inbox = Inbox::new();
    f.queue_new(pwq);
    assert!(!f.is_saturated(false, || true), "one item is not worth it");
    f.queue_new(pwq);
    assert!(f.is_saturated(false, || true), "a worker is woken, so pushing is enough");
    for _ in 0..2 {
        let item = f.item();
        assert!(work(item).claim_for(work(item).word(), POOL));
        // SAFETY: owned, and there as long as the fixture.
        let _ = unsafe { inbox.push(item, pwq) };
    }
    assert_eq!(f.take_inbox(&inbox), Some(Kick::None), "somebody is woken already");
    f.queue_new(pwq);
    assert_eq!(f.claim(workers[1]).more, 2, "the first batches are small");
    f.catch_up();
    assert!(!f.is_saturated(false, || true), "nobody is woken, and no blocked worker is noticed");
}
