//! BH pools: no workers, a concurrency of 0, and a guest that serves them.

use super::support::{Fixture, work};
use crate::place::PoolKind;
use crate::{
    BhNext, BhRound, BhVisit, Create, Creator, FlushTarget, Kick, PoolConfig, PoolId, PwqId,
};

fn bh() -> (Fixture, PwqId) {
    let mut config = PoolConfig::new(PoolId(7), 0);
    config.kind = PoolKind::Bh;
    let (mut f, _) = Fixture::with(config, 0);
    let pwq = f.pwq(i32::MAX as u32);
    (f, pwq)
}

#[test]
fn every_item_asks_for_the_context_and_for_no_worker() {
    let (mut f, pwq) = bh();
    for _ in 0..3 {
        let item = f.item();
        assert_eq!(f.queue(pwq, item), Kick::Watch);
    }
    assert!(!f.need_more_worker() && !f.has_spare_cpu());
    assert_eq!(f.may_create(Creator::First, false, 0), Create::No);
    assert!(f.is_at_capacity());
    assert_eq!(f.cull_at(), None);
}

#[test]
fn the_context_runs_items_in_order_and_leaves_the_mark() {
    let (mut f, pwq) = bh();
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let guest = f.guest_enter();
    for (n, item) in items.into_iter().enumerate() {
        let claim = f.guest_next(guest, false).expect("an item");
        f.check();
        assert_eq!(claim.item, item.as_ptr());
        assert_eq!(claim.kick, if n < 2 { Kick::Watch } else { Kick::None });
        let word = work(item).word();
        assert!(word.is_bh() && !word.is_pending());
        assert_eq!(word.pool(), Some(PoolId(7)));
        let _ = f.finish(guest);
    }
    assert!(f.guest_next(guest, false).is_none());
    assert_eq!(f.guest_leave(guest), Kick::None);
}

#[test]
fn a_context_that_leaves_early_is_told_that_work_is_left() {
    let (mut f, pwq) = bh();
    let _items = [(); 2].map(|()| f.queue_new(pwq));
    let guest = f.guest_enter();
    let _ = f.guest_next(guest, false).expect("an item");
    let _ = f.finish(guest);
    assert_eq!(f.guest_leave(guest), Kick::Watch);
    assert!(f.work_waits());
}

#[test]
fn what_only_the_guest_can_run_keeps_it() {
    let (mut f, pwq) = bh();
    let item = f.queue_new(pwq);
    let guest = f.guest_enter();
    let _ = f.guest_next(guest, false).expect("an item");
    let barrier = f.item();
    assert_eq!(f.barrier(item, barrier), FlushTarget::Running(guest));
    let _ = f.finish(guest);
    assert!(!f.guest_may_leave(guest));
    let claim = f.guest_next(guest, false).expect("the barrier");
    assert_eq!(claim.item, barrier.as_ptr());
    let _ = f.finish(guest);
    assert!(f.guest_may_leave(guest));
    let _ = f.guest_leave(guest);
}

#[test]
fn a_cancelled_item_keeps_the_mark() {
    let (mut f, pwq) = bh();
    let item = f.queue_new(pwq);
    let (kick, _) = f.cancel(item);
    assert_eq!(kick, Kick::None);
    assert!(work(item).word().is_bh());
    assert!(!f.work_waits());
}

#[test]
fn a_visit_is_over_after_ten_items_or_two_milliseconds() {
    let mut visit = BhVisit::begin(5);
    let nobody_asks = || -> bool { unreachable!("it is not over") };
    assert!((0..9).all(|_| !visit.is_over(|| 5, nobody_asks)));
    assert!(!visit.is_over(|| 5, || false), "something is scheduled");
    assert!(visit.is_over(|| 5, || true), "and is done");
    let mut visit = BhVisit::begin(5);
    assert!(!visit.is_over(|| 2_000_004, nobody_asks));
    assert!(visit.is_over(|| 2_000_005, || true));
}

#[test]
fn a_round_looks_at_each_pool_once_that_of_high_priority_first() {
    let mut round = BhRound::begin();
    let look = |is_high| BhNext::Look(BhRound::place(is_high));
    assert_eq!((round.next(), round.next()), (look(true), look(false)));
    assert_eq!(round.next(), BhNext::Sleep);
    // Whether the last pool had work or the first one, high priority is next.
    for busy in [true, false] {
        for place in [true, false] {
            assert_eq!(round.next(), look(place));
            assert_eq!(round.leaves(place == busy), place == busy, "watched while work waits");
        }
        assert_eq!(round.next(), BhNext::Again);
    }
    assert_eq!([(); 3].map(|()| round.next()), [look(true), look(false), BhNext::Sleep]);
}
