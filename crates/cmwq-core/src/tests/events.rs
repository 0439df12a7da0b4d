//! Births, failed births, and reports of blocking: timely, late, wrong and repeated.

use super::support::{Fixture, pwq_config};
use crate::consts::CREATE_COOLDOWN_NS;
use crate::policy::UNMANAGED;
use crate::{Create, Creator, Kick, Retry, WorkerId};

#[test]
fn the_last_idle_worker_becomes_manager_and_never_executor() {
    let (mut f, w) = Fixture::new(UNMANAGED, 2);
    let pwq = f.pwq(10);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let _ = f.runs(w[1], items[0]);
    f.manages(w[0]);
    assert!(f.has_manager());
    assert_eq!(f.nr_running(), 1, "a manager does not run");
    let c = f.worker_new();
    assert_eq!(f.nr_workers(), 3);
    assert_eq!(f.born(c, Some(w[0])), Kick::None, "the manager takes the item itself");
    assert!(!f.has_manager());
    assert_eq!(f.runs(w[0], items[1]), Kick::Wake(c), "and wakes the next, for the next");
    f.manages(c);
}

#[test]
fn while_one_manages_another_may_start() {
    // A manager is a promise of a standby, so a second worker need not wait for it.
    let (mut f, w) = Fixture::new(UNMANAGED, 1);
    let pwq = f.pwq(10);
    let items = [(); 2].map(|()| f.queue_new(pwq));
    f.manages(w[0]);
    let b = f.worker();
    assert!(f.has_manager(), "b was created by somebody else: w0 still manages");
    let _ = f.runs(b, items[0]);
    assert_eq!(f.nr_idle(), 0);
    let c = f.worker_new();
    let _ = f.born(c, Some(w[0]));
    assert!(!f.has_manager());
    let _ = f.runs(w[0], items[1]);
}

#[test]
fn after_a_failed_creation_the_pool_works_without_a_standby() {
    let (mut f, w) = Fixture::new(1, 1);
    let pwq = f.pwq(10);
    let items = [(); 2].map(|()| f.queue_new(pwq));
    f.manages(w[0]);
    let unborn = f.worker_new();
    f.now = 5_000;
    assert_eq!((f.create_retry_at(), f.retry(u64::MAX)), (None, Retry::Nothing));
    f.birth_fails(unborn, Some(w[0]));
    let at = 5_000 + CREATE_COOLDOWN_NS;
    assert_eq!(f.create_retry_at(), Some(at));
    assert_eq!((f.retry(at - 1), f.retry(at)), (Retry::At(at), Retry::Create));
    assert!(!f.has_manager());
    assert_eq!((f.nr_workers(), f.nr_idle()), (1, 0));

    assert_eq!(f.runs(w[0], items[0]), Kick::Watch);
    let _ = f.finish(w[0]);
    let _ = f.runs(w[0], items[1]);
    let _ = f.finish(w[0]);
    assert!(!f.sleeps(w[0]));
}

#[test]
fn a_failed_creation_is_tried_again_after_the_cooldown() {
    let (mut f, w) = Fixture::new(1, 1);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    f.manages(w[0]);
    let unborn = f.worker_new();
    f.now = 5_000;
    f.birth_fails(unborn, Some(w[0]));
    let _ = f.runs(w[0], item);
    let _ = f.finish(w[0]);
    assert!(!f.sleeps(w[0]));

    f.now = 5_000 + CREATE_COOLDOWN_NS - 1;
    let _ = f.queue(pwq, item);
    let _ = f.runs(w[0], item);
    let _ = f.finish(w[0]);
    assert!(!f.sleeps(w[0]));

    f.now += 1;
    let _ = f.queue(pwq, item);
    f.manages(w[0]);
    let born = f.worker_new();
    let _ = f.born(born, Some(w[0]));
    assert_eq!(f.create_retry_at(), None, "success ends the cooldown");
    let _ = f.runs(w[0], item);
}

#[test]
fn a_failure_is_forgotten_when_a_worker_stands_by_at_the_next_attempt() {
    let (mut f, w) = Fixture::new(1, 1);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    f.manages(w[0]);
    let unborn = f.worker_new();
    f.birth_fails(unborn, Some(w[0]));
    let at = f.now + CREATE_COOLDOWN_NS;
    let _ = f.runs(w[0], item);
    let _ = f.finish(w[0]);
    assert!(!f.sleeps(w[0]));
    assert_eq!((f.retry(at - 1), f.create_retry_at()), (Retry::At(at), Some(at)));
    assert_eq!((f.retry(at), f.create_retry_at()), (Retry::Nothing, None));
}

#[test]
fn a_failed_first_creation_is_asked_for_again() {
    let (mut f, _) = Fixture::new(1, 0);
    let pwq = f.pwq(10);
    let (first, second) = (f.item(), f.item());
    assert_eq!(f.queue(pwq, first), Kick::NeedFirst);
    let unborn = f.worker_new();
    f.birth_fails(unborn, None);
    assert_eq!(f.may_create(Creator::First, false, 0), Create::Now);
    assert_eq!(f.queue(pwq, second), Kick::NeedFirst);
}

