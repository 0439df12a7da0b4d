//! Limits of how many workers a process has.

use super::support::Fixture;
use crate::consts::{CREATE_COOLDOWN_NS, MANY_FIRST_WAITS, WAITS_FIRST_NS};
use crate::place::PoolKind;
use crate::policy::UNMANAGED;
use crate::{
    Create, Creator, Kick, LIMIT_RETRY_NS, PoolConfig, PoolId, PwqId, Retry, Waited, WorkerId,
    may_add_worker, yield_for,
};

#[test]
fn a_first_worker_is_never_refused_and_others_beyond_the_limit_are() {
    assert!(may_add_worker(100, 5, 0));
    assert!(may_add_worker(4, 5, 3) && !may_add_worker(5, 5, 1));
}

#[test]
fn a_refused_pool_works_with_what_it_has_and_asks_again_soon_while_work_waits() {
    let (mut f, w) = Fixture::new(UNMANAGED, 1);
    let pwq = f.pwq(10);
    f.now = 5_000;
    let now = f.now;
    let refused = f.worker_new();
    assert_eq!(f.nr_staying(), 2);
    f.create_refused(refused, None, now);
    assert_eq!(f.nr_staying(), 1);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[0], item);
    assert_eq!(f.retry(u64::MAX), Retry::Nothing, "nothing waits, though nobody stands by");
    let [first, second, third] = [(); 3].map(|()| f.item());
    assert_eq!([first, second].map(|item| f.queue(pwq, item)), [Kick::NeedFirst; 2]);
    let refused = f.worker_new();
    assert_eq!(f.queue(pwq, third), Kick::None, "a creation has begun");
    f.create_refused(refused, None, now);
    let at = now + LIMIT_RETRY_NS;
    assert_eq!((f.retry(now), f.retry(at)), (Retry::At(at), Retry::Create));
    let _ = f.finish(w[0]);
}

#[test]
fn a_pool_that_another_one_lets_a_worker_go_for_asks_again_soon() {
    let (mut f, _) = Fixture::new(UNMANAGED, 1);
    f.now = 5_000;
    let now = f.now;
    let failed = f.worker_new();
    f.create_failed(failed, None, now);
    assert_eq!(f.retry(now), Retry::At(now + CREATE_COOLDOWN_NS));
    f.retry_soon(now);
    assert_eq!(f.retry(now), Retry::At(now + LIMIT_RETRY_NS));
    assert_eq!(Retry::after_yield(now), now + LIMIT_RETRY_NS, "a thread that is no worker's, too");
}

#[test]
fn a_creation_that_fails_after_one_was_refused_is_tried_again_in_time() {
    let (mut f, w) = Fixture::new(UNMANAGED, 1);
    let pwq = f.pwq(10);
    let now = f.now;
    let [refused, failed] = [f.worker_new(), f.worker_new()];
    f.create_refused(refused, None, now);
    f.create_failed(failed, None, now);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[0], item);
    let at = now + CREATE_COOLDOWN_NS;
    assert_eq!((f.retry(now), f.retry(at)), (Retry::At(at), Retry::Create));
    let _ = f.finish(w[0]);
}

/// A managed pool whose only worker runs an item. It was refused another one when nothing waited.
fn refused() -> (Fixture, PwqId, WorkerId) {
    let config = PoolConfig { kind: PoolKind::Managed, ..PoolConfig::new(PoolId(0), 1) };
    let (mut f, w) = Fixture::with(config, 1);
    let pwq = f.pwq(10);
    let (refused, now) = (f.worker_new(), f.now);
    f.create_refused(refused, None, now);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[0], item);
    (f, pwq, w[0])
}

#[test]
fn who_was_refused_a_worker_asks_for_one_when_its_only_one_blocks() {
    let (mut f, pwq, worker) = refused();
    let item = f.item();
    assert_eq!(f.queue(pwq, item), Kick::Watch);
    assert_eq!(f.retry(u64::MAX), Retry::Nothing, "none could run");
    assert_eq!(f.blocks(worker), Kick::NeedFirst);
}

#[test]
fn what_waits_is_watched_when_the_only_worker_is_back_before_there_is_another() {
    let (mut f, pwq, worker) = refused();
    assert_eq!(f.blocks(worker), Kick::None, "nothing waits");
    let item = f.item();
    assert_eq!(f.queue(pwq, item), Kick::NeedFirst);
    let (refused, now) = (f.worker_new(), f.now);
    f.create_refused(refused, None, now);
    let seq = f.seq(worker);
    assert_eq!(f.worker_resumed(worker, seq), Kick::Watch);
    assert_eq!(f.retry(u64::MAX), Retry::Create);
    let refused = f.worker_new();
    f.create_refused(refused, None, now);
    assert_eq!(f.retry(u64::MAX), Retry::Nothing, "none could run");
    assert_eq!(f.blocks(worker), Kick::NeedFirst, "as whoever watches reports");
}

