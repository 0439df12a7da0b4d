//! Closures and their handles: values, futures, detaching, and what the calling thread knows of
//! itself.

use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::{
    AbortOnDrop, DelayedWork, JoinHandle, OutsideBacklog, Periodic, RcuWork, Waiting,
    WeakDelayedWork, WeakWork, Work, Workqueue, blocking, current_work,
};

use crate::support::wait::{Opened, block_on};
use crate::support::{Gate, eventually, every_kind, joined, managed, percpu};

/// What the library runs it catches panics of, so there is nothing half done to be seen.
#[test]
fn handles_may_be_used_where_panics_are_caught() {
    fn check<T: UnwindSafe + RefUnwindSafe>() {}
    check::<Workqueue>();
    check::<(Waiting, OutsideBacklog, Periodic)>();
    check::<(Work, WeakWork, DelayedWork, WeakDelayedWork, RcuWork)>();
    check::<(JoinHandle<Cell<u32>>, AbortOnDrop<Cell<u32>>)>();
}

#[test]
fn what_is_to_be_taken_back_when_it_is_dropped_can_be_taken_back_before() {
    let wq = managed("taken back");
    let far = || wq.queue_delayed(|| 1, Duration::from_secs(3600)).abort_on_drop();
    assert!(far().cancel().is_none() && far().cancel_sync().is_none());
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let running = || {
        let (gate, begun) = (gate.clone(), Gate::new());
        let theirs = begun.clone();
        let handle = wq.queue(move || {
            theirs.open();
            gate.pass();
            2
        });
        begun.pass();
        handle.abort_on_drop()
    };
    let (one, other) = (running(), running());
    let one = one.cancel().expect("it has begun");
    gate.open();
    assert_eq!(one.join().unwrap(), 2);
    assert_eq!(other.cancel_sync().expect("it has begun").unwrap(), 2);
}

#[test]
fn join_returns_the_value_and_shows_what_was_done() {
    for wq in every_kind("values") {
        let side = Arc::new(AtomicU32::new(0));
        let handle = wq.queue({
            let side = Arc::clone(&side);
            move || {
                side.store(7, Ordering::Relaxed);
                String::from("done")
            }
        });
        assert_eq!(joined(handle), "done");
        assert_eq!(side.load(Ordering::Relaxed), 7, "join orders");
    }
}

#[test]
fn values_need_not_be_sent_back_by_the_worker_that_made_them() {
    let wq = managed("order");
    let handles: Vec<_> = (0..500).map(|i| wq.queue(move || i)).collect();
    let values: Vec<i32> = handles.into_iter().rev().map(joined).collect();
    assert_eq!(values, (0..500).rev().collect::<Vec<_>>());
}

#[test]
fn join_timeout_gives_the_handle_back() {
    let wq = managed("timeout");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let handle = wq.queue({
        let gate = gate.clone();
        move || gate.pass()
    });
    let handle = handle.join_timeout(Duration::from_millis(5)).expect_err("it cannot be done");
    assert!(!handle.is_finished());
    let handle = handle.join_timeout(Duration::ZERO).expect_err("it cannot be done");
    gate.open();
    joined(handle);
}

#[test]
fn join_timeout_takes_any_timeout() {
    let wq = managed("for ever");
    let handle = wq.queue(|| thread::sleep(Duration::from_millis(2)));
    handle.join_timeout(Duration::MAX).expect("it finishes").unwrap();
}

#[test]
fn a_handle_is_a_future() {
    let wq = managed("future");
    let gate = Gate::new();
    let late: JoinHandle<u32> = wq.queue({
        let gate = gate.clone();
        move || {
            gate.pass();
            1
        }
    });
    let early = wq.queue(|| 2);
    eventually("the early item has finished", || early.is_finished());
    let opener = thread::spawn(move || gate.open());
    let sum = block_on(async { late.await.unwrap() + early.await.unwrap() });
    assert_eq!(sum, 3);
    opener.join().unwrap();
}

#[test]
fn a_future_is_woken_whenever_it_is_first_polled() {
    let wq = managed("race");
    for i in 0..2_000 {
        let handle = wq.queue(move || i);
        if i % 2 == 0 {
            thread::yield_now();
        }
        assert_eq!(block_on(handle).unwrap(), i);
    }
}

#[test]
fn a_dropped_handle_detaches_its_item() {
    for wq in every_kind("detached") {
        let runs = Arc::new(AtomicU32::new(0));
        for _ in 0..100 {
            let runs = Arc::clone(&runs);
            drop(wq.queue(move || runs.fetch_add(1, Ordering::Relaxed)));
        }
        eventually("all detached items have run", || runs.load(Ordering::Relaxed) == 100);
    }
}

#[test]
fn what_a_closure_captured_is_gone_when_its_value_is_there() {
    let wq = managed("captured");
    let captured = Arc::new(());
    for _ in 0..200 {
        let theirs = Arc::clone(&captured);
        joined(wq.queue(move || drop(Arc::clone(&theirs))));
        assert_eq!(Arc::strong_count(&captured), 1);
    }
}

#[test]
fn an_unwanted_value_is_dropped() {
    let wq = managed("unwanted");
    let value = Arc::new(());
    for _ in 0..50 {
        let value = Arc::clone(&value);
        drop(wq.queue(move || value));
    }
    eventually("all values are dropped", || Arc::strong_count(&value) == 1);
}

#[test]
fn current_work_is_the_item_and_only_inside() {
    let wq = percpu("current");
    assert_eq!(current_work(), None);
    let (first, second) = (wq.queue(current_work), wq.queue(current_work));
    let (first, second) = (joined(first), joined(second));
    assert!(first.is_some() && second.is_some());
    assert_eq!(current_work(), None);
}

#[test]
fn blocking_sections_nest_and_survive_unwinding() {
    assert_eq!(blocking(|| blocking(|| 1)), 1, "outside of items it only calls");
    let wq = percpu("nested");
    let value = wq.queue(|| {
        let caught = std::panic::catch_unwind(|| {
            blocking(|| blocking(|| std::panic::resume_unwind(Box::new("expected"))))
        });
        assert!(caught.is_err());
        blocking(|| blocking(|| 5) + 1)
    });
    assert_eq!(joined(value), 6);
    assert_eq!(joined(wq.queue(|| 7)), 7);
}
