//! Maydays, and rescuers' visits.

use std::vec::Vec;

use super::support::{Fixture, ItemPtr, pwq_config, work};
use crate::consts::{MAYDAY_INITIAL_TIMEOUT_NS, MAYDAY_INTERVAL_NS};
use crate::{
    Create, Creator, FlushTarget, Kick, MaydayTimer, PwqConfig, PwqId, Rescue, RescueVisit, Stays,
    WorkerId, WqKey, consts, policy,
};

impl Fixture {
    /// A pwq of queue `wq`, which has a rescuer.
    fn rescued_pwq(&mut self, wq: u32, max_active: u32) -> PwqId {
        let pwq = self.add_pwq(PwqConfig { rescuer: true, ..pwq_config(wq, max_active) });
        self.check();
        pwq
    }

    /// The pwqs that are called now; `None`: no rescuer is needed.
    fn calls(&mut self) -> Option<Vec<(PwqId, WqKey)>> {
        let mut called = Vec::new();
        let needed = self.mayday(|at, wq| called.push((at.pwq, wq)));
        self.check();
        needed.then_some(called)
    }

    fn visit(&mut self, pwq: PwqId, wq: u32) -> RescueVisit {
        let visit = self.rescue_begin(pwq, WqKey(wq)).expect("the pwq");
        self.check();
        visit
    }

    fn rescue(&mut self, visit: &mut RescueVisit, others_wait: bool) -> Rescue {
        let next = self.rescue_next(visit, others_wait);
        self.check();
        next
    }

    #[track_caller]
    fn rescues(&mut self, visit: &mut RescueVisit, item: ItemPtr) {
        match self.rescue(visit, false) {
            Rescue::Run(claim) => assert_eq!(claim.item, item.as_ptr(), "another item"),
            other => panic!("the rescuer should run something, not {other:?}"),
        }
    }

    #[track_caller]
    fn rescues_and_finishes(&mut self, visit: &mut RescueVisit, item: ItemPtr) {
        self.rescues(visit, item);
        let _ = self.finish(visit.worker());
    }

    #[track_caller]
    fn rescuer_leaves(&mut self, mut visit: RescueVisit) -> Kick {
        let next = self.rescue(&mut visit, false);
        assert!(matches!(next, Rescue::Leave), "{next:?}");
        let kick = self.rescue_end(visit);
        self.check();
        kick
    }

    /// A worker that cannot be had.
    fn no_worker(&mut self) {
        let id = self.worker_new();
        self.birth_fails(id, None);
    }
}

/// A per-CPU pool whose only worker blocks and that cannot get another: the worker, and a pwq of
/// queue 1, which has no rescuer.
fn stuck() -> (Fixture, WorkerId, PwqId) {
    let (mut f, workers) = Fixture::new(1, 1);
    let plain = f.pwq(256);
    f.no_worker();
    let item = f.queue_new(plain);
    let _ = f.runs(workers[0], item);
    let _ = f.blocks(workers[0]);
    (f, workers[0], plain)
}

#[test]
fn a_pool_calls_only_while_nobody_comes() {
    let (mut f, w) = Fixture::new(1, 1);
    let pwq = f.rescued_pwq(7, 256);
    assert_eq!(f.calls(), None, "nothing waits");
    let first = f.queue_new(pwq);
    assert_eq!(f.calls(), None, "an idle worker comes");
    f.manages(w[0]);
    assert_eq!(f.calls(), Some(std::vec![(pwq, WqKey(7))]), "it may take long");
    assert_eq!(f.calls(), Some(std::vec![]), "called already");
    let new = f.worker_new();
    f.birth_fails(new, Some(w[0]));
    let _ = f.runs(w[0], first);
    let _ = f.queue_new(pwq);
    assert_eq!(f.calls(), None, "as many run as may");
    let _ = f.blocks(w[0]);
    assert!(f.needs_rescuer());
    assert_eq!(f.calls(), Some(std::vec![]), "still called: nobody has come");
    let visit = f.visit(pwq, 7);
    let _ = f.rescue_end(visit);
    assert_eq!(f.calls(), Some(std::vec![(pwq, WqKey(7))]));
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").mayday, 2);
}

#[test]
fn each_pwq_with_a_rescuer_is_called_once() {
    let (mut f, _, plain) = stuck();
    let (a, b, idle) = (f.rescued_pwq(2, 256), f.rescued_pwq(3, 256), f.rescued_pwq(4, 256));
    for pwq in [plain, b, a, b, a, plain] {
        let _ = f.queue_new(pwq);
    }
    assert_eq!(f.calls(), Some(std::vec![(b, WqKey(3)), (a, WqKey(2))]));
    assert_eq!(f.pwq_stats(idle).expect("the pwq").mayday, 0);
}

