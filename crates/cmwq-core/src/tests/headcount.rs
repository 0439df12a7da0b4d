//! Limits of how many workers a process has.

use super::support::Fixture;
use crate::consts::CREATE_COOLDOWN_NS;
use crate::policy::UNMANAGED;
use crate::{LIMIT_RETRY_NS, Retry, may_add_worker, yield_for};

#[test]
fn a_first_worker_is_never_refused_and_others_beyond_the_limit_are() {
    assert!(may_add_worker(100, 5, 0));
    assert!(may_add_worker(4, 5, 3) && !may_add_worker(5, 5, 1));
}

#[test]
fn a_refused_pool_works_with_what_it_has_and_asks_again_soon() {
    let (mut f, w) = Fixture::new(UNMANAGED, 1);
    let pwq = f.pwq(10);
    f.now = 5_000;
    let now = f.now;
    let refused = f.worker_new();
    assert_eq!(f.nr_staying(), 2);
    f.create_refused(refused, None, now);
    assert_eq!((f.nr_staying(), f.retry(now)), (1, Retry::At(now + LIMIT_RETRY_NS)));
    let item = f.queue_new(pwq);
    let _ = f.runs(w[0], item);
    assert_eq!(f.retry(now + LIMIT_RETRY_NS), Retry::Create, "nobody stands by");
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
fn idle_workers_are_yielded_but_for_one() {
    let (mut f, _) = Fixture::new(UNMANAGED, 4);
    let yielded = std::iter::from_fn(|| f.yield_one()).count();
    assert_eq!((yielded, f.nr_staying(), f.nr_workers()), (3, 1, 4));
}

#[test]
fn the_first_pool_that_has_one_to_spare_yields_a_worker() {
    let mut asked = std::vec::Vec::new();
    let mut yields = |pool: &u32| {
        asked.push(*pool);
        *pool > 1
    };
    assert_eq!(yield_for(&2, 0..5, &mut yields), Some(3));
    assert_eq!(yield_for(&1, 0..2, &mut yields), None);
    assert_eq!(asked, [0, 1, 3, 0]);
}
