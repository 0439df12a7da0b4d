//! Flushing against queueing, and against other flushes.

use shuttle::thread;

use super::{Count, Pods, World, check};
use crate::api::work::Work;
use crate::api::workqueue::Workqueue;
use crate::os::sync::Arc;

/// Queues `n` items that count, and flushes: those have run.
fn queue_and_flush(wq: &Workqueue, n: u32) {
    let count = Arc::new(Count::default());
    for cpu in 0..n {
        let count = Arc::clone(&count);
        drop(wq.queue_on(cpu % 2, move || count.up()));
    }
    wq.flush();
    assert_eq!(count.get(), n, "a flush returned too soon");
}

fn flushers(world: &World, threads: usize) {
    let wq = world.percpu();
    let others: Vec<_> = (0..threads)
        .map(|_| {
            let wq = wq.clone();
            thread::spawn(move || queue_and_flush(&wq, 2))
        })
        .collect();
    queue_and_flush(&wq, 2);
    for other in others {
        other.join().unwrap();
    }
}

/// On two pools.
#[test]
fn a_flush_waits_for_what_was_queued_before() {
    check(Pods::One, |world| flushers(world, 0));
}

#[test]
fn two_flushes_at_once() {
    check(Pods::One, |world| flushers(world, 1));
}

#[test]
fn three_flushes_at_once() {
    check(Pods::One, |world| flushers(world, 2));
}

/// Flushes that are awaited, and one that nobody wants any more, beside one that waits.
#[test]
fn flushes_without_threads() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let other = thread::spawn({
            let wq = wq.clone();
            move || {
                let count = Arc::new(Count::default());
                let theirs = Arc::clone(&count);
                drop(wq.queue(move || theirs.up()));
                let forgotten = wq.flush_async();
                let flush = wq.flush_async();
                drop(forgotten);
                flush.wait();
                assert_eq!(count.get(), 1, "a flush was over too soon");
            }
        });
        queue_and_flush(&wq, 1);
        other.join().unwrap();
    });
}

/// A flush that ends although there is always something new.
#[test]
fn a_flush_does_not_wait_for_what_comes_later() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let queuer = {
            let wq = wq.clone();
            thread::spawn(move || {
                for _ in 0..4 {
                    drop(wq.queue(|| ()));
                }
            })
        };
        queue_and_flush(&wq, 1);
        queuer.join().unwrap();
    });
}

/// An item flushes another queue, whose items need the worker that it blocks.
#[test]
fn an_item_flushes_another_queue() {
    check(Pods::One, |world| {
        let (wq, inner) = (world.percpu(), world.percpu());
        let flushing = {
            let inner = inner.clone();
            wq.queue_on(0, move || {
                let count = Arc::new(Count::default());
                let theirs = Arc::clone(&count);
                drop(inner.queue_on(0, move || theirs.up()));
                inner.flush();
                assert_eq!(count.get(), 1);
            })
        };
        drop(inner.queue_on(0, || ()));
        flushing.join().unwrap();
    });
}

/// A flush of an item waits for its last queueing, pending or running.
#[test]
fn a_flush_of_an_item_waits_for_its_run() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let count = Arc::new(Count::default());
        let work = Work::new({
            let count = Arc::clone(&count);
            move || _ = count.up()
        });
        let queuer = {
            let (wq, work, count) = (wq.clone(), work.clone(), Arc::clone(&count));
            thread::spawn(move || {
                wq.queue_work(&work);
                let before = count.get();
                work.flush();
                assert!(count.get() > 0, "flushed before any run, with {before}");
            })
        };
        let queued = wq.queue_work(&work);
        work.flush();
        assert!(!queued || count.get() > 0);
        queuer.join().unwrap();
    });
}
