//! A pool that no queue needs is closed, and opened by the next one.

use super::support::Fixture;
use crate::policy::UNMANAGED;
use crate::{Kick, Next};

#[test]
fn a_queue_that_comes_back_before_the_last_worker_has_looked_finds_a_standby() {
    let (mut f, w) = Fixture::new(UNMANAGED, 2);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[1], item);
    let _ = f.finish(w[1]);
    assert!(f.remove_pwq(pwq).is_ok());
    f.close_and_dismiss(&[]);
    let pwq = f.pwq(10);
    // `first` waits for `second`.
    let (first, second) = (f.queue_new(pwq), f.item());
    assert_eq!(f.runs(w[1], first), Kick::None);
    assert_eq!(f.queue(pwq, second), Kick::None, "w0 was woken for the first");
    assert!(matches!(f.next(w[0]), Next::Manage));
    let third = f.worker_new();
    let _ = f.born(third, Some(w[0]));
    let _ = f.runs(w[0], second);
}

#[test]
fn the_standby_of_a_closed_pool_leaves_with_the_last_worker() {
    let (mut f, w) = Fixture::new(UNMANAGED, 3);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[2], item);
    let _ = f.finish(w[2]);
    assert!(!f.close_if_unused(), "a queue leads here");
    assert!(f.remove_pwq(pwq).is_ok());
    f.close_and_dismiss(&[w[0]]);
    assert!(f.is_unused() && f.is_closed());
    assert!(!f.sleeps(w[2]));
    f.close_and_dismiss(&[w[1], w[2]]);
    w.iter().for_each(|&id| f.exits(id));
    assert_eq!(f.nr_workers(), 0);
}

#[test]
fn a_worker_in_the_making_keeps_the_standby_of_a_closed_pool() {
    let (mut f, w) = Fixture::new(UNMANAGED, 1);
    let made = f.worker_new();
    f.close_and_dismiss(&[]);
    let _ = f.born(made, None);
    f.close_and_dismiss(&[w[0], made]);
}

#[test]
fn a_pool_that_is_closed_for_ever_stays_closed() {
    let (mut f, _) = Fixture::new(UNMANAGED, 1);
    f.close();
    let pwq = f.pwq(10);
    assert!(f.is_closed() && !f.is_unused());
    assert!(f.remove_pwq(pwq).is_ok());
}

#[test]
fn who_was_woken_is_not_culled() {
    let (mut f, w) = Fixture::new(1, 4);
    let pwq = f.pwq(10);
    let item = f.item();
    assert_eq!(f.queue(pwq, item), Kick::Wake(w[3]));
    let _ = f.cancel(item);
    // Now the one that was woken idles longest.
    assert!(w[..3].iter().all(|&id| !f.sleeps(id)));
    f.now += crate::consts::IDLE_WORKER_TIMEOUT_NS;
    let now = f.now;
    assert_eq!(f.cull_one(now), Some(w[0]));
}

#[test]
fn a_pool_is_renewed_when_nothing_is_left_in_it() {
    let (mut f, w) = Fixture::new(UNMANAGED, 2);
    assert!(!f.renew(), "it is open");
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[1], item);
    let _ = f.finish(w[1]);
    assert!(!f.close_if_unused() && !f.renew(), "a queue leads here");
    assert!(f.remove_pwq(pwq).is_ok());
    assert!(f.close_if_unused() && !f.renew(), "its worker is at work");
    assert!(!f.sleeps(w[1]));
    assert!(!f.renew(), "they are idle");
    f.close_and_dismiss(&[w[0], w[1]]);
    f.exits(w[1]);
    assert!(!f.renew(), "it was told to leave, and has not left");
    f.exits(w[0]);
    assert!(f.is_vacant());
    let made = f.worker_new();
    assert!(!f.is_vacant() && !f.renew(), "one is being made");
    f.create_failed(made, None, 0);
    assert!(f.renew() && !f.is_closed());
    assert!(!f.is_vacant() && !f.renew(), "it is somebody's now");
    let pwq = f.pwq(10);
    let _ = f.queue_new(pwq);
    f.check();
}

#[test]
fn a_pool_that_is_closed_for_ever_is_not_renewed() {
    let (mut f, _) = Fixture::new(UNMANAGED, 0);
    assert!(f.close_if_unused() && f.is_vacant());
    f.close();
    assert!(!f.is_vacant() && !f.renew());
}