#[test]
fn blocking_lets_another_worker_start() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    let (first, second) = (f.queue_new(pwq), f.queue_new(pwq));
    let _ = f.runs(b, first);
    assert_eq!(f.blocks(b), Kick::Wake(a));
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").cm_wakeup, 1);
    assert_eq!(f.nr_running(), 0);
    // The last idle worker first makes another.
    f.manages(a);
    let c = f.worker_new();
    let _ = f.born(c, Some(a));
    let _ = f.runs(a, second);
    assert_eq!(f.nr_running(), 1);

    f.resumes(b);
    assert_eq!(f.nr_running(), 2, "both run until one is done");
    let third = f.item();
    assert_eq!(f.queue(pwq, third), Kick::Watch);
    let _ = f.finish(b);
    assert!(f.sleeps(b), "one too many: it does not take the third");
    let _ = f.finish(a);
    let _ = f.runs(a, third);
}

#[test]
fn blocking_with_nothing_to_do_wakes_nobody() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    let _ = f.runs(b, item);
    assert_eq!(f.blocks(b), Kick::None);
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").cm_wakeup, 0);
    let later = f.item();
    assert_eq!(f.queue(pwq, later), Kick::Wake(a), "but the next item starts at once");
}

#[test]
fn a_second_report_changes_nothing() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    let _ = f.runs(b, item);
    let _ = f.blocks(b);
    assert_eq!(f.blocks(b), Kick::None);
    assert_eq!(f.nr_running(), 0);
    f.resumes(b);
    f.resumes(b);
    assert_eq!(f.nr_running(), 1);
}

#[test]
fn resuming_without_having_blocked_changes_nothing() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    let _ = f.runs(b, item);
    f.resumes(b);
    f.resumes(a);
    assert_eq!(f.nr_running(), 1);
}

#[test]
fn reports_about_an_earlier_run_are_ignored() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let (first, second) = (f.queue_new(pwq), f.queue_new(pwq));
    let _ = f.runs(b, first);
    let old = f.seq(b);
    let _ = f.finish(b);
    let _ = f.runs(b, second);
    let _ = f.queue(pwq, first);
    assert_eq!(f.worker_blocked(b, old), Kick::None);
    assert_eq!(f.nr_running(), 1);
    let _ = f.blocks(b);
    assert_eq!(f.worker_resumed(b, old), Kick::None);
    f.check();
    assert_eq!(f.nr_running(), 0, "it is this run that blocks");
}

#[test]
fn reports_about_workers_that_do_not_run_are_ignored() {
    let (mut f, _, [a, _]) = Fixture::per_cpu();
    assert_eq!(f.blocks(a), Kick::None, "idle");
    assert_eq!(f.worker_blocked(WorkerId(99), 0), Kick::None, "unknown");
    assert_eq!(f.worker_resumed(WorkerId(99), 0), Kick::None);
    assert!(!f.worker_view(a).expect("the worker").sleeping);
    f.check();
}

#[test]
fn finishing_corrects_the_books() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let (first, second) = (f.queue_new(pwq), f.queue_new(pwq));
    let _ = f.runs(b, first);
    let _ = f.blocks(b);
    let _ = f.finish(b);
    assert_eq!(f.nr_running(), 1, "whoever returns from a function is running");
    let _ = f.runs(b, second);
    assert_eq!(f.nr_running(), 1);
}

#[test]
fn a_report_between_two_runs_does_not_outlast_them() {
    // The report names the run that has just ended, and arrives before the worker asks for the
    // next.
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let (first, second) = (f.queue_new(pwq), f.queue_new(pwq));
    let _ = f.runs(b, first);
    let _ = f.finish(b);
    let _ = f.blocks(b);
    let _ = f.runs(b, second);
    assert_eq!(f.nr_running(), 1, "b asked for work, so it is running");
    let _ = f.finish(b);
    let _ = f.blocks(b);
    assert!(!f.sleeps(b));
    assert!(!f.worker_view(b).expect("the worker").sleeping);
}

#[test]
fn cpu_intensive_items_do_not_count() {
    let (mut f, w) = Fixture::new(1, 4);
    let mut config = pwq_config(2, 10);
    config.cpu_intensive = true;
    let hogs = f.add_pwq(config);
    let pwq = f.pwq(10);
    let (hog, usual) = (f.queue_new(hogs), f.queue_new(pwq));
    assert_eq!(f.runs(w[3], hog), Kick::Wake(w[2]), "as if nobody ran");
    assert_eq!(f.nr_running(), 0);
    let _ = f.runs(w[2], usual);
    assert_eq!(f.nr_running(), 1);
    // A report about a worker that is not counted must not be subtracted.
    let _ = f.blocks(w[3]);
    assert_eq!(f.nr_running(), 1);
    f.resumes(w[3]);
    assert_eq!(f.nr_running(), 1);
    let _ = f.finish(w[3]);
    assert_eq!(f.nr_running(), 2, "between items it counts again");
    assert!(!f.sleeps(w[3]));
    assert_eq!(f.nr_running(), 1);
}
