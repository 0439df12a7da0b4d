//! Draining and destroying against queueing; freezing against flushing and queueing.

use std::time::Duration;

use shuttle::thread;

use super::{Count, Pods, check, counter, counting};
use crate::api::builder::Builder;
use crate::api::work::{DelayedWork, Work};
use crate::api::workqueue::Workqueue;
use crate::engine::process::freezing::{freeze, freeze_busy, thaw};
use crate::os::sync::Arc;

/// What is queued while a queue is drained is in or out; a drained queue is empty.
#[test]
fn drain_against_queue() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let (work, count) = counting();
        assert!(wq.queue_work_on(0, &work));
        let queuer = {
            let wq = wq.clone();
            thread::spawn(move || wq.queue_on(1, || ()).join().is_err_and(|e| e.is_refused()))
        };
        wq.drain();
        assert_eq!(count.get(), 1);
        queuer.join().unwrap();
        assert!(wq.queue_work(&work), "open again");
        wq.flush();
        assert_eq!(count.get(), 2);
    });
}

/// A function that is run while the queue is drained has run when its caller comes back, which it
/// does, or is refused. With a niceness a worker runs it.
#[test]
fn drain_against_run() {
    for nice in [0, 5] {
        check(Pods::One, move |world| {
            let wq = world.queue(|builder| builder.managed().nice(nice));
            let count = Arc::new(Count::default());
            let caller = {
                let (wq, count) = (wq.clone(), Arc::clone(&count));
                thread::spawn(move || match wq.run(|| count.up()) {
                    Ok(_) => assert_eq!(count.get(), 1),
                    Err(error) => assert!(error.is_refused() && count.get() == 0),
                })
            };
            wq.drain();
            caller.join().unwrap();
        });
    }
}

/// Chained items, from both CPUs, while two drain.
#[test]
fn two_drain_a_chain() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let (work, count) = counting();
        let (queue, next) = (wq.clone(), work.clone());
        drop(wq.queue(move || queue.queue_work(&next)));
        let other = {
            let wq = wq.clone();
            thread::spawn(move || wq.drain())
        };
        wq.drain();
        assert_eq!(count.get(), 1);
        other.join().unwrap();
    });
}

/// Items that queue each other from one pool to the other and back: each of the queue's pwqs is
/// idle at times, and the queue never.
#[test]
fn drain_a_chain_over_two_pools() {
    for kind in [Builder::percpu, Builder::managed, Builder::unbound] {
        check(Pods::Two, move |world| {
            let wq = world.queue(kind);
            let (last, count) = counting();
            let (there, back) = (wq.clone(), wq.clone());
            drop(wq.queue_on(0, move || {
                drop(there.queue_on(1, move || assert!(back.queue_work_on(0, &last))));
            }));
            wq.drain();
            assert_eq!(count.get(), 1);
        });
    }
}

/// The last handle but an item's own goes while that item queues another one, which runs.
#[test]
fn destroy_against_queue() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let (work, count) = counting();
        let (queue, next) = (wq.clone(), work.clone());
        let chained = wq.queue(move || {
            let queued = queue.queue_work(&next);
            drop(queue);
            queued
        });
        drop(wq);
        assert!(chained.join().unwrap());
        work.flush();
        assert_eq!(count.get(), 1);
    });
}

/// A timer that expires while the queue is drained.
#[test]
fn drain_against_a_timer() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let (up, count) = counter();
        let work = DelayedWork::new(up);
        assert!(wq.queue_delayed_work(&work, Duration::from_millis(1)));
        let drainer = {
            let wq = wq.clone();
            thread::spawn(move || wq.drain())
        };
        let cancelled = u32::from(work.cancel_sync());
        drainer.join().unwrap();
        assert!(count.get() + cancelled <= 1);
        assert!(wq.queue_delayed_work(&work, Duration::ZERO), "sound");
        work.flush();
    });
}

fn freezable(wq: &Workqueue, work: &Work) {
    assert!(wq.queue_work(work));
}

/// A flush that began before, while or after the queue was frozen returns when it is thawed.
#[test]
fn freeze_against_flush() {
    check(Pods::One, |world| {
        for shared in [false, true] {
            let wq = world.queue(|b| if shared { b.unbound() } else { b.percpu() }.freezable());
            let (work, count) = counting();
            let flusher = {
                let (wq, work) = (wq.clone(), work.clone());
                thread::spawn(move || {
                    freezable(&wq, &work);
                    wq.flush();
                })
            };
            freeze();
            while freeze_busy() {
                thread::yield_now();
            }
            let before = count.get();
            thread::yield_now();
            assert_eq!(count.get(), before, "something started in the frost");
            thaw();
            flusher.join().unwrap();
            assert_eq!(count.get(), 1);
        }
    });
}

/// A limit that is raised and lowered while items wait behind it, on two pods of a node.
#[test]
fn set_max_active_against_queue() {
    check(Pods::Two, |world| {
        let wq = world.queue(|builder| builder.managed().max_active(1));
        let counts = Arc::new(Count::default());
        let queuer = {
            let (wq, counts) = (wq.clone(), Arc::clone(&counts));
            thread::spawn(move || {
                for cpu in [0, 1, 0, 1] {
                    let counts = Arc::clone(&counts);
                    drop(wq.queue_on(cpu, move || {
                        thread::yield_now();
                        counts.up();
                    }));
                }
            })
        };
        for max_active in [3, 1, 2] {
            wq.set_max_active(max_active).unwrap();
        }
        queuer.join().unwrap();
        wq.flush();
        assert_eq!(counts.get(), 4);
    });
}
