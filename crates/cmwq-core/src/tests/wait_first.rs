//! Managed pools whose items wait first start others although enough workers run.

use std::vec::Vec;

use super::support::{Fixture, ItemPtr};
use crate::consts::{MANY_FIRST_WAITS, WAITS_FIRST_NS, WAITS_SOON_NS};
use crate::place::PoolKind;
use crate::{Kick, Next, PoolConfig, PoolId, PwqId, Waited, WorkerId};

const FIRST: Waited = Waited { before: WAITS_FIRST_NS - 1, after: 0 };
const SOON: Waited = Waited { before: WAITS_SOON_NS - 1, after: WAITS_SOON_NS - 1 };
const LATER: Waited = Waited { before: WAITS_SOON_NS, after: 2 * WAITS_SOON_NS };
/// It computes, then waits, and that was it.
const LAST: Waited = Waited { before: WAITS_FIRST_NS, after: WAITS_FIRST_NS - 1 };

fn pool(kind: PoolKind) -> (Fixture, Vec<WorkerId>) {
    Fixture::with(PoolConfig { kind, ..PoolConfig::new(PoolId(0), 1) }, 4)
}

fn learn(f: &mut Fixture, waited: Waited, times: u8) {
    (0..times).for_each(|_| f.item_waited(waited));
}

/// Two workers wait in items and come back. Whether the one that ends first takes another item
/// while the other one runs.
fn goes_on(f: &mut Fixture, w: &[WorkerId]) -> bool {
    let pwq = f.pwq(8);
    let items: Vec<_> = (0..4).map(|_| f.queue_new(pwq)).collect();
    let runners = [w[3], w[2], w[1]];
    for (&id, &item) in runners.iter().zip(&items) {
        let _ = f.runs(id, item);
        if id != w[1] {
            let _ = f.blocks(id);
        }
    }
    runners[..2].iter().for_each(|&id| f.resumes(id));
    let _ = f.finish(w[3]);
    let next = f.next(w[3]);
    let goes_on = match &next {
        Next::Run(claim) => {
            assert_eq!(claim.item, items[3].as_ptr());
            assert!(claim.is_to_wait, "it is to be told if it does not wait");
            let _ = f.finish(w[3]);
            assert!(!f.sleeps(w[3]));
            true
        }
        Next::Sleep { .. } => false,
        other => panic!("{other:?}"),
    };
    let _ = f.finish(w[2]);
    assert!(matches!(f.next(w[2]), Next::Sleep { .. }));
    let _ = f.finish(w[1]);
    if !goes_on {
        let _ = f.runs(w[1], items[3]);
        let _ = f.finish(w[1]);
    }
    assert!(!f.sleeps(w[1]));
    assert!(f.remove_pwq(pwq).is_ok());
    goes_on
}

#[test]
fn a_few_items_in_a_row_are_believed() {
    let (mut f, w) = pool(PoolKind::Managed);
    learn(&mut f, FIRST, MANY_FIRST_WAITS - 1);
    assert!(!goes_on(&mut f, &w));
    learn(&mut f, FIRST, 1);
    assert!(goes_on(&mut f, &w));
}

#[test]
fn one_that_computes_first_or_never_waits_ends_it() {
    let (mut f, w) = pool(PoolKind::Managed);
    learn(&mut f, FIRST, 200);
    learn(&mut f, FIRST, 200);
    assert!(goes_on(&mut f, &w));
    for ends in [LATER, LAST] {
        f.item_waited(ends);
        assert!(!goes_on(&mut f, &w));
        learn(&mut f, SOON, MANY_FIRST_WAITS);
        assert!(goes_on(&mut f, &w));
    }
    f.item_did_not_wait();
    assert!(!goes_on(&mut f, &w));
}

