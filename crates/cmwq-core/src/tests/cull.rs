//! Idle workers that leave.

use std::vec::Vec;

use super::support::Fixture;
use crate::policy::UNMANAGED;
use crate::{Kick, Nanos, WorkerId};

const TIMEOUT: Nanos = 300 * 1_000_000_000;

/// `n` workers that went idle one nanosecond after the other, the first at 1001.
fn staggered(n: usize) -> (Fixture, Vec<WorkerId>) {
    let (mut f, _) = Fixture::new(UNMANAGED, 0);
    let workers = (0..n)
        .map(|_| {
            f.now += 1;
            f.worker()
        })
        .collect();
    (f, workers)
}

fn cull_all(f: &mut Fixture) -> Vec<WorkerId> {
    let now = f.now;
    let culled = core::iter::from_fn(|| {
        let culled = f.cull_one(now);
        f.check();
        culled
    });
    culled.collect()
}

#[test]
fn two_idle_workers_stay() {
    let (mut f, _) = staggered(2);
    assert_eq!(f.cull_at(), None);
    f.now = Nanos::MAX;
    assert!(cull_all(&mut f).is_empty());
}

#[test]
fn the_oldest_goes_first_and_not_before_its_time() {
    let (mut f, w) = staggered(5);
    assert_eq!(f.cull_at(), Some(1001 + TIMEOUT));
    f.now = 1000 + TIMEOUT;
    assert!(cull_all(&mut f).is_empty());
    f.now = 1001 + TIMEOUT;
    assert_eq!(cull_all(&mut f), [w[0]]);
    assert_eq!(f.cull_at(), Some(1002 + TIMEOUT));
    f.exits(w[0]);
    assert_eq!((f.nr_workers(), f.nr_idle()), (4, 4));
}

#[test]
fn culling_in_one_go_leaves_two_when_nobody_is_busy() {
    // The dismissed are on their way out; that must not make them count as busy.
    let (mut f, w) = staggered(10);
    f.now += TIMEOUT;
    assert_eq!(cull_all(&mut f), w[..8]);
    assert_eq!(f.nr_idle(), 2);
    for &id in &w[..8] {
        f.exits(id);
    }
    assert_eq!(f.nr_workers(), 2);
}

#[test]
fn busy_workers_justify_idle_ones() {
    for busy in if cfg!(miri) { 4..=5 } else { 1..=9 } {
        let (mut f, w) = staggered(20);
        let pwq = f.pwq(100);
        for i in 0..busy {
            let item = f.queue_new(pwq);
            let _ = f.runs(w[19 - i], item);
        }
        f.now += TIMEOUT;
        let culled = cull_all(&mut f).len();
        assert_eq!(20 - busy - culled, 2 + (busy - 1) / 4, "{busy} busy");
    }
}

#[test]
fn using_a_worker_renews_its_time() {
    let (mut f, w) = staggered(3);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    f.now = 5000;
    let _ = f.runs(w[0], item);
    let _ = f.finish(w[0]);
    assert!(!f.sleeps(w[0]));
    assert_eq!(f.cull_at(), Some(1002 + TIMEOUT), "w1 is the oldest now");
    f.now = 1002 + TIMEOUT;
    assert_eq!(cull_all(&mut f), [w[1]]);
}

#[test]
fn a_manager_counts_as_idle() {
    let (mut f, w) = Fixture::new(UNMANAGED, 1);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    f.manages(w[0]);
    let _ = f.cancel(item);
    let others = [(); 2].map(|()| f.worker());
    assert_eq!(f.cull_at(), Some(f.now + TIMEOUT), "two idle and the manager");
    f.now += TIMEOUT;
    assert_eq!(cull_all(&mut f), [others[0]]);
}

#[test]
fn the_policy_can_be_changed() {
    let (mut f, w) = staggered(5);
    let pwq = f.pwq(10);
    for id in [w[4], w[3]] {
        let item = f.queue_new(pwq);
        let _ = f.runs(id, item);
    }
    f.now = 2000;
    f.set_idle_policy(10, 1);
    assert_eq!(f.cull_at(), None, "at ratio 1 two busy workers justify a third idle one");
    f.set_idle_policy(10, 2);
    assert_eq!(f.cull_at(), Some(1011));
    assert_eq!(cull_all(&mut f), [w[0]], "at ratio 2 they do not");
}

#[test]
fn a_dismissed_worker_does_not_count_as_one_to_come() {
    let (mut f, w) = staggered(2);
    f.close_and_dismiss(&w);
    let pwq = f.pwq(10);
    let item = f.item();
    assert_eq!(f.queue(pwq, item), Kick::NeedFirst, "both leave, whatever is queued");
    f.exits(w[0]);
    f.exits(w[1]);
    assert_eq!(f.nr_workers(), 0);
}
