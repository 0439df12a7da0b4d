//! `Workqueue::run`: by the thread that waits, where that cannot be told apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use cmwq::{Work, Workqueue};

use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Opened, within};
use crate::support::{Gate, eventually, joined, managed, occupy, percpu, sys, unbound};

pub(crate) const SCENES: &[Scene] =
    &[("run_here::forks", forks), ("run_here::frozen", frozen), ("run_here::nested", nested)];

fn runs_here(wq: &Workqueue) -> bool {
    wq.run(sys::gettid).unwrap() == sys::gettid()
}

/// Not while an item of another test waits in the pool, which they share. Returns after how many
/// calls.
#[track_caller]
fn may_run_here(wq: &Workqueue) -> u64 {
    let mut calls = 0;
    eventually("nobody else waits", || {
        calls += 1;
        runs_here(wq)
    });
    calls
}

#[test]
fn a_function_runs_on_the_thread_that_waits_and_is_counted() {
    let wq = managed("here");
    let (words, mut length) = ([String::from("to"), String::from("be")], 0);
    let text = wq.run(|| {
        length = words.len();
        words.concat()
    });
    assert_eq!((text.unwrap().as_str(), length), ("tobe", 2));
    let calls = 1 + may_run_here(&wq);
    eventually("all are counted", || {
        let stats = wq.stats();
        (stats.started, stats.completed, stats.queued) == (calls, calls, 0)
    });
}

/// A place, an order or attributes are promised there; and a worker is replaced while it waits.
#[test]
fn elsewhere_a_worker_runs_it() {
    let bounded = Workqueue::builder("worker").managed();
    let others = [
        percpu("worker"),
        unbound("worker"),
        Workqueue::builder("worker").ordered().build().unwrap(),
        Workqueue::builder("worker").managed().nice(sys::nicer(5)).build().unwrap(),
        Workqueue::builder("worker").managed().cpu_intensive().build().unwrap(),
        Workqueue::builder("worker").managed().mem_reclaim().build().unwrap(),
    ];
    for wq in others {
        assert!(!runs_here(&wq), "{wq:?}");
    }
    let wq = bounded.build().unwrap();
    let inner = wq.clone();
    assert!(!joined(wq.queue(move || runs_here(&inner))));
    // But in what runs here, too: no worker is blocked by that.
    eventually("nobody else waits", || wq.run(|| runs_here(&wq)).unwrap());
}

#[test]
fn a_panic_is_the_callers() {
    let wq = managed("here");
    let error = wq.run(|| panic!("no")).unwrap_err();
    assert!(error.is_panic());
    assert_eq!(error.message(), Some("no"));
    let calls = 1 + may_run_here(&wq);
    eventually("all are counted", || wq.stats().completed == calls);
}

/// Both ways: one that runs here holds the only slot, and one that a worker runs.
#[test]
fn limits_hold() {
    let wq = Workqueue::builder("one").managed().max_active(1).build().unwrap();
    // And all who are started here: on each node one may run.
    sys::confine(0, &sys::allowed_cpus()[..1]).unwrap();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let first = occupy(&wq, &gate);
    thread::scope(|s| {
        let second = s.spawn(|| wq.run(|| gate.is_open()));
        eventually("it waits for the slot", || wq.stats().waiting_for_limit == 1);
        assert!(!second.is_finished());
        gate.open();
        assert!(second.join().unwrap().unwrap(), "it ran beside another one");
    });
    joined(first);

    let (entered, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = Work::new(move || _ = theirs.fetch_add(1, Ordering::SeqCst));
    thread::scope(|s| {
        s.spawn(|| {
            wq.run(|| {
                entered.open();
                gate.pass();
                runs.load(Ordering::SeqCst)
            })
        });
        entered.pass();
        assert!(wq.queue_work(&work));
        eventually("it waits for the slot", || wq.stats().waiting_for_limit == 1);
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        gate.open();
    });
    wq.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Behind one that runs here a flush waits, and a drain lets what it queues in.
#[test]
fn flushes_and_drains_include_it() {
    let wq = managed("here");
    let (entered, gate, has_run) = (Gate::new(), Gate::new(), AtomicBool::new(false));
    let _opened = Opened(&gate);
    thread::scope(|s| {
        s.spawn(|| {
            wq.run(|| {
                entered.open();
                gate.pass();
                // The drain has begun, and takes what items of the queue queue.
                assert!(wq.queue(|| ()).join().is_ok(), "it is no chained item");
                has_run.store(true, Ordering::SeqCst);
            })
            .unwrap();
        });
        entered.pass();
        let flusher = s.spawn(|| {
            wq.flush();
            has_run.load(Ordering::SeqCst)
        });
        let drainer = s.spawn(|| {
            wq.drain();
            has_run.load(Ordering::SeqCst)
        });
        eventually("the drain refuses others", || {
            wq.queue(|| ()).join().is_err_and(|error| error.is_refused())
        });
        assert!(wq.run(|| ()).is_err_and(|error| error.is_refused()));
        gate.open();
        assert!(flusher.join().unwrap() && drainer.join().unwrap());
    });
    may_run_here(&wq);
}

#[test]
fn its_child_goes_on_and_the_books_are_the_parents() {
    Stage::new("run_here::forks").play();
}

fn forks() {
    let wq = managed("here");
    let child = wq.run(sys::split).unwrap();
    match child {
        None => sys::leave(runs_here(&wq) && joined(wq.queue(|| true))),
        Some(child) => assert_eq!(sys::end_of(child), 0),
    }
    assert_eq!(wq.stats().completed, 1);
    assert!(runs_here(&wq));
}

#[test]
fn a_function_within_another_does_not_wait_for_either() {
    Stage::new("run_here::nested").play();
}

/// Both run on one stack, each as its queue's item.
fn nested() {
    within("it", || {
        let (outer, inner) = (managed("outer"), managed("inner"));
        for wq in [&outer, &inner] {
            may_run_here(wq);
        }
        let waits = || {
            for wq in [&outer, &inner] {
                wq.flush();
                wq.drain();
                wq.flush_async().wait();
            }
        };
        outer.run(|| inner.run(waits).unwrap()).unwrap();
        // That one's item is over, and can be waited for.
        outer.run(|| inner.flush()).unwrap();
    });
    let said = |name: &str| {
        let from_inside = format!("'{name}' is flushed from inside one of its own items");
        cmwq::notices().iter().any(|text| text.contains(&from_inside))
    };
    assert!(said("outer") && said("inner"));
}

#[test]
fn a_frozen_queue_runs_nothing() {
    Stage::new("run_here::frozen").play();
}

fn frozen() {
    let wq = Workqueue::builder("cold").managed().freezable().build().unwrap();
    cmwq::freeze();
    thread::scope(|s| {
        let call = s.spawn(|| runs_here(&wq));
        eventually("it waits", || wq.stats().waiting_for_limit == 1);
        assert!(!call.is_finished());
        cmwq::thaw();
        assert!(!call.join().unwrap(), "a worker runs it");
    });
    assert!(runs_here(&wq));
}
