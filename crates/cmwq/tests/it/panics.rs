//! Panics: delivered to who joins, or to the handler, and survived by everything else.

use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once};

use cmwq::{Work, Workqueue};

use crate::support::scene::{Scene, Stage};
use crate::support::{Gate, eventually, every_kind, joined, managed};

pub(crate) const SCENES: &[Scene] = &[("panics::payloads", payloads), ("panics::refused", refused)];

/// Payloads that the handler was called with, as text.
static HANDLED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Panics without the hook's message, so that it does not litter the output of tests that expect
/// it.
fn panic_with(text: &str) -> ! {
    resume_unwind(Box::new(text.to_owned()))
}

/// There is one handler per process, so all tests share it.
fn set_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        cmwq::set_panic_handler(|payload| {
            let text = payload.downcast_ref::<String>().cloned().unwrap_or_default();
            let is_bad = text == "the handler panics too";
            HANDLED.lock().unwrap().push(text);
            if is_bad {
                panic_with("from the handler");
            }
        });
    });
}

fn handled(text: &str) -> usize {
    HANDLED.lock().unwrap().iter().filter(|known| *known == text).count()
}

/// The queue still works, on every CPU.
#[track_caller]
fn assert_alive(wq: &Workqueue) {
    let handles: Vec<_> = (0..64).map(|i| wq.queue_on(i % 8, move || i)).collect();
    for (i, handle) in (0..).zip(handles) {
        assert_eq!(joined(handle), i);
    }
}

#[test]
fn join_has_the_payload_and_the_message() {
    for wq in every_kind("payload") {
        let error = wq.queue(|| panic_with("a text")).join().unwrap_err();
        assert_eq!(error.message(), Some("a text"));
        assert_eq!(error.to_string(), "the work item panicked: a text");
        let error = wq.queue(|| resume_unwind(Box::new("static"))).join().map(|(): ()| ());
        assert_eq!(error.unwrap_err().message(), Some("static"));
        let error = wq.queue(|| resume_unwind(Box::new(17_u8))).join().map(|(): ()| ());
        let error = error.unwrap_err();
        assert_eq!(error.message(), None);
        assert_eq!(error.into_panic().downcast_ref::<u8>(), Some(&17));
        assert_alive(&wq);
    }
}

#[test]
fn a_delayed_closure_panics_like_any() {
    let wq = managed("delayed panic");
    let delay = std::time::Duration::from_millis(1);
    let error = wq.queue_delayed(|| panic_with("later"), delay).join().unwrap_err();
    assert_eq!(error.message(), Some("later"));
}

#[test]
fn nobody_joins_so_the_handler_is_called() {
    set_handler();
    for (i, wq) in every_kind("handler").into_iter().enumerate() {
        let text = format!("detached {i}");
        let gate = Gate::new();
        drop(wq.queue({
            let (text, gate) = (text.clone(), gate.clone());
            move || {
                gate.pass();
                panic_with(&text)
            }
        }));
        gate.open();
        eventually("the handler is called", || handled(&text) == 1);
        assert_alive(&wq);
    }
}

#[test]
fn a_handle_dropped_afterwards_gives_the_panic_to_the_handler() {
    set_handler();
    let wq = managed("late drop");
    let handle = wq.queue(|| panic_with("dropped late"));
    eventually("the item has finished", || handle.is_finished());
    drop(handle);
    eventually("the handler is called", || handled("dropped late") == 1);
}

#[test]
fn a_joined_panic_is_not_handled() {
    set_handler();
    let wq = managed("joined");
    assert!(wq.queue(|| panic_with("joined")).join().is_err());
    assert_alive(&wq);
    assert_eq!(handled("joined"), 0);
}

#[test]
fn a_panicking_handler_is_survived() {
    set_handler();
    let wq = managed("bad handler");
    drop(wq.queue(|| panic_with("the handler panics too")));
    eventually("the handler is called", || handled("the handler panics too") == 1);
    assert_alive(&wq);
}