#[test]
fn a_barrier_is_not_expected_to_wait() {
    let (mut f, w) = pool(PoolKind::Managed);
    learn(&mut f, FIRST, MANY_FIRST_WAITS);
    let pwq = f.pwq(8);
    let (item, barrier) = (f.queue_new(pwq), f.item());
    let claim = f.claim(w[3]);
    assert!(claim.item == item.as_ptr() && claim.is_to_wait);
    let _ = f.barrier(item, barrier);
    let _ = f.finish(w[3]);
    let claim = f.claim(w[3]);
    assert!(claim.item == barrier.as_ptr() && !claim.is_to_wait);
    let _ = f.finish(w[3]);
    assert!(!f.sleeps(w[3]));
    assert!(f.remove_pwq(pwq).is_ok());
}

#[test]
fn a_guests_item_is_expected_to_wait_by_either_pool_and_a_barrier_by_none() {
    for (here, at_home) in [(false, false), (false, true), (true, false)] {
        let (mut f, w) = pool(PoolKind::Managed);
        if here {
            learn(&mut f, FIRST, MANY_FIRST_WAITS);
        }
        let pwq = f.pwq(8);
        let own = f.queue_new(pwq);
        let (item, barrier) = (f.queue_new(pwq), f.item());
        let _ = f.runs(w[3], own);
        let guest = f.guest_enter();
        let claim = f.guest_next(guest, at_home).expect("the second item");
        assert_eq!((claim.item, claim.is_to_wait), (item.as_ptr(), here || at_home));
        let _ = f.barrier(item, barrier);
        let _ = f.finish(guest);
        let claim = f.guest_next(guest, at_home).expect("the barrier");
        assert_eq!((claim.item, claim.is_to_wait), (barrier.as_ptr(), false));
        let _ = f.finish(guest);
        let _ = f.guest_leave(guest);
        let _ = f.finish(w[3]);
        assert!(!f.sleeps(w[3]));
        assert!(f.remove_pwq(pwq).is_ok());
    }
}

#[test]
fn pools_that_are_not_managed_keep_the_kernels_rule() {
    let (mut f, w) = pool(PoolKind::Percpu);
    learn(&mut f, FIRST, MANY_FIRST_WAITS);
    assert!(!goes_on(&mut f, &w));
}

#[test]
fn managed_pools_learn_also_where_there_are_no_others() {
    let config = |kind, has_others| PoolConfig::of_kind(PoolId(0), kind, 1, has_others);
    for has_others in [false, true] {
        let managed = config(PoolKind::Managed, has_others);
        assert_eq!((managed.is_managed(), managed.unbinds), (true, has_others));
        assert!(!config(PoolKind::Percpu, has_others).is_managed());
        assert!(!config(PoolKind::Unbound, has_others).is_managed());
    }
}

fn managed() -> PoolConfig {
    PoolConfig::of_kind(PoolId(0), PoolKind::Managed, 1, true)
}

/// So many workers wait in items, another one runs, and one more item is there. The pwq, and the
/// items.
fn at_capacity(f: &mut Fixture, w: &[WorkerId], nr_waiting: usize) -> (PwqId, Vec<ItemPtr>) {
    let pwq = f.pwq(16);
    let items: Vec<_> = (0..nr_waiting + 2).map(|_| f.queue_new(pwq)).collect();
    for (number, &id) in w.iter().rev().take(nr_waiting + 1).enumerate() {
        let _ = f.runs(id, items[number]);
        if number < nr_waiting {
            let _ = f.blocks(id);
        }
    }
    (pwq, items)
}

/// What begins although enough workers run, while more wait than run.
#[test]
fn of_items_that_wait_soon_the_tick_begins_another() {
    let (mut f, w) = Fixture::with(managed(), 6);
    learn(&mut f, SOON, MANY_FIRST_WAITS);
    let (pwq, items) = at_capacity(&mut f, &w, 2);
    assert_eq!(f.tick(), Kick::Wake(w[2]), "two wait, one runs, one is to begin");
    assert_eq!(f.tick(), Kick::None, "it has not come yet");
    let _ = f.runs(w[2], items[3]);
    let last = f.queue_new(pwq);
    assert_eq!(f.tick(), Kick::None, "as many run as wait");
    let _ = f.blocks(w[2]);
    assert_eq!(f.tick(), Kick::Wake(w[1]), "three wait");
    let _ = f.runs(w[1], last);
    assert_eq!(f.tick(), Kick::None, "nothing is left");
}

