//! Scopes: closures that borrow.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Gate, eventually, every_kind, joined, managed, within};

fn panic_with(text: &'static str) -> ! {
    resume_unwind(Box::new(text))
}

#[test]
fn scoped_items_borrow_and_have_all_finished() {
    for wq in every_kind("scope") {
        let words: Vec<String> = (0..200).map(|i| "x".repeat(i)).collect();
        let mut lengths = vec![0; words.len()];
        let sum = wq.scope(|s| {
            for (word, length) in words.iter().zip(&mut lengths) {
                s.queue(move || *length = word.len());
            }
            let total = s.queue(|| words.iter().map(String::len).sum::<usize>());
            total.join().unwrap()
        });
        assert_eq!(lengths, (0..200).collect::<Vec<_>>());
        assert_eq!(sum, 199 * 200 / 2);
    }
}

#[test]
fn an_empty_scope_returns() {
    assert_eq!(managed("empty").scope(|_| 3), 3);
}

#[test]
fn scoped_items_may_queue_more() {
    let wq = managed("more");
    let count = AtomicU32::new(0);
    wq.scope(|s| {
        for _ in 0..20 {
            s.queue(|| {
                for _ in 0..20 {
                    s.queue(|| count.fetch_add(1, Ordering::Relaxed));
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 400);
}

#[test]
fn scopes_nest_inside_items_of_the_same_queue() {
    for wq in every_kind("nested scopes") {
        let leaves = AtomicU32::new(0);
        let (wq, leaves) = (&wq, &leaves);
        fn tree(wq: &cmwq::Workqueue, leaves: &AtomicU32, depth: u32) {
            if depth == 0 {
                leaves.fetch_add(1, Ordering::Relaxed);
                return;
            }
            wq.scope(|s| {
                for _ in 0..3 {
                    s.queue(|| tree(wq, leaves, depth - 1));
                }
            });
        }
        tree(wq, leaves, 4);
        assert_eq!(leaves.load(Ordering::Relaxed), 81);
    }
}

#[test]
fn a_joined_panic_stays_with_its_handle() {
    let wq = managed("joined scope panic");
    let text = wq.scope(|s| {
        let panic = s.queue(|| panic_with("mine")).join().unwrap_err();
        panic.downcast_ref::<&str>().copied()
    });
    assert_eq!(text, Some("mine"));
}

#[test]
fn an_unjoined_panic_is_the_scopes() {
    let wq = managed("unjoined scope panic");
    let done = AtomicU32::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        wq.scope(|s| {
            s.queue(|| panic_with("expected"));
            for _ in 0..50 {
                s.queue(|| done.fetch_add(1, Ordering::Relaxed));
            }
        });
    }));
    assert!(result.is_err());
    assert_eq!(done.load(Ordering::Relaxed), 50, "the others finished first");
    assert_eq!(joined(wq.queue(|| 1)), 1);
}

#[test]
fn an_unjoined_panic_is_the_scopes_whenever_the_handle_goes() {
    let wq = managed("late unjoined");
    let result = catch_unwind(AssertUnwindSafe(|| {
        wq.scope(|s| {
            let handle = s.queue(|| panic_with("expected"));
            eventually("it has finished", || handle.is_finished());
            drop(handle);
        });
    }));
    assert!(result.is_err(), "the panic of an unjoined item was lost");
}

#[test]
fn what_was_only_refused_has_not_panicked() {
    let wq = managed("refusing scope");
    let other = wq.clone();
    let closing = wq.close();
    let says = |what: &dyn Fn()| {
        *catch_unwind(AssertUnwindSafe(what)).unwrap_err().downcast::<&str>().unwrap()
    };
    let refused = || other.scope(|s| drop(s.queue(|| unreachable!("it is closed"))));
    assert_eq!(says(&refused), "a scoped work item was refused");
    let panicked = || managed("panics").scope(|s| drop(s.queue(|| panic_with("expected"))));
    assert_eq!(says(&panicked), "a scoped work item panicked");
    within("closing", || closing.wait());
}

#[test]
fn a_panic_of_the_scope_itself_waits_for_its_items() {
    let wq = managed("panicking scope");
    let gate = Gate::new();
    let done = AtomicU32::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        wq.scope(|s| {
            for _ in 0..20 {
                s.queue(|| {
                    gate.pass();
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
            s.queue(|| gate.open());
            panic_with("the scope's own");
        });
    }));
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"the scope's own"));
    assert_eq!(done.load(Ordering::Relaxed), 20);
}

/// Panics when dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_with("dropped");
    }
}

#[test]
fn a_value_that_panics_when_dropped_does_not_hold_the_scope_up() {
    within("a scope whose item returns a bomb", || {
        let wq = managed("bomb");
        let _ = catch_unwind(AssertUnwindSafe(|| {
            wq.scope(|s| {
                s.queue(|| Bomb);
            });
        }));
    });
}
