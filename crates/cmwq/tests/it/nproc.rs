//! Threads that cannot be had, in the middle of everything: nothing is lost, nothing aborts, and
//! when they can be had again the pools grow again.
//!
//! The limit is on the threads of a user, so every scene has a user of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::sysfs::{self, Attribute};
use cmwq::{ErrorKind, Work, Workqueue};

use crate::bh::bh;
use crate::support::load::burn;
use crate::support::scene::{Scene, Stage};
use crate::support::wait::Opened;
use crate::support::{Gate, Peak, eventually, joined, managed, percpu, procfs, sys, unbound};

pub(crate) const SCENES: &[Scene] = &[
    ("nproc::while_items_block", while_items_block),
    ("nproc::first_worker", first_worker),
    ("nproc::idle_elsewhere", idle_elsewhere),
    ("nproc::last_elsewhere", last_elsewhere),
    ("nproc::standby", standby),
    ("nproc::sentinel", sentinel),
    ("nproc::service", service),
    ("nproc::disabled", disabled),
    ("nproc::rescuer_in_a_child", rescuer_in_a_child),
];

/// Users that nobody is, far from any that a system gives away. `n` is below 32.
pub(crate) fn user(n: u32) -> u32 {
    0x6000_0000 + std::process::id() * 32 % 0x0f00_0000 + n
}

#[test]
fn no_thread_while_items_block() {
    for source in ["sentinel", "tick", "perf"] {
        Stage::new("nproc::while_items_block").detect(source).user(user(0)).play();
    }
}

#[test]
fn no_thread_for_the_first_worker() {
    Stage::new("nproc::first_worker").user(user(1)).play();
}

#[test]
fn idle_workers_of_other_pools_give_their_threads() {
    Stage::new("nproc::idle_elsewhere").user(user(6)).play();
}

#[test]
fn pools_with_nothing_to_do_give_their_last_thread_to_those_without_any() {
    Stage::new("nproc::last_elsewhere").user(user(8)).play();
}

#[test]
fn no_thread_for_a_standby() {
    Stage::new("nproc::standby").user(user(2)).play();
}

#[test]
fn no_thread_for_a_sentinel() {
    Stage::new("nproc::sentinel").detect("sentinel").user(user(9)).play();
}

#[test]
fn no_thread_for_the_service() {
    Stage::new("nproc::service").user(user(3)).play();
}

#[test]
fn no_thread_while_an_item_is_disabled() {
    Stage::new("nproc::disabled").user(user(10)).play();
}

#[test]
fn no_thread_for_the_rescuer_in_a_child() {
    Stage::new("nproc::rescuer_in_a_child").user(user(7)).play();
}

/// From now on this user can have no more threads; returns the limit there was.
pub(crate) fn no_more_threads() -> u64 {
    let threads = procfs::nr_threads() as u64;
    let before = sys::set_limit(sys::Limit::Threads, threads).unwrap();
    let refused = thread::Builder::new().spawn(|| ()).is_err();
    assert!(refused, "the limit of {threads} threads is not kept");
    before
}

pub(crate) fn more_threads(limit: u64) {
    sys::set_limit(sys::Limit::Threads, limit).unwrap();
}

fn notices_about_creation() -> usize {
    cmwq::notices().iter().filter(|text| text.contains("a worker could not be created")).count()
}

/// So many items of a queue wait for each other, so all must have a worker at once.
fn all_at_once(wq: &Workqueue, cpu: u32, number: usize) {
    let (inside, all) = (Arc::new(Peak::new()), Gate::new());
    let handles: Vec<_> = (0..number)
        .map(|_| {
            let (inside, all) = (Arc::clone(&inside), all.clone());
            wq.queue_on(cpu, move || {
                let _inside = inside.enter();
                if inside.now() == number {
                    all.open();
                }
                all.pass();
            })
        })
        .collect();
    handles.into_iter().for_each(joined);
    assert_eq!(inside.most(), number);
}

fn while_items_block() {
    let queues = [managed("limited"), percpu("limited")];
    for wq in &queues {
        all_at_once(wq, 0, 3);
    }
    let limit = no_more_threads();
    let done = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..200)
        .map(|i| {
            let done = Arc::clone(&done);
            queues[i % 2].queue_on(0, move || {
                thread::sleep(Duration::from_millis(3));
                done.fetch_add(1, Ordering::SeqCst);
                i
            })
        })
        .collect();
    for (i, handle) in handles.into_iter().enumerate() {
        assert_eq!(joined(handle), i, "it goes on with the workers there are");
    }
    assert_eq!(done.load(Ordering::SeqCst), 200);
    assert_eq!(notices_about_creation(), 1);
    more_threads(limit);
    for wq in &queues {
        all_at_once(wq, 0, 30);
    }
    assert_eq!(notices_about_creation(), 1, "said once");
}

fn first_worker() {
    // The service thread exists, but no pool has a worker.
    let wq = managed("first");
    let limit = no_more_threads();
    let handles: Vec<_> = (0..10).map(|i| wq.queue(move || i)).collect();
    eventually("the notice", || notices_about_creation() == 1);
    assert!(handles.iter().all(|handle| !handle.is_finished()));
    more_threads(limit);
    for (i, handle) in handles.into_iter().enumerate() {
        assert_eq!(joined(handle), i);
    }
    assert_eq!(notices_about_creation(), 1);
}

