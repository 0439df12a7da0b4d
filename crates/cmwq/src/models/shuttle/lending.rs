//! Two managed pods, one of which helps the other.

use shuttle::thread;

use super::{Count, Pods, check, check_by};
use crate::api::closure::JoinHandle;
use crate::api::workqueue::Workqueue;
use crate::detect::method::Detect;
use crate::engine::threads::current::blocking;
use crate::os::park::Event;
use crate::os::sync::{Arc, AtomicBool, Ordering};

/// One pod has all the items; the other one's worker runs some of them, perhaps.
#[test]
fn an_idle_pod_helps() {
    check(Pods::Two, |world| {
        let wq = world.managed();
        let count = Arc::new(Count::default());
        // Both pods have workers.
        wq.queue_on(1, || ()).join().unwrap();
        for _ in 0..3 {
            let count = Arc::clone(&count);
            drop(wq.queue_on(0, move || {
                thread::yield_now();
                count.up()
            }));
        }
        wq.flush();
        assert_eq!(count.get(), 3);
    });
}

/// An item that runs until somebody says that the next one has begun, for which their own pod has
/// no CPU.
fn runs_until_the_next(wq: &Workqueue) -> (Arc<AtomicBool>, JoinHandle<()>) {
    let begun = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&begun);
    let first = wq.queue_on(0, move || {
        while !theirs.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    });
    (begun, first)
}

/// The other pod is made by whoever wants its help first, and several may. The first item runs
/// until the second one has begun, for which their own pod has no CPU.
fn check_where_a_pod_is_in_the_making(has_rescuer: bool) {
    check(Pods::Two, move |world| {
        let _rescued = has_rescuer.then(|| world.queue(|builder| builder.percpu().mem_reclaim()));
        let wq = world.managed();
        let (begun, first) = runs_until_the_next(&wq);
        let queuers: Vec<_> = (0..2)
            .map(|_| {
                let (wq, begun) = (wq.clone(), Arc::clone(&begun));
                thread::spawn(move || {
                    wq.queue_on(0, move || begun.store(true, Ordering::SeqCst)).join().unwrap();
                })
            })
            .collect();
        first.join().unwrap();
        queuers.into_iter().for_each(|queuer| queuer.join().unwrap());
    });
}

#[test]
fn a_pod_in_the_making_helps() {
    check_where_a_pod_is_in_the_making(false);
}

/// The creator makes its worker.
#[test]
fn a_pod_whose_worker_is_left_to_the_creator_helps() {
    check_where_a_pod_is_in_the_making(true);
}

/// As above, by a pod whose CPU a thread of the program computes on, as far as anybody knows: it is
/// called by that CPU's sentinel.
#[test]
fn a_pod_that_is_taken_helps_when_its_cpu_is_idle() {
    check_by(Detect::Sentinel, Pods::Two, |world| {
        let wq = world.managed();
        wq.queue_on(1, || ()).join().unwrap();
        world.managed_pool(1).set_caller_computes(true);
        let (begun, first) = runs_until_the_next(&wq);
        wq.queue_on(0, move || begun.store(true, Ordering::SeqCst)).join().unwrap();
        first.join().unwrap();
    });
}

/// As above, by a worker that the creator has still to make.
#[test]
fn a_pod_that_is_taken_and_has_no_worker_yet_helps_when_its_cpu_is_idle() {
    check_by(Detect::Sentinel, Pods::Two, |world| {
        let _rescued = world.queue(|builder| builder.percpu().mem_reclaim());
        let wq = world.managed();
        world.managed_pool(1).set_caller_computes(true);
        let (begun, first) = runs_until_the_next(&wq);
        wq.queue_on(0, move || begun.store(true, Ordering::SeqCst)).join().unwrap();
        first.join().unwrap();
    });
}

/// Work arrives at home while the helper is away.
#[test]
fn a_helper_comes_home() {
    check(Pods::Two, |world| {
        let wq = world.managed();
        let other = {
            let wq = wq.clone();
            thread::spawn(move || {
                for n in 0..3 {
                    assert_eq!(wq.queue_on(1, move || n).join().unwrap(), n);
                }
            })
        };
        let handles: Vec<_> = (0..3).map(|n| wq.queue_on(0, move || n)).collect();
        for (n, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), n);
        }
        other.join().unwrap();
    });
}

/// Items that wait for each other across pods, some of them run by guests, which block too.
#[test]
fn guests_block_like_others() {
    check(Pods::Two, |world| {
        let wq = world.managed();
        wq.queue_on(1, || ()).join().unwrap();
        let let_go = Arc::new(Event::new());
        let mut handles = Vec::new();
        for _ in 0..3 {
            let let_go = Arc::clone(&let_go);
            handles.push(wq.queue_on(0, move || _ = blocking(|| let_go.wait(None))));
        }
        handles.push(wq.queue_on(1, move || let_go.set()));
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

/// Each pod has items that wait, and a worker that helps the other one: then there is nothing to
/// do, and nothing is done until they are let go.
#[test]
fn pods_that_wait_for_each_other_rest() {
    check(Pods::Two, |world| {
        let wq = world.managed();
        let let_go = Arc::new(Event::new());
        let handles: Vec<_> = [0, 1, 0, 1]
            .into_iter()
            .map(|cpu| {
                let let_go = Arc::clone(&let_go);
                wq.queue_on(cpu, move || _ = blocking(|| let_go.wait(None)))
            })
            .collect();
        let_go.set();
        for handle in handles {
            handle.join().unwrap();
        }
    });
}
