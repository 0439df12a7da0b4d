//! Barriers: what `flush_work` waits with.

use super::support::{Fixture, ItemPtr, work};
use crate::policy::UNMANAGED;
use crate::{Effects, FlushTarget, Kick, PoolId, PwqId, WorkerId, WqKey};

/// An unmanaged pool with four idle workers and a pwq with that limit.
fn pool(max_active: u32) -> (Fixture, PwqId, [WorkerId; 4]) {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(max_active);
    (f, pwq, [w[3], w[2], w[1], w[0]])
}

/// A barrier glued to `target`, which must be found as `found`.
fn glue(f: &mut Fixture, target: ItemPtr, found: FlushTarget) -> ItemPtr {
    let barrier = f.item();
    assert_eq!(f.barrier(target, barrier), found);
    barrier
}

#[test]
fn behind_a_queued_target() {
    let (mut f, pwq, [a, b, ..]) = pool(10);
    let (target, other) = (f.queue_new(pwq), f.queue_new(pwq));
    let barrier = glue(&mut f, target, FlushTarget::Queued);
    assert!(work(target).word().is_linked() && !work(barrier).word().is_linked());
    assert!(work(barrier).is_pending() && work(barrier).word().is_inactive());
    assert_eq!(f.pwq_load(pwq), Some((2, false, true)), "a barrier takes no slot");

    let _ = f.runs(a, target);
    // The barrier is a's alone, and what stands behind it in the worklist is not glued to it.
    let _ = f.runs(b, other);
    assert!(!f.work_waits());
    let _ = f.finish(a);
    let _ = f.runs(a, barrier);
    let _ = f.finish(a);
    assert_eq!(f.pwq_load(pwq), Some((1, false, true)), "and gives none back");
    let _ = f.finish(b);
    assert_eq!(f.pwq_load(pwq), Some((0, false, false)));
}

#[test]
fn behind_an_inactive_target() {
    let (mut f, pwq, [a, ..]) = pool(1);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let barrier = glue(&mut f, items[1], FlushTarget::Queued);
    let _ = f.runs(a, items[0]);
    let _ = f.finish(a);
    // The target got the slot and took its barrier along; items[2] still has to wait.
    assert!(!work(items[1]).word().is_inactive() && work(items[2]).word().is_inactive());
    let _ = f.runs(a, items[1]);
    let _ = f.finish(a);
    let _ = f.runs(a, barrier);
    let _ = f.finish(a);
    let _ = f.runs(a, items[2]);
}

#[test]
fn behind_a_running_target() {
    let (mut f, pwq, [a, ..]) = pool(10);
    let target = f.queue_new(pwq);
    let _ = f.runs(a, target);
    let barrier = glue(&mut f, target, FlushTarget::Running(a));
    let other = f.queue_new(pwq);
    let _ = f.finish(a);
    let _ = f.runs(a, barrier);
    let _ = f.finish(a);
    let _ = f.runs(a, other);
}

#[test]
fn only_the_last_queueing_is_waited_for() {
    let (mut f, pwq, [a, ..]) = pool(10);
    let target = f.queue_new(pwq);
    let _ = f.runs(a, target);
    let _ = f.queue(pwq, target);
    let barrier = glue(&mut f, target, FlushTarget::Queued);
    let _ = f.finish(a);
    let _ = f.runs(a, target);
    let _ = f.finish(a);
    let _ = f.runs(a, barrier);
}

#[test]
fn a_barrier_of_the_run_overtakes_the_next_run() {
    let (mut f, pwq, [a, b, ..]) = pool(10);
    let target = f.queue_new(pwq);
    let _ = f.runs(a, target);
    let early = glue(&mut f, target, FlushTarget::Running(a));
    let _ = f.queue(pwq, target);
    assert!(!f.sleeps(b), "b hands the target to a");
    for item in [early, target] {
        let _ = f.finish(a);
        let _ = f.runs(a, item);
    }
}