/// One pool has all threads that there may be, and uses none of them: others get some.
fn idle_elsewhere() {
    others_get_threads_of(8);
}

/// They are not enough for all others: those that have none of their own get the last one of some.
fn last_elsewhere() {
    others_get_threads_of(1);
}

fn others_get_threads_of(number: usize) {
    // It is to take none of them.
    cmwq::watchdog::set_thresh(Duration::ZERO).unwrap();
    all_at_once(&percpu("idle"), 0, number);
    let limit = no_more_threads();
    for kind in [bh("needs"), unbound("needs"), managed("needs")] {
        assert_eq!(joined(kind.queue(|| 1)), 1);
    }
    more_threads(limit);
}

/// The last worker begins to run without a standby. When it blocks, much later, threads can be had
/// again, and only a new one can run the item that all others wait for.
fn standby() {
    let wq = percpu("standby");
    joined(wq.queue_on(0, || ()));
    let limit = no_more_threads();
    let (burnt, last) = (Gate::new(), Gate::new());
    let _opened = Opened(&last);
    let waiter = || {
        let last = last.clone();
        move || last.pass()
    };
    // All workers but one wait, and that one computes for longer than the pause after a failed
    // creation.
    let workers = procfs::workers("kworker/").len();
    let mut handles: Vec<_> = (1..workers).map(|_| wq.queue_on(0, waiter())).collect();
    handles.push(wq.queue_on(0, {
        let (burnt, wait) = (burnt.clone(), waiter());
        move || {
            burn(Duration::from_millis(1_500));
            burnt.open();
            wait();
        }
    }));
    handles.push(wq.queue_on(0, {
        let last = last.clone();
        move || last.open()
    }));
    burnt.pass();
    assert_eq!(notices_about_creation(), 1);
    more_threads(limit);
    handles.into_iter().for_each(joined);
}

/// The first work that has to wait comes while there is no thread for the sentinel. It comes when
/// there is one.
fn sentinel() {
    let wq = percpu("sentinel");
    let cpu = sys::allowed_cpus()[0];
    // There are a worker and a standby, and nothing had to wait.
    joined(wq.queue_on(cpu, || ()));
    let has_sentinel =
        || procfs::other_tasks().iter().any(|task| task.name == format!("cmwq/idle:{cpu}"));
    // One computes for longer than until the first tick, and another waits behind it.
    let backlog = || {
        let items = [5, 0].map(|ms| wq.queue_on(cpu, move || burn(Duration::from_millis(ms))));
        items.into_iter().for_each(joined);
    };
    let is_told =
        || cmwq::notices().iter().any(|text| text.contains("no thread for an idle-class sentinel"));
    let limit = no_more_threads();
    eventually("the notice", || {
        backlog();
        is_told()
    });
    assert!(!has_sentinel());
    more_threads(limit);
    eventually("the sentinel", || {
        backlog();
        has_sentinel()
    });
}

fn service() {
    let limit = no_more_threads();
    let fail = || {
        let error = Workqueue::new("no service").expect_err("there is no thread for it");
        assert_eq!(error.kind(), ErrorKind::ThreadCreation);
    };
    (0..50).for_each(|_| fail());
    let before = procfs::resident_bytes();
    (0..500).for_each(|_| fail());
    let grown = procfs::resident_bytes().saturating_sub(before);
    assert!(grown < 1 << 20, "500 attempts have left {grown} bytes");
    more_threads(limit);
    assert_eq!(joined(managed("service").queue(|| 1)), 1);
}

/// An attempt to make the queue anew that fails leaves none behind, which would have its name.
fn rescuer_in_a_child() {
    let wq = Workqueue::builder("rescued").unbound().mem_reclaim().sysfs().build().unwrap();
    let status = sys::fork(|| {
        joined(managed("own").queue(|| ()));
        let limit = no_more_threads();
        for _ in 0..3 {
            let has_panicked = catch_unwind(AssertUnwindSafe(|| wq.queue(|| ()))).is_err();
            assert!(has_panicked, "there is no thread for its rescuer");
        }
        assert!(sysfs::find("rescued").is_none(), "nothing is left of the attempts");
        more_threads(limit);
        assert_eq!(joined(wq.queue(|| 1)), 1);
        let found = sysfs::find("rescued").expect("it is registered, as the parent's is");
        found.store(Attribute::MaxActive, "5").unwrap();
        assert_eq!(wq.max_active(), 5, "it is this one");
    });
    assert_eq!(status, 0);
}

/// What is done with items before anything was queued needs no thread, and stays done.
fn disabled() {
    let limit = no_more_threads();
    let before = procfs::nr_threads();
    let runs = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&runs);
    let work = Work::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    assert!(!work.disable() && !work.disable_sync(), "it was not pending");
    assert!(!work.cancel() && !work.cancel_sync() && !work.flush() && work.busy().is_idle());
    more_threads(limit);
    assert!(!work.enable(), "it was disabled twice");
    assert_eq!(procfs::nr_threads(), before, "nothing was started");
    let wq = managed("disabled");
    assert!(!wq.queue_work(&work), "it is disabled");
    assert!(work.enable() && wq.queue_work(&work));
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
