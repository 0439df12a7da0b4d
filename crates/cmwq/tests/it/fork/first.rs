//! Forking beside the first use of the library, of a queue in a child, and of what may be called
//! before.

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cmwq::raw::{self, RcuHead};

use super::asking::AtOnce;
use crate::support::scene::Stage;
use crate::support::{joined, managed, sys};

/// What may be called before the library's first use, and takes a lock.
const FIRST_CALLS: &[fn()] = &[
    || cmwq::set_param("idle_timeout", "5").unwrap(),
    || assert!(cmwq::param("idle_timeout").is_some()),
    || _ = cmwq::Config::builder().install(),
    || cmwq::set_panic_handler(|_| ()),
    || cmwq::set_item_panic_handler(|_| ()),
    || cmwq::set_watchdog_handler(|_| ()),
    || _ = cmwq::notices(),
    || _ = cmwq::control::path(),
    raw::rcu_barrier,
    call_rcu,
];

/// With a source that calls at once, so that no queue is used.
fn call_rcu() {
    unsafe extern "C" fn free(head: *mut RcuHead) {
        // SAFETY: of the box below, which nobody else has.
        drop(unsafe { Box::from_raw(head.cast::<MaybeUninit<RcuHead>>()) });
    }
    // There may be one already.
    let _ = cmwq::set_grace_periods(&AtOnce);
    // As C's.
    let head = Box::leak(Box::new(MaybeUninit::<RcuHead>::zeroed()));
    // SAFETY: it is there until `free` is called, which any thread may do.
    unsafe { raw::call_rcu(NonNull::from(head).cast(), free) };
}

/// Another thread has done nothing but one of them, again and again, when the process forks.
#[test]
fn a_child_of_a_parent_that_only_prepares_can_do_everything() {
    Stage::new("fork::first_calls").play();
}

pub(super) fn calls() {
    for (which, call) in FIRST_CALLS.iter().enumerate() {
        // In a process that has done nothing yet.
        assert_eq!(sys::fork(|| forks_beside(*call)), 0, "beside call {which}");
    }
}

fn forks_beside(call: fn()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                call();
            }
        });
        for _ in 0..40 {
            let status = sys::fork(|| {
                FIRST_CALLS.iter().for_each(|call| call());
                drop(managed("child"));
            });
            stop.store(status != 0, Ordering::Relaxed);
            assert_eq!(status, 0, "a child");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Another thread makes the library's first use when the process forks.
#[test]
fn a_child_that_is_forked_beside_the_first_use_can_use_the_library() {
    Stage::new("fork::first_use").play();
}

pub(super) fn of_the_library() {
    for round in 0..50 {
        // In a process that has done nothing yet.
        assert_eq!(sys::fork(forks_beside_first_use), 0, "round {round}");
    }
}

fn forks_beside_first_use() {
    /// While the first use is under way, and some before and after it.
    const CHILDREN: usize = 4;
    /// Seconds until a child that hangs is killed: before its parent, which says so.
    const TIME_LIMIT: u32 = 300;
    let uses_it = |name| assert_eq!(joined(managed(name).queue(|| 7)), 7);
    let begin = Barrier::new(2);
    let children = thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            uses_it("first");
        });
        begin.wait();
        let child = || {
            sys::alarm(TIME_LIMIT);
            uses_it("child");
        };
        [(); CHILDREN].map(|()| sys::begin_child(child))
    });
    uses_it("parent");
    assert_eq!(children.map(sys::end_of), [0; CHILDREN]);
}

#[test]
fn a_child_may_fork_while_it_first_uses_a_queue() {
    Stage::new("fork::using_first").play();
}

/// A queue's first use in a child makes a runtime there, and a fork holds still whoever makes one:
/// each takes the same locks in the same order. A child that hangs is killed.
pub(super) fn of_a_queue() {
    let wq = managed("inherited");
    joined(wq.queue(|| ()));
    for _ in 0..100 {
        let status = sys::fork(|| {
            let both = Barrier::new(2);
            thread::scope(|scope| {
                scope.spawn(|| {
                    both.wait();
                    joined(wq.queue(|| ()));
                });
                both.wait();
                assert_eq!(sys::fork(|| joined(wq.queue(|| ()))), 0);
            });
        });
        assert_eq!(status, 0);
    }
}