#[test]
fn without_a_rescuer_nobody_is_called() {
    let (mut f, _, plain) = stuck();
    let _ = f.queue_new(plain);
    assert!(f.need_to_create_worker() && !f.needs_rescuer());
    assert_eq!(f.calls(), None);
    assert!(f.rescue_begin(plain, WqKey(1)).is_none());
}

#[test]
fn the_rescuer_takes_one_item_at_a_time_of_its_own_pwq() {
    let (mut f, blocked, plain) = stuck();
    let pwq = f.rescued_pwq(2, 256);
    let mine: Vec<_> = [plain, pwq, plain, pwq, pwq, plain]
        .map(|to| (to, f.queue_new(to)))
        .into_iter()
        .filter(|&(to, _)| to == pwq)
        .map(|(_, item)| item)
        .collect();
    assert!(f.calls().is_some());
    let mut visit = f.visit(pwq, 2);
    for &item in &mine {
        f.rescues(&mut visit, item);
        assert_eq!(f.nr_running(), 0, "a guest is not counted");
        let waiting = mine.iter().filter(|item| work(**item).is_pending()).count();
        let rank = mine.iter().position(|other| *other == item).expect("mine");
        assert_eq!(waiting, mine.len() - rank - 1, "the others can still be taken by anybody");
        let _ = f.finish(visit.worker());
    }
    assert_eq!(f.rescuer_leaves(visit), Kick::None);
    let stats = f.pwq_stats(pwq).expect("the pwq");
    assert_eq!((stats.rescued, stats.started, stats.completed), (3, 3, 3));
    assert_eq!(f.pwq_stats(plain).expect("the pwq").rescued, 0);
    let _ = f.finish(blocked);
}

#[test]
fn an_item_comes_with_its_barriers() {
    let (mut f, _, plain) = stuck();
    let pwq = f.rescued_pwq(2, 256);
    let (other, first) = (f.queue_new(plain), f.queue_new(pwq));
    let (one, two) = (f.item(), f.item());
    assert_eq!(f.barrier(first, one), FlushTarget::Queued);
    assert_eq!(f.barrier(first, two), FlushTarget::Queued);
    let second = f.queue_new(pwq);
    let mut visit = f.visit(pwq, 2);
    f.rescues_and_finishes(&mut visit, first);
    // A barrier glued to an item right before the cursor.
    let third = f.item();
    assert_eq!(f.barrier(other, third), FlushTarget::Queued);
    f.check();
    f.rescues_and_finishes(&mut visit, two);
    f.rescues_and_finishes(&mut visit, one);
    f.rescues_and_finishes(&mut visit, second);
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").rescued, 2, "barriers are no items");
    let _ = f.rescuer_leaves(visit);
}

#[test]
fn what_lies_around_the_cursor_can_be_cancelled() {
    let (mut f, _, plain) = stuck();
    let pwq = f.rescued_pwq(2, 256);
    let before = f.queue_new(plain);
    let items = [(); 4].map(|()| f.queue_new(pwq));
    let behind = f.queue_new(plain);
    let mut visit = f.visit(pwq, 2);
    f.rescues(&mut visit, items[0]);
    // The cursor is between `before` and items[1] now.
    let _ = f.cancel(items[1]);
    let _ = f.cancel(before);
    let _ = f.finish(visit.worker());
    f.rescues_and_finishes(&mut visit, items[2]);
    let _ = f.cancel(items[3]);
    let _ = f.cancel(behind);
    assert!(!f.work_waits(), "a cursor alone is no work");
    assert!(!f.needs_rescuer());
    assert_eq!(f.rescuer_leaves(visit), Kick::None);
}

#[test]
fn barriers_of_a_cancelled_item_are_rescued() {
    let (mut f, _, plain) = stuck();
    let pwq = f.rescued_pwq(2, 256);
    let _ = f.queue_new(plain);
    let (item, barrier) = (f.queue_new(pwq), f.item());
    assert_eq!(f.barrier(item, barrier), FlushTarget::Queued);
    let _ = f.cancel(item);
    assert_eq!(f.pwq_load(pwq), Some((0, false, true)));
    assert_eq!(f.calls(), Some(std::vec![(pwq, WqKey(2))]));
    let mut visit = f.visit(pwq, 2);
    f.rescues_and_finishes(&mut visit, barrier);
    let _ = f.rescuer_leaves(visit);
}

