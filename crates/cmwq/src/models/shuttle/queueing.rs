//! Queueing against workers that go to sleep, and against each other.

use shuttle::thread;

use super::{Count, Pods, check};
use crate::api::builder::Builder;
use crate::api::work::Work;
use crate::api::workqueue::Workqueue;
use crate::engine::threads::current::blocking;
use crate::os::park::Event;
use crate::os::sync::{Arc, Mutex, Ordering, lock};

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

/// One CPU is kept busy by an item that waits for one behind it, which can only run because the
/// first says so.
///
/// | item | others |
/// |---|---|
/// | runs: the pool is at capacity | |
/// | | one is queued: it waits, the pool is watched and so saturated |
/// | blocks and says so: the pool is not saturated any more | more are queued through the inbox, without the lock |
#[test]
fn what_is_queued_while_an_item_blocks_is_found() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let [running, go_on, let_go] = [(); 3].map(|()| Arc::new(Event::new()));
        let first = {
            let (running, go_on, let_go) =
                (Arc::clone(&running), Arc::clone(&go_on), Arc::clone(&let_go));
            wq.queue_on(0, move || {
                running.set();
                go_on.wait(None);
                blocking(|| let_go.wait(None));
            })
        };
        running.wait(None);
        let second = wq.queue_on(0, || 2);
        let other = {
            let wq = wq.clone();
            thread::spawn(move || {
                let third = wq.queue_on(0, || 3);
                drop(wq.queue_on(0, move || let_go.set()));
                third.join().unwrap()
            })
        };
        go_on.set();
        let fourth = wq.queue_on(0, || 4);
        assert_eq!(second.join().unwrap() + other.join().unwrap() + fourth.join().unwrap(), 9);
        first.join().unwrap();
    });
}

/// The same, but the first item ends instead of blocking: its worker finds what is in the inbox, or
/// is told.
#[test]
fn what_is_queued_while_a_worker_goes_to_sleep_is_found() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let [running, go_on] = [(); 2].map(|()| Arc::new(Event::new()));
        let first = {
            let (running, go_on) = (Arc::clone(&running), Arc::clone(&go_on));
            wq.queue_on(0, move || {
                running.set();
                go_on.wait(None);
            })
        };
        running.wait(None);
        let second = wq.queue_on(0, || 2);
        let other = {
            let wq = wq.clone();
            thread::spawn(move || wq.queue_on(0, || 3).join().unwrap())
        };
        go_on.set();
        assert_eq!(second.join().unwrap() + other.join().unwrap(), 5);
        assert_eq!(wq.queue_on(0, || 4).join().unwrap(), 4);
        first.join().unwrap();
    });
}

/// Two CPUs run two items at once: the first waits for the second without a word to anybody.
#[test]
fn as_many_items_run_as_there_are_cpus() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let let_go = Arc::new(Event::new());
        let first = {
            let let_go = Arc::clone(&let_go);
            wq.queue(move || let_go.wait(None))
        };
        drop(wq.queue(move || let_go.set()));
        assert!(first.join().unwrap());
    });
}

/// Items of an ordered queue run one at a time, in order, whoever runs them.
#[test]
fn an_ordered_queue_keeps_order() {
    check(Pods::One, |world| {
        let wq = world.queue(Builder::ordered);
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

/// Counts on, and tells how often it was told to before the last run began.
struct Told {
    told: Mutex<u32>,
    seen: Mutex<u32>,
    running: Count,
}

/// An item that looks how often it was told to run.
fn telling() -> (Work, Arc<Told>) {
    let told =
        Arc::new(Told { told: Mutex::new(0), seen: Mutex::new(0), running: Count::default() });
    let theirs = Arc::clone(&told);
    let work = Work::new(move || {
        assert_eq!(theirs.running.up(), 1, "the function runs twice at once");
        let told = *lock(&theirs.told);
        let mut seen = lock(&theirs.seen);
        *seen = told.max(*seen);
        drop(seen);
        theirs.running.0.fetch_sub(1, Ordering::Relaxed);
    });
    (work, told)
}

/// Two threads queue an item on two CPUs: it never runs twice at once, and each queueing has a run
/// that begins after it, even if it was refused because the item was pending.
fn queue_by_two(wq: &Workqueue) {
    let (work, told) = telling();
    let queuers: Vec<_> = (0..2)
        .map(|cpu| {
            let (wq, work, told) = (wq.clone(), work.clone(), Arc::clone(&told));
            thread::spawn(move || {
                for _ in 0..2 {
                    *lock(&told.told) += 1;
                    wq.queue_work_on(cpu, &work);
                }
            })
        })
        .collect();
    for queuer in queuers {
        queuer.join().unwrap();
    }
    wq.flush();
    assert_eq!(*lock(&told.seen), 4);
    assert_eq!(told.running.get(), 0, "a run did not come to its end");
}

#[test]
fn a_work_runs_after_each_queueing() {
    check(Pods::One, |world| queue_by_two(&world.managed()));
}

#[test]
fn a_work_runs_after_each_queueing_on_any_cpu() {
    check(Pods::One, |world| queue_by_two(&world.percpu()));
}

#[test]
fn a_work_runs_after_each_queueing_in_any_pod() {
    check(Pods::Two, |world| queue_by_two(&world.managed()));
}

/// A handle that is awaited, by an executor that knows nothing of this library.
#[test]
fn a_handle_can_be_awaited() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let (first, second) = (wq.queue(|| 1), wq.queue(|| 2));
        let sum = shuttle::future::block_on(async { second.await.unwrap() + first.await.unwrap() });
        assert_eq!(sum, 3);
    });
}

/// Items that queue others and wait for them, three deep, on one CPU.
#[test]
fn items_wait_for_items() {
    check(Pods::Two, |world| {
        fn deep(wq: &Workqueue, depth: u32) -> u32 {
            if depth == 0 {
                return 0;
            }
            let inner = wq.clone();
            wq.queue_on(depth % 2, move || deep(&inner, depth - 1)).join().unwrap() + 1
        }
        assert_eq!(deep(&world.managed(), 3), 3);
    });
}
