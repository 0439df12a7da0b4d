//! The end of queues and of the runtime.

use std::time::Duration;

use shuttle::thread;

use super::{Count, Pods, check};
use crate::os::park::Event;
use crate::os::sync::{Arc, PlainMutex};

/// Dropping the last handle waits for the items.
#[test]
fn dropping_a_queue_waits_for_its_items() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let count = Arc::new(Count::default());
        for cpu in 0..2 {
            let count = Arc::clone(&count);
            drop(wq.queue_on(cpu, move || count.up()));
        }
        drop(wq);
        assert_eq!(count.get(), 2);
    });
}

/// Two handles go at once, one of them with an item just queued.
#[test]
fn the_last_of_two_handles_waits() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let count = Arc::new(Count::default());
        let other = {
            let (wq, count) = (wq.clone(), Arc::clone(&count));
            thread::spawn(move || drop(wq.queue(move || count.up())))
        };
        drop(wq);
        other.join().unwrap();
        assert_eq!(count.get(), 1);
    });
}

/// The last handle is dropped by the queue's own item, which cannot wait for itself: the shutdown
/// waits for the queue.
#[test]
fn the_last_handle_goes_in_an_item_of_the_queue() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let count = Arc::new(Count::default());
        let (inner, theirs) = (wq.clone(), Arc::clone(&count));
        let item = wq.queue(move || {
            drop(inner.queue(move || theirs.up()));
            drop(inner);
        });
        drop(wq);
        item.join().unwrap();
    });
}

/// Who queues while another handle is closed is let in, and then his item runs, or is refused.
#[test]
fn a_queue_is_closed_while_somebody_queues() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let other = {
            let wq = wq.clone();
            thread::spawn(move || match wq.queue_on(0, || 1).join() {
                Ok(one) => assert_eq!(one, 1),
                Err(error) => assert!(error.is_refused()),
            })
        };
        wq.close().wait();
        other.join().unwrap();
    });
}

/// Items of one queue make and drop another.
#[test]
fn queues_come_and_go() {
    check(Pods::One, |world| {
        let runtime = world.runtime;
        let wq = world.percpu();
        let make = move || {
            let short = super::World { runtime }.percpu();
            let one = short.queue_on(0, || 1);
            drop(short);
            one.join().unwrap()
        };
        let item = wq.queue_on(0, make);
        assert_eq!(make() + item.join().unwrap(), 2);
    });
}

/// Nothing was ever queued.
#[test]
fn an_unused_runtime_goes() {
    check(Pods::One, |world| drop(world.managed()));
}

/// Nobody is left who knows of the queues but their armed timers, when the runtime is shut down: it
/// waits for them.
#[test]
fn a_shutdown_waits_for_armed_timers() {
    // Outlives the executions, so it is none of the model's: the next one looks what the last one
    // did.
    let ran = Arc::new(PlainMutex::new(0));
    let theirs = Arc::clone(&ran);
    check(Pods::One, move |world| {
        assert_eq!(*theirs.lock().unwrap() % 2, 0, "a timer was forgotten");
        for (cpu, delay) in [(0, 1), (1, 50)] {
            let (wq, ran) = (world.percpu(), Arc::clone(&theirs));
            let delay = Duration::from_millis(delay);
            drop(wq.queue_delayed_on(cpu, move || *ran.lock().unwrap() += 1, delay));
        }
    });
    assert_eq!(*ran.lock().unwrap() % 2, 0, "a timer was forgotten");
}

/// A queue with attributes of its own comes and goes, so that its pool is closed and opened again
/// and again; each time one of its items waits for the next one.
#[test]
fn a_pool_that_is_opened_again_has_a_standby() {
    check(Pods::One, |world| {
        let runtime = world.runtime;
        let rounds = move || {
            let world = super::World { runtime };
            for _ in 0..2 {
                let wq = world.queue(|builder| builder.unbound().nice(5));
                let event = Arc::new(Event::new());
                let (theirs, ours) = (Arc::clone(&event), event);
                let first = wq.queue(move || theirs.wait(None));
                let second = wq.queue(move || ours.set());
                first.join().unwrap();
                second.join().unwrap();
            }
        };
        let other = thread::spawn(rounds);
        rounds();
        other.join().unwrap();
    });
}