#[test]
fn several_on_a_queued_target() {
    let (mut f, pwq, [a, b, ..]) = pool(10);
    let target = f.queue_new(pwq);
    let barriers = [(); 3].map(|()| glue(&mut f, target, FlushTarget::Queued));
    let other = f.queue_new(pwq);
    let _ = f.runs(a, target);
    let _ = f.runs(b, other);
    assert!(!f.work_waits(), "the chain went to a as a whole");
    // Each is put right behind the target, so the newest comes first.
    for barrier in barriers.into_iter().rev() {
        let _ = f.finish(a);
        let _ = f.runs(a, barrier);
    }
    let _ = f.finish(a);
    let _ = f.finish(b);
    assert_eq!(f.pwq_load(pwq), Some((0, false, false)));
}

#[test]
fn several_on_a_running_target() {
    let (mut f, pwq, [a, ..]) = pool(10);
    let target = f.queue_new(pwq);
    let _ = f.runs(a, target);
    let barriers = [(); 2].map(|()| glue(&mut f, target, FlushTarget::Running(a)));
    for barrier in barriers.into_iter().rev() {
        let _ = f.finish(a);
        let _ = f.runs(a, barrier);
    }
}

#[test]
fn an_idle_target_needs_none() {
    let (mut f, pwq, [a, ..]) = pool(10);
    let target = f.item();
    let barrier = glue(&mut f, target, FlushTarget::Idle);
    assert!(!work(barrier).is_pending(), "the barrier was not touched");
    let _ = f.queue(pwq, target);
    let _ = f.runs(a, target);
    let _ = f.finish(a);
    assert_eq!(f.barrier(target, barrier), FlushTarget::Idle);
}

#[test]
fn a_target_of_another_pool_is_idle_here() {
    let (mut f, pwq, _) = pool(10);
    let config = crate::PoolConfig::new(PoolId(1), 1);
    let (mut elsewhere, _) = Fixture::with(config, 2);
    let target = f.queue_new(pwq);
    let barrier = elsewhere.item();
    assert_eq!(elsewhere.barrier(target, barrier), FlushTarget::Idle);
    assert_eq!(f.barrier(target, barrier), FlushTarget::Queued);
    let _ = f.grab(barrier);
}

#[test]
fn a_flush_of_the_queue_waits_for_barriers_of_its_colour() {
    let (mut f, pwq, [a, ..]) = pool(10);
    let target = f.queue_new(pwq);
    // The queue moves on to colour 1; the target still has colour 0, and so have its barriers.
    assert!(f.flush_prep(pwq, Some(0), Some(1)));
    let queued = glue(&mut f, target, FlushTarget::Queued);
    assert_eq!(work(queued).word().color(), 0);
    let _ = f.runs(a, target);
    let running = glue(&mut f, target, FlushTarget::Running(a));
    assert_eq!(work(running).word().color(), 0);
    for barrier in [running, queued] {
        assert_eq!(f.finish(a).flush_done, None);
        let _ = f.runs(a, barrier);
    }
    assert_eq!(f.finish(a).flush_done, Some(WqKey(1)));
}

#[test]
fn cancelling_a_queued_target_leaves_its_barriers_in_place() {
    let (mut f, pwq, [a, b, ..]) = pool(10);
    let (target, other) = (f.queue_new(pwq), f.queue_new(pwq));
    let barriers = [(); 2].map(|()| glue(&mut f, target, FlushTarget::Queued));
    let _ = f.cancel(target);
    assert!(!work(target).is_pending());
    let _ = f.runs(a, barriers[1]);
    let _ = f.runs(b, other);
    let _ = f.finish(a);
    let _ = f.runs(a, barriers[0]);
    let _ = f.finish(a);
    // The item is as good as new: nothing is glued to it any more.
    let _ = f.queue(pwq, target);
    assert!(!work(target).word().is_linked());
}

