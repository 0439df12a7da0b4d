//! Queueing against workers that go to sleep, and against each other.

use shuttle::thread;

use super::{Count, Pods, check};
use crate::current::blocking;
use crate::park::Event;
use crate::sync::{Arc, Mutex, lock};
use crate::work::Work;

/// Two threads queue while workers finish and go to sleep: no item is left while a worker sleeps,
/// or the join would never end.
#[test]
fn no_item_is_left_while_a_worker_sleeps() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let other = {
            let wq = wq.clone();
            thread::spawn(move || {
                for n in 0..2 {
                    assert_eq!(wq.queue_on(0, move || n).join().unwrap(), n);
                }
            })
        };
        for n in 0..2 {
            assert_eq!(wq.queue_on(0, move || n).join().unwrap(), n);
        }
        other.join().unwrap();
    });
}

/// Without anybody who waits for them in between: all run, once each.
#[test]
fn many_items_run_once_each() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let count = Arc::new(Count::default());
        let queuers: Vec<_> = (0..2)
            .map(|_| {
                let (wq, count) = (wq.clone(), Arc::clone(&count));
                thread::spawn(move || {
                    for _ in 0..3 {
                        let count = Arc::clone(&count);
                        drop(wq.queue(move || count.up()));
                    }
                })
            })
            .collect();
        for queuer in queuers {
            queuer.join().unwrap();
        }
        wq.flush();
        assert_eq!(count.get(), 6);
    });
}

/// One CPU is kept busy by an item that waits for the ones behind it: they can only run because it
/// says so.
///
/// The pool is at capacity and watched, so that those behind it go through the inbox, without the
/// lock, at the moment in which saying so ends the saturation.
#[test]
fn an_item_that_blocks_is_replaced() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let running = Arc::new(Event::new());
        let let_go = Arc::new(Event::new());
        let first = {
            let (running, let_go) = (Arc::clone(&running), Arc::clone(&let_go));
            wq.queue_on(0, move || {
                running.set();
                blocking(|| let_go.wait(None));
            })
        };
        running.wait(None);
        let other = {
            let wq = wq.clone();
            thread::spawn(move || wq.queue_on(0, || 1).join().unwrap())
        };
        let second = wq.queue_on(0, || 2);
        let third = wq.queue_on(0, move || let_go.set());
        third.join().unwrap();
        assert_eq!(second.join().unwrap() + other.join().unwrap(), 3);
        first.join().unwrap();
    });
}

/// Items of an ordered queue run one at a time, in order, whoever runs them.
#[test]
fn an_ordered_queue_keeps_order() {
    check(Pods::One, |world| {
        let wq = world.queue(crate::workqueue::Builder::ordered);
        let order = Arc::new(Mutex::new(Vec::new()));
        for n in 0..4 {
            let order = Arc::clone(&order);
            drop(wq.queue(move || {
                blocking(|| thread::yield_now());
                lock(&order).push(n);
            }));
        }
        wq.flush();
        assert_eq!(*lock(&order), [0, 1, 2, 3]);
    });
}

/// What is written before a refused queueing is seen by a run: each call has a run that begins
/// after it.
#[test]
fn a_work_runs_after_each_queueing() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let told = Arc::new(Mutex::new(0u32));
        let seen = Arc::new(Mutex::new(0u32));
        let running = Arc::new(Count::default());
        let work = Work::new({
            let (told, seen, running) =
                (Arc::clone(&told), Arc::clone(&seen), Arc::clone(&running));
            move || {
                assert_eq!(running.up(), 1, "the function runs twice at once");
                let told = *lock(&told);
                let mut seen = lock(&seen);
                *seen = told.max(*seen);
                drop(seen);
                running.0.fetch_sub(1, crate::sync::Ordering::Relaxed);
            }
        });
        let queuers: Vec<_> = (0..2)
            .map(|_| {
                let (wq, work, told) = (wq.clone(), work.clone(), Arc::clone(&told));
                thread::spawn(move || {
                    for _ in 0..2 {
                        *lock(&told) += 1;
                        wq.queue_work(&work);
                    }
                })
            })
            .collect();
        for queuer in queuers {
            queuer.join().unwrap();
        }
        work.flush();
        assert_eq!(*lock(&seen), 4);
    });
}