#[test]
fn workers_pass_the_cursor() {
    let (mut f, blocked, plain) = stuck();
    let pwq = f.rescued_pwq(2, 256);
    let before = f.queue_new(plain);
    let items = [(); 2].map(|()| f.queue_new(pwq));
    let behind = f.queue_new(plain);
    let mut visit = f.visit(pwq, 2);
    f.rescues(&mut visit, items[0]);
    // The blocked worker comes back, and takes everything on both sides of the cursor.
    let _ = f.finish(blocked);
    for item in [before, items[1], behind] {
        let _ = f.runs(blocked, item);
        let _ = f.finish(blocked);
    }
    assert!(!f.sleeps(blocked), "nothing to watch for");
    let _ = f.finish(visit.worker());
    assert_eq!(f.rescuer_leaves(visit), Kick::None);
}

#[test]
fn what_is_queued_meanwhile_is_behind_the_cursor() {
    let (mut f, _, plain) = stuck();
    let pwq = f.rescued_pwq(2, 1);
    let _ = f.queue_new(plain);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let mut visit = f.visit(pwq, 2);
    // Each gets its slot, and its place on the worklist, when the one before has finished.
    for item in items {
        f.rescues_and_finishes(&mut visit, item);
    }
    let again = items[0];
    let _ = f.queue(pwq, again);
    f.rescues_and_finishes(&mut visit, again);
    let _ = f.rescuer_leaves(visit);
}

#[test]
fn an_item_that_a_worker_runs_goes_to_that_worker() {
    let (mut f, w) = Fixture::new(1, 1);
    let pwq = f.rescued_pwq(2, 256);
    f.no_worker();
    let item = f.queue_new(pwq);
    let _ = f.runs(w[0], item);
    let _ = f.blocks(w[0]);
    let _ = f.queue(pwq, item);
    let other = f.queue_new(pwq);
    let mut visit = f.visit(pwq, 2);
    f.rescues_and_finishes(&mut visit, other);
    let _ = f.rescuer_leaves(visit);
    let _ = f.finish(w[0]);
    let _ = f.runs(w[0], item);
    let _ = f.finish(w[0]);
}

#[test]
fn an_item_queued_again_goes_to_the_rescuer_that_runs_it() {
    let (mut f, blocked, _) = stuck();
    let pwq = f.rescued_pwq(2, 256);
    let item = f.queue_new(pwq);
    let mut visit = f.visit(pwq, 2);
    f.rescues(&mut visit, item);
    let _ = f.queue(pwq, item);
    let _ = f.finish(blocked);
    assert!(!f.sleeps(blocked), "it gives the item to the rescuer");
    let _ = f.finish(visit.worker());
    // Although the pool has an idle worker again.
    f.rescues_and_finishes(&mut visit, item);
    let _ = f.rescuer_leaves(visit);
}

#[test]
fn the_rescuer_leaves_when_workers_come() {
    let (mut f, _, _) = stuck();
    let pwq = f.rescued_pwq(2, 256);
    let items = [(); 2].map(|()| f.queue_new(pwq));
    let mut visit = f.visit(pwq, 2);
    f.rescues_and_finishes(&mut visit, items[0]);
    let new = f.worker();
    assert_eq!(f.rescuer_leaves(visit), Kick::None, "it was woken when it was made");
    f.manages(new);
}

#[test]
fn the_rescuer_helps_a_pool_that_is_short_of_workers_unless_others_wait() {
    let (mut f, blocked, _) = stuck();
    let pwq = f.rescued_pwq(2, 256);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let mut visit = f.visit(pwq, 2);
    // The worker runs again: nobody is needed now, but nobody stands by either.
    f.resumes(blocked);
    assert!(!f.needs_rescuer());
    f.rescues_and_finishes(&mut visit, items[0]);
    let next = f.rescue(&mut visit, true);
    assert!(matches!(next, Rescue::Leave), "{next:?}");
    let _ = f.rescue_end(visit);
    let _ = f.finish(blocked);
    let _ = f.runs(blocked, items[1]);
}

#[test]
fn after_a_batch_others_come_first() {
    let (mut f, _, plain) = stuck();
    let pwq = f.rescued_pwq(2, 256);
    let before = f.queue_new(plain);
    let items: Vec<_> = (0..40).map(|_| f.queue_new(pwq)).collect();
    let share = consts::RESCUER_BATCH as usize + 1;
    assert!(f.calls().is_some());
    let mut visit = f.visit(pwq, 2);
    for &item in &items[..share] {
        let Rescue::Run(claim) = f.rescue(&mut visit, true) else { panic!("less than a batch") };
        assert_eq!(claim.item, item.as_ptr());
        let _ = f.finish(visit.worker());
    }
    let next = f.rescue(&mut visit, true);
    assert!(matches!(next, Rescue::CallAgain), "{next:?}");
    let _ = f.rescue_end(visit);
    f.check();
    assert_eq!(f.calls(), Some(std::vec![]), "it is called already");
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").mayday, 2);
    // It goes on where it was, and without others that wait there is no end of a batch.
    let mut visit = f.visit(pwq, 2);
    for &item in &items[share..] {
        f.rescues_and_finishes(&mut visit, item);
    }
    let _ = f.rescuer_leaves(visit);
    let _ = f.cancel(before);
}

