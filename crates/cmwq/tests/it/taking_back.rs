//! Closures that are taken back before they begin, and errors of those that are joined.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::panic::catch_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use cmwq::{AbortOnDrop, IteratorOn, JoinError, JoinHandle, Workqueue};

use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Opened, block_on};
use crate::support::{Gate, eventually, joined, managed, occupy, sys, within};

pub(crate) const SCENES: &[Scene] = &[("taking_back_in_a_child", in_a_child)];

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// A queue of one item at a time, which waits for the gate.
fn busy(name: &str, gate: &Gate) -> (Workqueue, JoinHandle<()>) {
    let wq = Workqueue::builder(name).ordered().build().unwrap();
    let first = occupy(&wq, gate);
    (wq, first)
}

/// What a closure holds, to see when it is let go.
fn captured() -> (Arc<()>, Arc<()>) {
    let captured = Arc::new(());
    (Arc::clone(&captured), captured)
}

#[test]
fn a_closure_that_waits_is_taken_back_with_all_it_holds() {
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let (wq, first) = busy("waits", &gate);
    let (theirs, mine) = captured();
    let waiting = wq.queue(move || drop(theirs));
    assert!(waiting.cancel().is_none());
    assert_eq!(Arc::strong_count(&mine), 1, "dropped by the call");
    assert_eq!(wq.stats().cancelled, 1);
    gate.open();
    joined(first);
    let queue = wq.clone();
    within("a flush", move || queue.flush());
    assert_eq!(wq.stats().started, 1);
}

#[test]
fn a_closure_that_has_begun_is_not() {
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let (_wq, first) = busy("begun", &gate);
    let first = first.cancel().expect("it runs");
    gate.open();
    joined(first);
}

#[test]
fn cancel_sync_has_the_value_of_what_has_begun() {
    let wq = managed("value");
    let (begun, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let handle = wq.queue({
        let (begun, gate) = (begun.clone(), gate.clone());
        move || {
            begun.open();
            gate.pass();
            7
        }
    });
    begun.pass();
    let canceller = thread::spawn(move || handle.cancel_sync());
    gate.open();
    let value = within("cancel_sync", move || canceller.join().unwrap());
    assert_eq!(value.expect("it had begun").unwrap(), 7);
    assert!(wq.queue_delayed(|| (), NEVER).cancel_sync().is_none());
}

#[test]
fn what_has_returned_keeps_its_value() {
    let wq = managed("returned");
    let handle = wq.queue(|| 5);
    eventually("it has returned", || handle.is_finished());
    assert_eq!(handle.cancel().expect("it has returned").join().unwrap(), 5);
}

#[test]
fn an_armed_timer_is_disarmed() {
    let wq = managed("armed");
    let (theirs, mine) = captured();
    let handle = wq.queue_delayed(move || drop(theirs), NEVER);
    assert!(handle.cancel().is_none());
    assert_eq!(Arc::strong_count(&mine), 1);
    let (theirs, mine) = captured();
    drop(wq.queue_delayed(move || drop(theirs), NEVER).abort_on_drop());
    assert_eq!(Arc::strong_count(&mine), 1);
}

#[test]
fn a_handle_that_aborts_does_so_when_it_is_dropped_and_not_otherwise() {
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let (wq, first) = busy("abort", &gate);
    let runs = Arc::new(AtomicU32::new(0));
    let counting = || {
        let runs = Arc::clone(&runs);
        move || runs.fetch_add(1, Ordering::SeqCst)
    };
    drop(wq.queue(counting()).abort_on_drop());
    let kept = wq.queue(counting()).abort_on_drop();
    drop(wq.queue(counting()).abort_on_drop().into_handle());
    let awaited = wq.queue(counting()).abort_on_drop();
    let late = wq.queue(counting()).abort_on_drop();
    let late = late.join_timeout(Duration::ZERO).expect_err("it waits");
    assert!(!late.is_finished());
    gate.open();
    joined(first);
    assert_eq!(block_on(awaited).unwrap(), 2);
    assert_eq!(kept.join().unwrap(), 0);
    assert_eq!(late.join().unwrap(), 3);
}

/// The waker is let go, and nothing wakes it later.
#[test]
fn a_future_that_was_polled_can_be_cancelled() {
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let (wq, first) = busy("polled", &gate);
    let (theirs, mine) = captured();
    let mut handle = wq.queue(move || drop(theirs)).abort_on_drop();
    block_on(poll_fn(|cx| {
        assert!(Pin::new(&mut handle).poll(cx).is_pending());
        Poll::Ready(())
    }));
    drop(handle);
    assert_eq!(Arc::strong_count(&mine), 1);
    gate.open();
    joined(first);
}

/// Every closure runs or is taken back, not both, and what it holds is let go once.
#[test]
fn cancelling_races_with_starting() {
    for wq in [managed("race"), Workqueue::builder("race").unbound().build().unwrap()] {
        let (runs, held) = (Arc::new(AtomicU32::new(0)), Arc::new(()));
        let mut taken_back = 0;
        for round in 0..3_000_u64 {
            let (runs, held) = (Arc::clone(&runs), Arc::clone(&held));
            let func = move || {
                runs.fetch_add(1, Ordering::SeqCst);
                drop(held);
            };
            let handle = match round % 3 {
                0 => wq.queue_delayed(func, Duration::from_nanos(round)),
                _ => wq.queue(func),
            };
            if round % 2 == 0 {
                thread::yield_now();
            }
            match handle.cancel_sync() {
                None => taken_back += 1,
                Some(value) => value.unwrap(),
            }
        }
        assert_eq!(runs.load(Ordering::SeqCst) + taken_back, 3_000);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}

#[test]
fn a_panic_of_what_is_dropped_is_swallowed() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("expected"));
        }
    }
    let wq = managed("loud");
    let loud = Loud;
    let handle = wq.queue_delayed(move || std::mem::forget(loud), NEVER);
    assert!(handle.cancel().is_none());
    assert_eq!(joined(wq.queue(|| 1)), 1);
}

