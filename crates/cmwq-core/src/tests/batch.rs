//! Items that are taken along, with one thread; for more, see the loom models and the search.

use std::vec::Vec;

use super::support::{Fixture, ItemPtr, work};
use crate::place::PoolKind;
use crate::{Inbox, Kick, PoolConfig, PoolId, PoolState, PwqId, WorkerId};

const POOL: PoolId = PoolId(0);

/// A pool whose worker has claimed the first of so many items and taken the next two along.
pub(super) fn with_a_batch(count: usize) -> (Fixture, PwqId, WorkerId, Vec<ItemPtr>) {
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
    f.record_activations();
    let _ = f.finish(workers[1]);
    let claim = f.claim(workers[1]);
    assert_eq!((claim.item, claim.more), (items[0].as_ptr(), 2));
    (f, pwq, workers[1], items)
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
    assert!(f.is_behind(), "it was called back for an item that comes behind it");
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