#[test]
fn cancelling_an_inactive_target_sets_its_barriers_free() {
    let (mut f, pwq, [a, ..]) = pool(1);
    let (first, target, last) = (f.queue_new(pwq), f.queue_new(pwq), f.queue_new(pwq));
    let barriers = [(); 2].map(|()| glue(&mut f, target, FlushTarget::Queued));
    let _ = f.runs(a, first);
    let Kick::Wake(b) = f.cancel(target).0 else { panic!("the barriers need a worker") };
    assert!(work(last).word().is_inactive(), "no slot was freed");
    let _ = f.runs(b, barriers[1]);
    let _ = f.finish(b);
    let _ = f.runs(b, barriers[0]);
    let _ = f.finish(b);
    assert!(!f.sleeps(b));
    let _ = f.finish(a);
    let _ = f.runs(a, last);
}

#[test]
fn cancelling_a_scheduled_target_leaves_its_barriers_to_that_worker() {
    let (mut f, pwq, [a, b, ..]) = pool(10);
    let target = f.queue_new(pwq);
    let _ = f.runs(a, target);
    let _ = f.queue(pwq, target);
    let barrier = glue(&mut f, target, FlushTarget::Queued);
    assert!(!f.sleeps(b));
    let _ = f.cancel(target);
    let _ = f.finish(a);
    let _ = f.runs(a, barrier);
    let _ = f.finish(a);
    assert_eq!(f.pwq_load(pwq), Some((0, false, false)));
}

#[test]
fn a_barrier_can_be_flushed_too() {
    // Its own chain: the barrier's barrier inherits the link to what followed it.
    let (mut f, pwq, [a, b, ..]) = pool(10);
    let target = f.queue_new(pwq);
    let [one, two] = [(); 2].map(|()| glue(&mut f, target, FlushTarget::Queued));
    let behind_two = glue(&mut f, two, FlushTarget::Queued);
    let other = f.queue_new(pwq);
    let _ = f.runs(a, target);
    let _ = f.runs(b, other);
    for barrier in [two, behind_two, one] {
        let _ = f.finish(a);
        let _ = f.runs(a, barrier);
    }
}

#[test]
fn a_worker_passes_those_of_the_item_that_it_has_finished() {
    let (mut f, pwq, [a, ..]) = pool(10);
    let target = f.queue_new(pwq);
    let queued = glue(&mut f, target, FlushTarget::Queued);
    let other = f.queue_new(pwq);
    let _ = f.runs(a, target);
    let running = glue(&mut f, target, FlushTarget::Running(a));
    let _ = f.finish(a);
    for barrier in [running, queued] {
        assert_eq!(f.passes(a, barrier), Effects::NONE);
    }
    assert!(f.pass_barrier(a).is_none());
    let stats = f.pwq_stats(pwq).expect("a pwq");
    assert_eq!((stats.started, stats.completed), (3, 3), "they count as if they had run");
    let _ = f.runs(a, other);
}

#[test]
fn an_item_that_comes_next_is_not_passed() {
    let (mut f, pwq, [a, b, ..]) = pool(10);
    let target = f.queue_new(pwq);
    let _ = f.runs(a, target);
    let _ = f.queue(pwq, target);
    let barrier = glue(&mut f, target, FlushTarget::Queued);
    assert!(!f.sleeps(b), "b hands the target to a");
    let _ = f.finish(a);
    assert!(f.pass_barrier(a).is_none());
    let _ = f.runs(a, target);
    let _ = f.finish(a);
    let _ = f.passes(a, barrier);
    assert_eq!(f.pwq_load(pwq), Some((0, false, false)));
}

#[test]
fn the_last_one_that_is_passed_ends_a_flush_and_a_retired_pwq() {
    let (mut f, pwq, [a, ..]) = pool(10);
    let target = f.queue_new(pwq);
    let _ = f.runs(a, target);
    let barriers = [(); 2].map(|()| glue(&mut f, target, FlushTarget::Running(a)));
    assert!(f.flush_prep(pwq, Some(0), Some(1)));
    let _ = f.retire_pwq(pwq);
    assert_eq!(f.finish(a), Effects::NONE);
    assert_eq!(f.passes(a, barriers[1]), Effects::NONE);
    let both = Effects { flush_done: Some(WqKey(1)), retired: Some(WqKey(1)), ..Effects::NONE };
    assert_eq!(f.passes(a, barriers[0]), both);
}
