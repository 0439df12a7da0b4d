//! Backlogs: how much waits, how much may, and for how long it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::{Refused, Work, Workqueue};

use crate::support::wait::Opened;
use crate::support::{Gate, eventually, every_kind, joined, occupy, sys, within};

#[test]
fn a_full_queue_gives_the_closure_back() {
    let wq = Workqueue::builder("full").ordered().max_queued(2).build().unwrap();
    assert_eq!(wq.max_queued(), Some(2));
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let first = occupy(&wq, &gate);
    let waiting = [1, 2].map(|n| wq.try_queue(move || n).expect("there is room"));
    let text = String::from("given back");
    let error = wq.try_queue(move || text).expect_err("two wait");
    assert!(error.is_full() && !error.is_closed());
    assert_eq!(error.why(), Refused::Full);
    assert_eq!(error.into_inner()(), "given back");
    // Whoever must not be refused is not, and counts.
    let third = wq.queue(|| 3);
    let [one, two] = waiting;
    assert!(one.cancel().is_none());
    assert!(wq.try_queue(|| ()).expect_err("two wait").is_full());
    assert!(two.cancel().is_none());
    let last = wq.try_queue_on(sys::allowed_cpus()[0], || 4).expect("there is room");
    gate.open();
    joined(first);
    assert_eq!((joined(third), joined(last)), (3, 4));
    drop(wq.try_queue(|| ()).expect("nothing waits"));
}

