//! `max_active` of one pwq: slots, the inactive list, and changes of the limit.

use std::vec::Vec;

use super::support::{Crowd, Fixture, ItemPtr, Rng, pwq_config, steps, with_seeds, work};
use crate::policy::UNMANAGED;
use crate::{Effects, Kick, PoolConfig, PoolId, PwqId, WorkerId};

/// An unmanaged pool with that many idle workers and a pwq with that limit.
fn pool_with_limit(max_active: u32, workers: usize) -> (Fixture, PwqId, Vec<WorkerId>) {
    let (mut f, w) = Fixture::new(UNMANAGED, workers);
    let pwq = f.pwq(max_active);
    (f, pwq, w)
}

fn is_inactive(item: ItemPtr) -> bool {
    work(item).word().is_inactive()
}

#[test]
fn items_beyond_the_limit_are_inactive_and_start_in_order() {
    let (mut f, pwq, w) = pool_with_limit(2, 8);
    let items = [(); 5].map(|()| f.queue_new(pwq));
    assert_eq!(items.map(is_inactive), [false, false, true, true, true]);
    assert_eq!(f.pwq_load(pwq), Some((2, true, true)));
    let _ = f.runs(w[7], items[0]);
    let _ = f.runs(w[6], items[1]);
    assert!(!f.sleeps(w[5]), "nobody else may start");

    let _ = f.finish(w[6]);
    assert_eq!(items.map(is_inactive), [false, false, false, true, true]);
    let _ = f.runs(w[6], items[2]);
    let _ = f.finish(w[7]);
    let _ = f.runs(w[7], items[3]);
    let _ = f.finish(w[7]);
    let _ = f.runs(w[7], items[4]);
    assert_eq!(f.pwq_load(pwq), Some((2, false, true)));
}

#[test]
fn an_inactive_item_wakes_nobody() {
    let (mut f, pwq, _) = pool_with_limit(1, 4);
    let (first, second) = (f.item(), f.item());
    assert!(matches!(f.queue(pwq, first), Kick::Wake(_)));
    assert_eq!(f.queue(pwq, second), Kick::None);
}

#[test]
fn a_limit_of_one_runs_one_at_a_time_in_order() {
    let (mut f, pwq, w) = pool_with_limit(1, 8);
    let items = [(); 4].map(|()| f.queue_new(pwq));
    for item in items {
        let _ = f.runs(w[7], item);
        assert!(!f.sleeps(w[6]));
        let _ = f.finish(w[7]);
    }
}

#[test]
fn a_new_item_does_not_overtake_inactive_ones() {
    let (mut f, pwq, w) = pool_with_limit(1, 8);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let _ = f.runs(w[7], items[0]);
    let _ = f.finish(w[7]);
    // items[1] holds the slot now; a newcomer goes behind items[2].
    let late = f.queue_new(pwq);
    assert!(is_inactive(late));
    for item in [items[1], items[2], late] {
        let _ = f.runs(w[7], item);
        let _ = f.finish(w[7]);
    }
}

#[test]
fn each_pwq_has_its_own_limit() {
    let (mut f, one, w) = pool_with_limit(1, 8);
    let two = f.add_pwq(pwq_config(2, 2));
    let a = [(); 2].map(|()| f.queue_new(one));
    let b = [(); 3].map(|()| f.queue_new(two));
    assert_eq!(a.map(is_inactive), [false, true]);
    assert_eq!(b.map(is_inactive), [false, false, true]);
    let _ = f.runs(w[7], a[0]);
    let _ = f.runs(w[6], b[0]);
    let _ = f.finish(w[6]);
    assert!(is_inactive(a[1]), "a slot of one pwq is none of the other's");
    assert!(!is_inactive(b[2]));
}

#[test]
fn raising_the_limit_starts_inactive_items_in_order() {
    let (mut f, pwq, w) = pool_with_limit(1, 8);
    let items = [(); 5].map(|()| f.queue_new(pwq));
    let _ = f.runs(w[7], items[0]);
    assert_eq!(f.set_max_active(pwq, 3), Kick::Wake(w[6]));
    f.check();
    assert_eq!(items.map(is_inactive), [false, false, false, true, true]);
    assert_eq!(f.runs(w[6], items[1]), Kick::Wake(w[5]), "the chain wakes the others");
    assert_eq!(f.runs(w[5], items[2]), Kick::None);
}

#[test]
fn lowering_the_limit_lets_active_items_finish() {
    let (mut f, pwq, w) = pool_with_limit(3, 8);
    let items = [(); 5].map(|()| f.queue_new(pwq));
    for (&id, &item) in w.iter().rev().zip(&items[..3]) {
        let _ = f.runs(id, item);
    }
    assert_eq!(f.set_max_active(pwq, 1), Kick::None);
    f.check();
    for id in [w[7], w[6]] {
        let _ = f.finish(id);
        assert!(!f.sleeps(id), "three, then two are active: no slot is free yet");
        assert_eq!(items.map(is_inactive), [false, false, false, true, true]);
    }
    let _ = f.finish(w[5]);
    let _ = f.runs(w[5], items[3]);
    assert!(is_inactive(items[4]));
}

#[test]
fn a_limit_of_zero_freezes_and_thaws_in_order() {
    let (mut f, pwq, w) = pool_with_limit(2, 8);
    let first = f.queue_new(pwq);
    let _ = f.runs(w[7], first);
    assert_eq!(f.set_max_active(pwq, 0), Kick::None);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    assert_eq!(items.map(is_inactive), [true; 3]);
    let _ = f.finish(w[7]);
    assert!(!f.sleeps(w[7]));
    assert_eq!(f.pwq_load(pwq), Some((0, true, true)));
    assert_eq!(f.set_max_active(pwq, 2), Kick::Wake(w[7]));
    f.check();
    let _ = f.runs(w[7], items[0]);
    let _ = f.runs(w[6], items[1]);
    assert!(is_inactive(items[2]));
}

/// Items start in queueing order, as many as the limit admits and not one more or less.
#[test]
fn order_and_limit_hold_under_random_changes() {
    with_seeds(20, |rng| {
        let mut pool = Crowd::new(PoolConfig::new(PoolId(0), UNMANAGED));
        let (pwq, mut limit, mut items) = (pool.f.pwq(3), 3, Vec::new());
        for _ in 0..steps(500, 60) {
            let before = pool.busy.len();
            match rng.below(10) {
                0 => {
                    limit = rng.below(6);
                    let kick = pool.f.set_max_active(pwq, limit as u32);
                    pool.act(kick);
                }
                1..=5 => items.push(pool.queue(pwq)),
                _ => finish_one(&mut pool, rng),
            }
            let unfinished = items.len() - pool.started.len() + pool.busy.len();
            assert!(pool.busy.len() <= limit.max(before), "more than the limit run");
            assert!(pool.busy.len() >= limit.min(unfinished), "fewer than could run");
        }
        let kick = pool.f.set_max_active(pwq, 100);
        pool.act(kick);
        while !pool.busy.is_empty() {
            finish_one(&mut pool, rng);
        }
        assert_eq!(pool.started, items, "every item ran, in order");
    });
}

fn finish_one(pool: &mut Crowd, rng: &mut Rng) {
    if let Some((_, item)) = rng.pick(&pool.busy) {
        pool.finish(item, |effects| assert_eq!(effects, Effects::NONE));
    }
}
