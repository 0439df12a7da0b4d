//! Closing, and waiting for queues without a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::{Attrs, ErrorKind, Refused, Workqueue};

use crate::support::wait::{Opened, PATIENCE, block_on};
use crate::support::{Gate, eventually, every_kind, joined, managed, unbound, within};

/// Queues an item that waits for the gate and then queues another one, and returns when it runs.
fn chained(wq: &Workqueue, gate: &Gate, runs: &Arc<AtomicU32>) {
    let (begun, gate, wq, runs) = (Gate::new(), gate.clone(), wq.clone(), Arc::clone(runs));
    drop(wq.clone().queue({
        let begun = begun.clone();
        move || {
            begun.open();
            gate.pass();
            runs.fetch_add(1, Ordering::SeqCst);
            drop(wq.queue(move || runs.fetch_add(1, Ordering::SeqCst)));
        }
    }));
    begun.pass();
}

#[test]
fn a_flush_can_be_awaited() {
    for wq in every_kind("flushed") {
        let runs = Arc::new(AtomicU32::new(0));
        block_on(wq.flush_async());
        for _ in 0..50 {
            let runs = Arc::clone(&runs);
            drop(wq.queue(move || runs.fetch_add(1, Ordering::SeqCst)));
        }
        block_on(wq.flush_async());
        assert_eq!(runs.load(Ordering::SeqCst), 50);
        let gate = Gate::new();
        let _opened = Opened(&gate);
        chained(&wq, &gate, &runs);
        let flush = wq.flush_async();
        assert!(!flush.is_over());
        gate.open();
        block_on(flush);
        assert!(runs.load(Ordering::SeqCst) >= 51);
    }
}

/// From the call on, and to the end although nobody awaits it.
#[test]
fn a_drain_can_be_awaited_or_not() {
    for wq in every_kind("drained") {
        for is_awaited in [true, false] {
            let (gate, runs) = (Gate::new(), Arc::new(AtomicU32::new(0)));
            let _opened = Opened(&gate);
            chained(&wq, &gate, &runs);
            let drain = wq.drain_async();
            assert!(wq.queue(|| ()).join().unwrap_err().is_refused(), "closed by the call");
            gate.open();
            if is_awaited {
                block_on(drain);
                assert_eq!(runs.load(Ordering::SeqCst), 2);
            } else {
                drop(drain);
            }
            eventually("it is open again", || wq.try_queue(|| ()).is_ok());
            assert_eq!(runs.load(Ordering::SeqCst), 2);
        }
    }
}

#[test]
fn closing_does_not_wait_and_what_was_queued_runs() {
    for wq in every_kind("closed") {
        let (gate, runs) = (Gate::new(), Arc::new(AtomicU32::new(0)));
        let _opened = Opened(&gate);
        chained(&wq, &gate, &runs);
        let others = [wq.clone(), wq.clone()];
        let late = wq.queue_delayed(|| (), Duration::from_secs(1));
        assert!(!wq.is_closed());
        let closing = wq.close();
        assert_eq!(late.join().unwrap_err().why(), Some(Refused::Closed), "its timer expired");
        for wq in others {
            assert!(wq.is_closed());
            // Though it is being drained as well.
            assert_eq!(wq.queue(|| ()).join().unwrap_err().why(), Some(Refused::Closed));
            assert_eq!(wq.run(|| ()).unwrap_err().why(), Some(Refused::Closed));
            let error = wq.try_queue(|| ()).unwrap_err();
            assert!(error.is_closed() && error.why() == Refused::Closed, "{error}");
            let again = wq.close();
            assert!(!again.is_over() && !closing.is_over());
        }
        gate.open();
        within("closing", move || closing.wait());
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn a_wait_may_have_a_time_limit() {
    for wq in every_kind("limited") {
        let (gate, runs) = (Gate::new(), Arc::new(AtomicU32::new(0)));
        let _opened = Opened(&gate);
        chained(&wq, &gate, &runs);
        let soon = Duration::from_millis(1);
        let waits = [wq.flush_async(), wq.drain_async(), wq.close()];
        let waits = waits.map(|wait| wait.wait_timeout(Duration::ZERO).expect_err("an item runs"));
        let waits = waits.map(|wait| wait.wait_timeout(soon).expect_err("an item runs"));
        gate.open();
        for wait in waits {
            wait.wait_timeout(PATIENCE).expect("it has ended");
        }
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}

/// The last handle goes while items run: nobody waits for them.
#[test]
fn handles_of_a_closed_queue_go_at_once() {
    let wq = managed("at once");
    let (gate, runs) = (Gate::new(), Arc::new(AtomicU32::new(0)));
    let _opened = Opened(&gate);
    chained(&wq, &gate, &runs);
    let other = wq.clone();
    let closing = wq.close();
    within("a drop", move || drop(other));
    assert!(!closing.is_over());
    gate.open();
    block_on(closing);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn a_queue_can_be_closed_from_inside_and_wait_for_nothing_there() {
    let wq = managed("inside");
    let own = wq.clone();
    let inside = wq.queue(move || {
        own.flush_async().wait();
        own.drain_async().wait();
        own.clone().close().wait();
        assert!(own.clone().close().wait_timeout(Duration::ZERO).is_err(), "it only looks");
        own.clone().close().wait_timeout(Duration::MAX).unwrap();
        own.close()
    });
    let closing = joined(inside);
    block_on(closing);
    assert!(wq.queue(|| ()).join().unwrap_err().is_refused());
}

#[test]
fn a_closed_queue_keeps_its_settings() {
    let wq = unbound("settings");
    let other = wq.clone();
    wq.close().wait();
    let error = other.apply_attrs(&Attrs::new().nice(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    other.set_max_active(5).unwrap();
    other.flush();
    assert_eq!(other.stats().queued, 0);
}

/// Many at once.
#[test]
fn waits_do_not_wait_for_each_other() {
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let queues: Vec<_> = (0..20).map(|n| managed(&format!("one of {n}"))).collect();
    let runs = Arc::new(AtomicU32::new(0));
    queues.iter().for_each(|wq| chained(wq, &gate, &runs));
    let waits: Vec<_> = queues.iter().map(Workqueue::flush_async).collect();
    let free = managed("free");
    drop(free.queue(|| ()));
    block_on(free.flush_async());
    assert!(waits.iter().all(|wait| !wait.is_over()));
    gate.open();
    let waiter = thread::spawn(move || waits.into_iter().for_each(|wait| block_on(wait)));
    within("all flushes", move || waiter.join().unwrap());
}