/// Each tick would find the standby that the last one has made, and no end of them.
#[test]
fn the_tick_begins_another_only_when_the_last_one_has_begun() {
    let (mut f, w) = Fixture::with(managed(), 4);
    learn(&mut f, SOON, MANY_FIRST_WAITS);
    let (pwq, items) = at_capacity(&mut f, &w, 2);
    let _ = f.queue_new(pwq);
    assert_eq!(f.tick(), Kick::Wake(w[0]));
    f.manages(w[0]);
    let standby = f.worker_new();
    assert_eq!(f.tick(), Kick::None, "it makes a standby");
    assert_eq!(f.born(standby, Some(w[0])), Kick::None);
    assert_eq!(f.tick(), Kick::None, "it has got no CPU since");
    let _ = f.runs(w[0], items[3]);
    let _ = f.blocks(w[0]);
    assert_eq!(f.tick(), Kick::Wake(standby));
}

/// Once only: a worker that finds nothing left, or that nobody believes any more, goes back to
/// sleep, and is woken as any other from then on.
#[test]
fn whom_the_tick_has_woken_looks_again() {
    for believes in [false, true] {
        let (mut f, w) = Fixture::with(managed(), 6);
        learn(&mut f, SOON, MANY_FIRST_WAITS);
        let (pwq, items) = at_capacity(&mut f, &w, 2);
        assert_eq!(f.tick(), Kick::Wake(w[2]));
        if believes {
            let _ = f.finish(w[3]);
            let _ = f.runs(w[3], items[3]);
        } else {
            f.item_did_not_wait();
        }
        assert_eq!(f.sleeps(w[2]), !believes);
        learn(&mut f, SOON, MANY_FIRST_WAITS);
        let _ = f.queue_new(pwq);
        assert!(f.sleeps(w[2]), "enough workers run");
    }
}

/// Items that are blocked at once take nothing of the CPU from those that are back, so each that
/// ends lets another begin soon enough; and others than managed pools manage as the kernel's.
#[test]
fn no_others_begin_by_the_tick() {
    for (config, waited) in
        [(managed(), FIRST), (managed(), LAST), (PoolConfig::new(PoolId(0), 1), SOON)]
    {
        let (mut f, w) = Fixture::with(config, 6);
        learn(&mut f, waited, MANY_FIRST_WAITS);
        let _ = at_capacity(&mut f, &w, 3);
        assert_eq!(f.tick(), Kick::None, "{waited:?}");
    }
}

/// One that is blocked at once among them is enough: the others may only have been found late.
#[test]
fn all_of_the_last_few_have_to_compute_before() {
    let (mut f, w) = Fixture::with(managed(), 6);
    learn(&mut f, SOON, MANY_FIRST_WAITS);
    learn(&mut f, FIRST, 1);
    learn(&mut f, SOON, MANY_FIRST_WAITS - 1);
    let _ = at_capacity(&mut f, &w, 2);
    assert!(f.items_wait_first());
    assert_eq!(f.tick(), Kick::None);
    learn(&mut f, SOON, 1);
    assert_eq!(f.tick(), Kick::Wake(w[2]));
}

/// Where fewer run than may, others see to it.
#[test]
fn below_capacity_the_tick_wakes_nobody() {
    let (mut f, w) = Fixture::with(managed(), 6);
    learn(&mut f, SOON, MANY_FIRST_WAITS);
    let _ = at_capacity(&mut f, &w, 2);
    assert_eq!(f.blocks(w[3]), Kick::Wake(w[2]));
    assert_eq!(f.tick(), Kick::None);
}