#[test]
fn two_rescuers_walk_the_same_worklist() {
    let (mut f, _, plain) = stuck();
    let (a, b) = (f.rescued_pwq(2, 256), f.rescued_pwq(3, 256));
    let mut of = [Vec::new(), Vec::new()];
    let _ = f.queue_new(plain);
    for n in 0..12 {
        let which = usize::from(n % 3 == 0);
        let item = f.queue_new([a, b][which]);
        of[which].push(item);
    }
    let mut visits = [f.visit(a, 2), f.visit(b, 3)];
    for n in 0..8 {
        for (which, visit) in visits.iter_mut().enumerate() {
            if let Some(&item) = of[which].get(n) {
                f.rescues_and_finishes(visit, item);
            }
        }
    }
    for visit in visits {
        let _ = f.rescuer_leaves(visit);
    }
}

#[test]
fn a_pool_without_a_single_worker_is_served() {
    let (mut f, _) = Fixture::new(policy::UNMANAGED, 0);
    let pwq = f.rescued_pwq(2, 256);
    f.no_worker();
    let item = f.queue_new(pwq);
    assert_eq!(f.calls(), Some(std::vec![(pwq, WqKey(2))]));
    let mut visit = f.visit(pwq, 2);
    f.rescues(&mut visit, item);
    assert_eq!(f.nr_workers(), 0);
    let _ = f.finish(visit.worker());
    let _ = f.rescuer_leaves(visit);
}

#[test]
fn a_creation_can_be_left_to_the_next_attempt() {
    let (mut f, _) = Fixture::new(1, 0);
    let now = f.now;
    assert_eq!(f.create_retry_at(), None);
    let pwq = f.pwq(10);
    let _ = f.queue_new(pwq);
    assert_eq!(f.may_create(Creator::First, true, now), Create::Later(now));
    assert_eq!(f.create_retry_at(), Some(now));
    assert_eq!(f.may_create(Creator::Spare, false, now), Create::Now, "at once");
    f.no_worker();
    let retry = f.create_retry_at().expect("it failed");
    assert!(retry > now);
    let later = Create::Later(retry);
    assert_eq!(f.may_create(Creator::First, true, now), later, "the pause is kept");
    assert_eq!(f.may_create(Creator::First, false, now), Create::Now, "work waits");
    let _ = f.worker();
    assert_eq!(f.create_retry_at(), None);
}

#[test]
fn a_call_for_a_pwq_that_is_gone_is_void() {
    let (mut f, _, plain) = stuck();
    let pwq = f.rescued_pwq(2, 256);
    let before = f.queue_new(plain);
    let items: Vec<_> = (0..18).map(|_| f.queue_new(pwq)).collect();
    // Called again, with the cursor left behind; then the last item is taken back.
    let mut visit = f.visit(pwq, 2);
    for &item in &items[..17] {
        f.rescues_and_finishes(&mut visit, item);
    }
    assert!(matches!(f.rescue(&mut visit, true), Rescue::CallAgain));
    let _ = f.cancel(items[17]);
    assert_eq!(f.remove_pwq(pwq), Err(Stays::Visited));
    let _ = f.rescue_end(visit);
    assert_eq!(f.remove_pwq(pwq).expect("idle").rescued, 17);
    f.check();
    assert!(f.rescue_begin(pwq, WqKey(2)).is_none());
    // Another queue's pwq in its place is not meant.
    let reused = f.rescued_pwq(9, 256);
    assert_eq!(reused, pwq);
    assert!(f.rescue_begin(reused, WqKey(2)).is_none());
    let _ = f.cancel(before);
    assert!(!f.work_waits());
}

#[test]
fn rescuers_are_called_after_10_ms_and_then_every_100() {
    let mut timer = MaydayTimer::default();
    assert_eq!(timer.due_at(), None);
    assert_eq!(timer.arm(|| 7), Some(7 + MAYDAY_INITIAL_TIMEOUT_NS));
    assert_eq!(timer.arm(|| unreachable!("it is armed")), None);
    assert_eq!(timer.due_at(), Some(7 + MAYDAY_INITIAL_TIMEOUT_NS));
    assert_eq!(timer.after(true, 20), Some(20 + MAYDAY_INTERVAL_NS));
    assert_eq!(timer.after(false, 30), None);
    assert_eq!(timer.arm(|| 40), Some(40 + MAYDAY_INITIAL_TIMEOUT_NS), "anew");
}