#[test]
fn that_a_worker_is_needed_is_not_forgotten_where_it_is_asked_for_others() {
    let (mut f, pwq, worker) = refused();
    let _ = f.blocks(worker);
    assert_eq!(f.ask_to_help(), Kick::None, "nobody can come, and none is created for others");
    assert_eq!(f.replace_blocked(Kick::None, false, || false, || true), Kick::None);
    let item = f.item();
    assert_eq!(f.queue(pwq, item), Kick::NeedFirst);
}

#[test]
fn that_a_worker_is_needed_is_not_forgotten_where_enough_run() {
    let config = PoolConfig { kind: PoolKind::Managed, ..PoolConfig::new(PoolId(0), 1) };
    let (mut f, w) = Fixture::with(config, 3);
    let pwq = f.pwq(10);
    let (refused, now) = (f.worker_new(), f.now);
    f.create_refused(refused, None, now);
    let soon = Waited { before: WAITS_FIRST_NS, after: u64::MAX };
    (0..MANY_FIRST_WAITS).for_each(|_| f.item_waited(soon));
    for worker in [w[2], w[1]] {
        let item = f.queue_new(pwq);
        let _ = f.runs(worker, item);
        let _ = f.blocks(worker);
    }
    let [running, _] = [(); 2].map(|()| f.queue_new(pwq));
    let _ = f.runs(w[0], running);
    assert_eq!(f.tick(), Kick::None, "one more would begin, and there is none");
    assert_eq!(f.blocks(w[0]), Kick::NeedFirst);
}

#[test]
fn a_worker_that_was_refused_is_created_at_the_next_attempt_if_a_rescuer_needs_it() {
    let (mut f, pwq, worker) = refused();
    let (_, now) = (f.queue_new(pwq), f.now);
    assert_eq!(f.blocks(worker), Kick::NeedFirst);
    let Create::Later(at) = f.may_create(Creator::First, true, now) else { panic!("he may not") };
    assert_eq!((f.retry(now), f.retry(at)), (Retry::At(at), Retry::Create));
    assert_eq!(f.may_create(Creator::First, false, now), Create::Now, "others need not wait");
}

#[test]
fn idle_workers_are_yielded_but_for_one() {
    let (mut f, _) = Fixture::new(UNMANAGED, 4);
    let yielded = std::iter::from_fn(|| f.yield_one(false)).count();
    assert_eq!((yielded, f.nr_staying(), f.nr_workers()), (3, 1, 4));
}

#[test]
fn the_last_idle_worker_is_yielded_where_nothing_is_to_be_done() {
    let (mut f, _) = Fixture::new(UNMANAGED, 2);
    let pwq = f.pwq(10);
    let item = f.item();
    let Kick::Wake(worker) = f.queue(pwq, item) else { panic!("nobody was woken") };
    let _ = f.runs(worker, item);
    assert_eq!(f.yield_one(true), None, "it stands by");
    let _ = f.finish(worker);
    assert_eq!(f.yield_one(true), None, "the other one has yet to look");
    f.sleeps(worker);
    let yielded = std::iter::from_fn(|| f.yield_one(true)).count();
    assert_eq!((yielded, f.nr_staying()), (2, 0));
    let _ = f.queue_new(pwq);
    assert_eq!(f.kick(), Kick::NeedFirst, "it begins as a new pool does");
}

#[test]
fn who_has_yielded_the_last_worker_does_not_ask_for_a_standby() {
    let (mut f, _) = Fixture::new(UNMANAGED, 1);
    let failed = f.worker_new();
    let now = f.now;
    f.create_failed(failed, None, now);
    assert_ne!(f.yield_one(true), None);
    assert_eq!(f.retry(u64::MAX), Retry::Nothing, "the thread is another pool's now");
}

#[test]
fn the_first_pool_that_has_one_to_spare_yields_a_worker() {
    let mut asked = std::vec::Vec::new();
    let mut yields = |pool: &u32, may_be_last: bool| {
        asked.push((*pool, may_be_last));
        *pool > 1
    };
    assert_eq!(yield_for(&2, true, || 0..5, &mut yields), Some(3));
    assert_eq!(yield_for(&1, false, || 0..2, &mut yields), None);
    assert_eq!(asked, [0, 1, 3, 0].map(|pool| (pool, false)));
    asked.clear();
    let mut last = |pool: &u32, may_be_last: bool| {
        asked.push((*pool, may_be_last));
        may_be_last && *pool == 1
    };
    assert_eq!(yield_for(&0, true, || 0..3, &mut last), Some(1));
    assert_eq!(asked, [(1, false), (2, false), (1, true)]);
}