#[test]
fn work_that_panics_can_be_queued_again() {
    set_handler();
    for (i, wq) in every_kind("again").into_iter().enumerate() {
        let text = format!("work {i}");
        let work = Work::new({
            let text = text.clone();
            move || panic_with(&text)
        });
        for runs in 1..=20 {
            assert!(wq.queue_work(&work));
            work.flush();
            assert_eq!(handled(&text), runs, "flush waits for the handler");
        }
        assert_alive(&wq);
    }
}

/// Panics when dropped.
struct Bomb(Arc<AtomicU32>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic_with("dropped");
    }
}

#[test]
fn drops_that_panic_take_nothing_with_them() {
    for wq in every_kind("bombs") {
        let drops = Arc::new(AtomicU32::new(0));
        // A value that nobody takes.
        let (bomb, gate) = (Bomb(Arc::clone(&drops)), Gate::new());
        drop(wq.queue({
            let gate = gate.clone();
            move || {
                gate.pass();
                bomb
            }
        }));
        gate.open();
        eventually("the value was dropped", || drops.load(Ordering::Relaxed) == 1);
        // Something captured.
        let bomb = Bomb(Arc::clone(&drops));
        let error = wq.queue(move || drop(bomb)).join().unwrap_err();
        assert_eq!(error.message(), Some("dropped"));
        // A payload that nobody takes.
        let (bomb, gate) = (Bomb(Arc::clone(&drops)), Gate::new());
        drop(wq.queue({
            let gate = gate.clone();
            move || {
                gate.pass();
                resume_unwind(Box::new(bomb))
            }
        }));
        gate.open();
        eventually("the payload was dropped", || drops.load(Ordering::Relaxed) == 3);
        // What a reusable item captured, dropped by its run.
        let (bomb, gate) = (Bomb(Arc::clone(&drops)), Gate::new());
        let work = Work::new({
            let gate = gate.clone();
            move || {
                let _used = &bomb;
                gate.pass();
            }
        });
        assert!(wq.queue_work(&work));
        drop(work);
        gate.open();
        eventually("the function was dropped", || drops.load(Ordering::Relaxed) == 4);
        assert_alive(&wq);
    }
}

#[test]
fn payloads_that_panic_take_nothing_with_them() {
    Stage::new("panics::payloads").play();
}

/// A payload may panic when it is dropped, with another one that does.
fn payloads() {
    /// How many more.
    struct Chain(u32);
    impl Drop for Chain {
        fn drop(&mut self) {
            if let Some(less) = self.0.checked_sub(1) {
                resume_unwind(Box::new(Chain(less)));
            }
        }
    }
    for wq in every_kind("payloads") {
        for links in 0..4 {
            let work = Work::new(move || resume_unwind(Box::new(Chain(links))));
            assert!(wq.queue_work(&work));
            work.flush();
            let gate = Gate::new();
            drop(wq.queue({
                let gate = gate.clone();
                move || {
                    gate.pass();
                    resume_unwind(Box::new(Chain(links)))
                }
            }));
            gate.open();
            wq.flush();
            assert_alive(&wq);
        }
    }
}

#[test]
fn many_panics_lose_no_worker() {
    set_handler();
    let wq = managed("many panics");
    let handles: Vec<_> = (0..2_000)
        .map(|i| wq.queue(move || if i % 3 == 0 { panic_with("expected") } else { i }))
        .collect();
    for (i, handle) in handles.into_iter().enumerate() {
        match handle.join() {
            Ok(value) => assert_eq!(value, i),
            Err(error) => assert_eq!((i % 3, error.message()), (0, Some("expected"))),
        }
    }
    assert_alive(&wq);
}

#[test]
fn a_call_on_a_cpu_that_is_refused_is_told_to_the_hook() {
    Stage::new("panics::refused").play();
}

fn refused() {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.payload().downcast_ref::<String>();
        TOLD.lock().unwrap().push(text.cloned().unwrap_or_default());
    }));
    let wq = cmwq::system::percpu();
    wq.clone().close().wait();
    let payload = catch_unwind(|| cmwq::work_on_cpu(0, || ())).unwrap_err();
    std::panic::set_hook(before);
    let text = wq.queue(|| ()).join().unwrap_err().to_string();
    assert_eq!(*TOLD.lock().unwrap(), std::slice::from_ref(&text));
    assert_eq!(payload.downcast_ref(), Some(&text));
}