#[test]
fn a_child_takes_back_what_its_parent_had_queued() {
    Stage::new("taking_back_in_a_child").play();
}

fn in_a_child() {
    let gate = Gate::new();
    let (wq, first) = busy("parent", &gate);
    let (waiting, armed) = (wq.queue(|| 1), wq.queue_delayed(|| 2, NEVER));
    let status = sys::fork(|| {
        assert!(waiting.cancel().is_none());
        assert!(armed.cancel().is_none());
        assert_eq!(wq.queue(|| 3).join().unwrap(), 3);
    });
    assert_eq!(status, 0, "the child");
    gate.open();
    joined(first);
}

/// As the constructors of `anyhow::Error` and `eyre::Report` ask for it.
fn report<E: Error + Send + Sync + 'static>(error: E) -> Box<dyn Error + Send + Sync> {
    error.into()
}

#[test]
fn join_errors_go_where_errors_go() {
    fn with_a_question_mark(wq: &Workqueue) -> Result<u32, Box<dyn Error + Send + Sync>> {
        let name = wq.name().to_owned();
        Ok(wq.queue(move || -> u32 { panic!("expected {}", name) }).join()?)
    }
    let wq = managed("here");
    let error = with_a_question_mark(&wq).unwrap_err();
    assert_eq!(error.to_string(), "the work item panicked: expected here");
    let error = error.downcast::<JoinError>().expect("it is still one");
    assert_eq!((error.message(), error.is_panic()), (Some("expected here"), true));
    assert_eq!(*error.into_panic().downcast::<String>().unwrap(), "expected here");
    // A payload that can be sent only.
    let handle = wq.queue(|| std::panic::resume_unwind(Box::new(std::cell::Cell::new(5))));
    let error = report(handle.join().unwrap_err());
    assert_eq!(error.to_string(), "the work item panicked: (no message)");
    let payload = error.downcast::<JoinError>().unwrap().into_panic();
    assert_eq!(payload.downcast::<std::cell::Cell<i32>>().unwrap().get(), 5);
}

#[test]
fn handles_and_errors_can_be_shared() {
    fn can<T: Send + Sync + Unpin>() {}
    can::<JoinError>();
    can::<cmwq::Error>();
    can::<cmwq::ShutdownError>();
    can::<JoinHandle<u32>>();
    can::<AbortOnDrop<u32>>();
}

/// The consumer of `map_on` unwinds when a function has panicked.
#[test]
fn a_panic_of_map_on_can_be_caught_where_its_results_are_taken() {
    let wq = managed("caught");
    let caught = catch_unwind(|| {
        let halves = [2_u32, 0, 4].into_iter().map_on(&wq, 2, |n| 8_u32.checked_div(n).unwrap());
        halves.sum::<u32>()
    });
    assert!(caught.is_err());
    assert_eq!(joined(wq.queue(|| 1)), 1, "the queue goes on");
}