/// They need no memory, and each waits once at most.
#[test]
fn reusable_items_are_taken_by_a_full_queue_and_take_no_place() {
    let wq = Workqueue::builder("items").ordered().max_queued(1).build().unwrap();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let first = occupy(&wq, &gate);
    let runs = Arc::new(AtomicU32::new(0));
    let works = [(); 3].map(|()| {
        let runs = Arc::clone(&runs);
        Work::new(move || _ = runs.fetch_add(1, Ordering::SeqCst))
    });
    assert!(works.iter().all(|work| wq.queue_work(work)));
    let only = wq.try_queue(|| 1).expect("no closure waits");
    assert!(wq.try_queue(|| 2).expect_err("one closure waits").is_full());
    assert!(works.iter().all(|work| work.cancel() && wq.queue_work(work)), "though it is full");
    assert_eq!(wq.stats().queued, 4);
    gate.open();
    joined(first);
    assert_eq!(joined(only), 1);
    wq.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[test]
fn what_runs_does_not_count_as_waiting() {
    let wq = Workqueue::builder("one").ordered().max_queued(1).build().unwrap();
    let inner = wq.clone();
    let both = wq.try_queue(move || {
        let next = inner.try_queue(|| 1).expect("the caller runs");
        (next, inner.try_queue(|| 2).is_err())
    });
    let (next, is_full) = joined(both.unwrap());
    assert!(is_full);
    assert_eq!(joined(next), 1);
}

#[test]
fn a_queue_without_a_limit_takes_everything_and_a_closed_one_nothing() {
    for wq in every_kind("unlimited") {
        assert_eq!(wq.max_queued(), None);
        let handles: Vec<_> = (0..100).map(|n| wq.try_queue(move || n).unwrap()).collect();
        assert_eq!(handles.into_iter().map(joined).sum::<i32>(), 4950);
    }
    let wq = Workqueue::builder("closed").ordered().build().unwrap();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let first = occupy(&wq, &gate);
    let drainer = thread::spawn({
        let wq = wq.clone();
        move || wq.drain()
    });
    // What is taken until then waits behind the first.
    eventually("the drainer waits", || wq.try_queue(|| 4).is_err());
    let error = wq.try_queue(|| 5).expect_err("it is drained");
    assert_eq!(error.why(), Refused::Draining);
    assert!(!error.is_closed() && !error.is_full(), "it opens again");
    assert!(error.to_string().contains("drained"), "{error}");
    assert_eq!(error.into_inner()(), 5);
    assert_eq!(wq.queue(|| ()).join().unwrap_err().why(), Some(Refused::Draining));
    assert!(!wq.is_closed());
    gate.open();
    joined(first);
    within("drain", move || drainer.join().unwrap());
    assert_eq!(joined(wq.try_queue(|| 6).unwrap()), 6);
}

/// Queueing from several threads lets in as many as there is room for, and all places come back.
#[test]
fn many_who_try_do_not_exceed_the_limit() {
    let wq = Workqueue::builder("many").unbound().max_active(2).max_queued(8).build().unwrap();
    let tries = || {
        let wq = wq.clone();
        thread::spawn(move || {
            let accepted = (0..2_000).filter_map(|_| wq.try_queue(|| ()).ok());
            accepted.map(joined).count() as u64
        })
    };
    let accepted: u64 = [tries(), tries(), tries()].map(|t| t.join().unwrap()).iter().sum();
    wq.flush();
    assert_eq!(wq.stats().completed, accepted);
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let held: Vec<_> = (0..2).map(|_| occupy(&wq, &gate)).collect();
    let let_in: Vec<_> = (0..20).filter_map(|_| wq.try_queue(|| ()).ok()).collect();
    assert_eq!(let_in.len(), 8);
    gate.open();
    held.into_iter().chain(let_in).for_each(joined);
}

#[test]
fn what_waits_is_told() {
    let wq = Workqueue::builder("waits").ordered().build().unwrap();
    let waits = || (wq.stats().queued, wq.stats().waiting_for_limit);
    assert_eq!(waits(), (0, 0));
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let first = occupy(&wq, &gate);
    assert_eq!(waits(), (0, 0), "it runs");
    let handles: Vec<_> = (0..5).map(|_| wq.queue(|| ())).collect();
    let work = Work::new(|| ());
    assert!(wq.queue_work(&work));
    assert_eq!(waits(), (6, 6), "all behind the one that runs");
    assert!(work.cancel());
    assert_eq!(waits(), (5, 5));
    let flusher = thread::spawn({
        let wq = wq.clone();
        move || wq.flush()
    });
    gate.open();
    joined(first);
    handles.into_iter().for_each(joined);
    within("a flush", move || flusher.join().unwrap());
    assert_eq!(waits(), (0, 0));
}

/// Behind an item that computes, without a limit in the way.
#[test]
fn what_waits_for_a_cpu_does_not_wait_for_the_limit() {
    let wq = Workqueue::builder("for a CPU").percpu().build().unwrap();
    let cpu = sys::allowed_cpus()[0];
    let (begun, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let first = wq.queue_on(cpu, {
        let (begun, gate) = (begun.clone(), gate.clone());
        move || {
            begun.open();
            gate.pass();
        }
    });
    begun.pass();
    let mut asked = None;
    let handles: Vec<_> = (0..50)
        .map(|_| {
            let handle = wq.queue_on(cpu, || ());
            asked = Some(wq.stats());
            handle
        })
        .collect();
    assert_eq!(asked.unwrap().waiting_for_limit, 0);
    gate.open();
    joined(first);
    handles.into_iter().for_each(joined);
}

#[test]
fn times_are_noted_of_every_so_many_th() {
    let wq = Workqueue::builder("timed").ordered().sample_times(10).build().unwrap();
    assert_eq!((wq.stats().oldest, wq.max_queued()), (None, None));
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let first = occupy(&wq, &gate);
    assert_eq!(wq.times().unwrap().waiting.count(), 1);
    let handles: Vec<_> = (0..19).map(|_| wq.queue(|| ())).collect();
    let before = wq.stats().oldest.expect("the tenth waits");
    eventually("it waits longer", || wq.stats().oldest.unwrap() > before);
    gate.open();
    joined(first);
    handles.into_iter().for_each(joined);
    wq.flush();
    assert_eq!(wq.stats().oldest, None);
    let times = wq.times().unwrap();
    assert_eq!((times.waiting.count(), times.running.count()), (2, 2));
    assert!(times.waiting.quantile(1.0).unwrap() >= before);
    assert!(times.running.quantile(1.0).unwrap() >= before, "the first was at the gate");
    assert_eq!(every_kind("untimed").map(|wq| wq.times()), [None, None, None]);
    assert!(times.waiting.quantile(0.0).unwrap() < Duration::MAX);
}
