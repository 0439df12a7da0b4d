//! Workers of one pool that lend another a hand.

use super::support::{Fixture, ItemPtr};
use crate::{Claim, Create, Creator, Kick, PwqId, WorkerId, WqKey};

impl Fixture {
    fn guest_runs(&mut self, id: WorkerId, item: ItemPtr) -> Claim {
        let claim = self.guest_next(id, false).expect("something to run");
        self.check();
        assert_eq!(claim.item, item.as_ptr());
        claim
    }

    fn guest_finds_nothing(&mut self, id: WorkerId) {
        assert!(self.guest_next(id, false).is_none());
        self.check();
    }
}

/// A per-CPU pool whose worker `b` runs `first`, while `second` and `third` wait.
fn overloaded() -> (Fixture, PwqId, [WorkerId; 2], [ItemPtr; 3]) {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let _ = f.runs(b, items[0]);
    (f, pwq, [a, b], items)
}

#[test]
fn a_guest_takes_what_the_pool_cannot_start() {
    let (mut f, pwq, [_, b], items) = overloaded();
    let guest = f.guest_enter();
    f.check();
    let claim = f.guest_runs(guest, items[1]);
    assert_eq!((claim.wq, claim.kick), (WqKey(1), Kick::Watch));
    assert_eq!((f.nr_running(), f.nr_workers()), (1, 2), "it counts at home, not here");
    assert!(f.is_executing(items[1]));
    let view = f.worker_view(guest).expect("the guest");
    assert!(!view.running && !view.idle);

    let _ = f.finish(guest);
    assert_eq!(f.pwq_load(pwq), Some((2, false, true)));
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").completed, 1);
    let _ = f.guest_runs(guest, items[2]);
    let _ = f.finish(guest);
    f.guest_finds_nothing(guest);
    assert_eq!(f.guest_leave(guest), Kick::None);
    f.check();
    let _ = f.finish(b);
    assert!(!f.sleeps(b));
}

#[test]
fn a_guest_leaves_what_the_pool_can_start_itself() {
    let (mut f, pwq, [a, b], items) = overloaded();
    let guest = f.guest_enter();
    let _ = f.blocks(b);
    f.guest_finds_nothing(guest);
    let _ = f.guest_leave(guest);
    f.manages(a);
    let c = f.worker_new();
    let _ = f.born(c, Some(a));
    let _ = f.runs(a, items[1]);
    assert_eq!(f.pwq_load(pwq).expect("the pwq").0, 3);
}

#[test]
fn a_leaving_guest_wakes_somebody_for_what_it_leaves_behind() {
    let (mut f, w) = Fixture::new(1, 2);
    let pwq = f.pwq(2);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let _ = f.runs(w[1], items[0]);
    let guest = f.guest_enter();
    let _ = f.guest_runs(guest, items[1]);
    // The pool's own worker ends and takes items[2], which got its slot; it ends too.
    let _ = f.finish(w[1]);
    let _ = f.runs(w[1], items[2]);
    let inactive = [(); 2].map(|()| f.queue_new(pwq));
    let _ = f.finish(w[1]);
    let _ = f.runs(w[1], inactive[0]);
    let _ = f.blocks(w[1]);
    // The guest's slot activates the last one. The pool may start it, so the guest does not.
    let _ = f.finish(guest);
    f.guest_finds_nothing(guest);
    assert_eq!(f.guest_leave(guest), Kick::Wake(w[0]));
}

#[test]
fn an_item_queued_again_goes_to_the_guest_that_runs_it() {
    let (mut f, pwq, [_, b], items) = overloaded();
    let guest = f.guest_enter();
    let _ = f.guest_runs(guest, items[1]);
    let _ = f.queue(pwq, items[1]);
    let _ = f.finish(b);
    let _ = f.runs(b, items[2]);
    let _ = f.finish(b);
    assert!(!f.sleeps(b), "b gives items[1] to the guest");
    let _ = f.finish(guest);
    let _ = f.guest_runs(guest, items[1]);
    let _ = f.finish(guest);
    f.guest_finds_nothing(guest);
    let _ = f.guest_leave(guest);
}

#[test]
fn a_guest_gives_an_item_to_the_worker_that_runs_it() {
    let (mut f, pwq, [_, b], items) = overloaded();
    let _ = f.cancel(items[1]);
    let _ = f.cancel(items[2]);
    let _ = f.queue(pwq, items[0]);
    let guest = f.guest_enter();
    f.guest_finds_nothing(guest);
    let _ = f.guest_leave(guest);
    let _ = f.finish(b);
    let _ = f.runs(b, items[0]);
}

#[test]
fn barriers_find_a_guest() {
    let (mut f, _, _, items) = overloaded();
    let guest = f.guest_enter();
    let _ = f.guest_runs(guest, items[1]);
    let barrier = f.item();
    assert_eq!(f.barrier(items[1], barrier), crate::FlushTarget::Running(guest));
    let _ = f.finish(guest);
    let _ = f.guest_runs(guest, barrier);
    let _ = f.finish(guest);
}

#[test]
fn reports_about_a_guest_do_not_change_the_count() {
    let (mut f, _, _, items) = overloaded();
    let guest = f.guest_enter();
    let _ = f.guest_runs(guest, items[1]);
    assert_eq!(f.blocks(guest), Kick::Watch);
    assert_eq!(f.nr_running(), 1);
    f.resumes(guest);
    assert_eq!(f.nr_running(), 1);
    let _ = f.finish(guest);
}

#[test]
fn a_guest_completes_flushes() {
    let (mut f, pwq, [_, b], items) = overloaded();
    let _ = f.cancel(items[2]);
    assert!(f.flush_prep(pwq, Some(0), Some(1)));
    let guest = f.guest_enter();
    let _ = f.guest_runs(guest, items[1]);
    assert_eq!(f.finish(b).flush_done, None);
    assert_eq!(f.finish(guest).flush_done, Some(WqKey(1)));
    let _ = f.guest_leave(guest);
}

// ---- the lender's side

#[test]
fn a_lent_worker_counts_as_running_at_home() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    assert_eq!(f.kick_to_help(), Kick::Wake(b));
    assert_eq!(f.kick_to_help(), Kick::None, "it has been told");
    assert!(!f.sleeps(b));
    let seq = f.lends(b).expect("a stays as standby");
    f.check();
    assert_eq!((f.nr_running(), f.nr_idle(), f.seq(b)), (1, 1, seq));
    assert_eq!(f.kick_to_help(), Kick::None, "no CPU to spare any more");

    let item = f.item();
    assert_eq!(f.queue(pwq, item), Kick::Watch, "its CPU is taken");
    assert_eq!(f.blocks(b), Kick::Wake(a), "blocking there frees the CPU here");
    let again = f.lend_again(b);
    f.check();
    assert!(again > seq, "another item there is another run");
    assert_eq!(f.nr_running(), 1);
    assert_eq!(f.worker_blocked(b, seq), Kick::None, "a late report about the first");
    let _ = f.blocks(b);
    f.lend_end(b);
    f.check();
    assert_eq!(f.nr_running(), 1);
    let _ = f.runs(b, item);
    let _ = f.finish(b);
    assert!(!f.sleeps(b));
    assert_eq!((f.nr_running(), f.nr_idle()), (0, 2));
}

#[test]
fn nothing_is_lent_that_is_needed_at_home() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    assert_eq!(f.kick_to_help(), Kick::None);
    assert_eq!(f.lends(b), None, "work waits");
    let _ = f.runs(b, item);
    assert_eq!(f.lends(b), None, "it is busy");
    assert_eq!(f.lends(a), None, "the CPU is in use");
    let _ = f.blocks(b);
    assert_eq!(f.lends(a), None, "the last idle worker is the standby");
    f.check();
}

#[test]
fn a_spare_worker_may_be_created_unless_there_is_one_or_will_be() {
    let (mut f, _) = Fixture::new(1, 0);
    let pwq = f.pwq(10);
    assert_eq!(f.may_create(Creator::Spare, false, 0), Create::Now);
    let a = f.worker();
    assert_eq!(f.may_create(Creator::Spare, false, 0), Create::Now, "one is needed as standby");
    let unborn = f.worker_new();
    f.birth_fails(unborn, None);
    let retry = f.create_retry_at().expect("it failed");
    assert_eq!(f.may_create(Creator::Spare, false, retry - 1), Create::No);
    assert_eq!(f.may_create(Creator::Spare, false, retry), Create::Now);
    f.now = retry;
    let item = f.queue_new(pwq);
    f.manages(a);
    assert_eq!(f.may_create(Creator::Spare, false, retry), Create::No, "a manager is at it");
    let b = f.worker_new();
    let _ = f.born(b, Some(a));
    let _ = f.runs(a, item);
    let _ = f.finish(a);
    assert!(!f.sleeps(a));
    assert_eq!(f.may_create(Creator::Spare, false, retry), Create::No, "there are two");
}

/// Two threads have found a pool without workers, and ask one after the other.
#[test]
fn a_pool_begins_with_one_worker() {
    let (mut f, _) = Fixture::new(1, 0);
    let _ = f.pwq(10);
    assert_eq!(f.may_create(Creator::Begin, false, 0), Create::Now);
    let unborn = f.worker_new();
    assert_eq!(f.may_create(Creator::Begin, false, 0), Create::No, "it is being created");
    f.birth_fails(unborn, None);
    let retry = f.create_retry_at().expect("it failed");
    assert_eq!(f.may_create(Creator::Begin, false, retry - 1), Create::No);
    assert_eq!(f.may_create(Creator::Begin, false, retry), Create::Now);
    f.now = retry;
    let _ = f.worker();
    assert_eq!(f.may_create(Creator::Begin, false, retry), Create::No, "there is one");
}

#[test]
fn a_pool_without_workers_needs_one_to_lend() {
    let (mut f, _) = Fixture::new(2, 0);
    assert_eq!(f.kick_to_help(), Kick::NeedFirst);
    let w = f.worker_new();
    assert_eq!(f.kick_to_help(), Kick::None, "it is on its way");
    let _ = f.born(w, None);
    assert_eq!(f.kick_to_help(), Kick::Wake(w));
}
