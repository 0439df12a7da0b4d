//! What a child is told of its parent's items where it can have no thread, or where the parent was
//! about to run them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cmwq::raw;
use cmwq::{
    DelayedWork, GracePeriods, IteratorOn, RcuFunc, RcuHead, RcuWork, Workqueue, set_grace_periods,
};

use crate::support::scene::{Stage, skip};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, joined, managed, occupy, procfs, sys, unbound};

#[test]
fn a_child_that_can_have_no_thread_waits_for_nothing_of_its_parents() {
    Stage::new("fork::without_threads").play();
}

pub(super) fn without_threads() {
    let wq = Workqueue::builder("one by one").ordered().build().unwrap();
    let gate = Gate::new();
    let opened = Opened(&gate);
    let running = occupy(&wq, &gate);
    let (waits, dropped) = (wq.queue(|| 1), wq.queue(|| ()).abort_on_drop());
    let delayed = DelayedWork::new(|| ());
    assert!(wq.queue_delayed_work(&delayed, super::FAR));
    let mut backlog = Some(wq.outside_backlog());
    backlog.iter().for_each(|backlog| backlog.set(1_200));
    let mut waits = Some(waits);
    let status = sys::fork(|| {
        sys::refuse(&[libc::SYS_clone, libc::SYS_clone3]).unwrap();
        assert!(!delayed.is_pending(), "it is the parent's");
        // What needs a queue of its own panics, and nothing worse.
        assert!(catch_unwind(AssertUnwindSafe(|| drop(wq.queue(|| ())))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(wq.run(|| ())))).is_err());
        let handle = waits.take().unwrap();
        assert!(handle.is_finished());
        let Ok(ended) = handle.join_timeout(PATIENCE) else { panic!("it was waited for") };
        assert!(ended.is_err());
        drop(dropped);
        drop(backlog.take());
    });
    assert_eq!(status, 0);
    drop(opened);
    joined(running);
    assert!(delayed.cancel());
    assert_eq!(joined(waits.unwrap()), 1);
}

/// A source whose grace periods are over at once.
pub(super) struct AtOnce;

// SAFETY: there are no readers to wait for.
unsafe impl GracePeriods for AtOnce {
    unsafe fn call_rcu(&self, head: *mut RcuHead, func: RcuFunc) {
        // SAFETY: given with this function, and called once.
        unsafe { func(head) };
    }

    fn rcu_barrier(&self) {}
}

#[test]
fn an_item_that_the_programs_source_has_given_back_can_be_queued() {
    Stage::new("fork::given_back").play();
}

pub(super) fn given_back() {
    if cfg!(feature = "liburcu") {
        return skip("liburcu is the source");
    }
    set_grace_periods(&AtOnce).unwrap();
    let (wq, cpu) = (Workqueue::builder("kept").percpu().build().unwrap(), sys::allowed_cpus()[0]);
    sys::confine(0, &[cpu]).unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = RcuWork::new(move || _ = theirs.fetch_add(1, Ordering::SeqCst));
    let gate = Gate::new();
    let opened = Opened(&gate);
    let running = wq.queue_on(cpu, {
        let gate = gate.clone();
        move || gate.spin()
    });
    let behind = wq.queue_on(cpu, || ());
    assert!(wq.queue_rcu_work(&work));
    let status = sys::fork(|| {
        assert!(wq.queue_rcu_work(&work), "the source has it no more");
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    });
    assert_eq!(status, 0);
    drop(opened);
    joined(running);
    joined(behind);
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1, "each of its own");
    joined(managed("another").queue(|| ()));
}

#[test]
fn a_child_does_not_wait_for_results_of_its_parents_items() {
    Stage::new("fork::results").play();
}

pub(super) fn results() {
    // The worker that has answered may be at the answers still, when the parent forks.
    for _ in 0..12 {
        results_of_one_round();
    }
}

fn results_of_one_round() {
    let wq = managed("results");
    let gate = Gate::new();
    let opened = Opened(&gate);
    let func = {
        let gate = gate.clone();
        move |n: u64| {
            if n > 0 {
                gate.spin();
            } else {
                // The parent waits for the answer by then, mostly.
                std::thread::sleep(Duration::from_millis(1));
            }
            n
        }
    };
    // Some of them run, the others wait.
    let ahead = 4 * sys::allowed_cpus().len() as u64;
    let mut any = (0..ahead + 3).map_unordered_on(&wq, ahead as usize, func);
    assert_eq!(any.next(), Some(0), "the next one is under way");
    let status = sys::fork(|| {
        // Printing it, with a stack that is searched for names, takes locks that a thread of the
        // parent may have had.
        std::panic::set_hook(Box::new(|_| ()));
        let failed = catch_unwind(AssertUnwindSafe(|| any.next())).unwrap_err();
        let text = failed.downcast_ref::<String>().expect("a text");
        assert!(text.contains("the parent of this forked process"), "{text}");
        gate.open();
        let others: u64 = (ahead..ahead + 3).sum();
        assert_eq!(any.by_ref().sum::<u64>(), others, "it goes on with the others");
    });
    assert_eq!(status, 0);
    drop(opened);
    assert_eq!(any.sum::<u64>(), (0..ahead + 3).sum());
}

#[test]
fn a_child_that_an_iterator_has_forked_does_not_count_the_parents_items() {
    Stage::new("fork::iterating").play();
}

pub(super) fn iterating() {
    let wq = unbound("iterated");
    let (gate, second) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let mut child = None;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let source = (0..3).inspect(|n| {
            if *n == 1 {
                child = sys::split();
                match child {
                    // As in `results_of_one_round`.
                    None => std::panic::set_hook(Box::new(|_| ())),
                    Some(_) => gate.open(),
                }
            }
        });
        source.for_each_on(&wq, 2, |n| match n {
            0 => gate.spin(),
            1 => second.pass(),
            _ => second.open(),
        });
    }));
    let Some(child) = child else {
        let refused = ended.is_err_and(|panic| {
            let text = panic.downcast_ref::<&str>();
            text.is_some_and(|text| text.contains("was refused"))
        });
        sys::leave(refused && second.is_open());
    };
    ended.unwrap();
    assert_eq!(sys::end_of(child), 0);
}

#[test]
fn looking_at_a_parents_queue_makes_a_child_nothing() {
    Stage::new("fork::looking").play();
}

pub(super) fn looking() {
    let (wq, closed) = (managed("looked at"), managed("closed"));
    closed.clone().close().wait();
    // SAFETY: just made, and destroyed once.
    let destroyed = unsafe { raw::destroy(raw::into_raw(managed("destroyed"))) };
    let status = sys::fork(|| {
        for (wq, name) in [(&wq, "looked at"), (&closed, "closed"), (&destroyed, "destroyed")] {
            assert_eq!(wq.name(), name);
            assert!(format!("{wq:?}").contains(name));
        }
        let what_is_closed = || [&wq, &closed, &destroyed].map(Workqueue::is_closed);
        assert_eq!(what_is_closed(), [false, false, true]);
        assert!(procfs::other_tasks().is_empty(), "nothing was made for that");
        // The same as of the queues that it has when it uses them.
        [&wq, &closed, &destroyed].into_iter().for_each(Workqueue::flush);
        assert_eq!(what_is_closed(), [false, false, true]);
        assert!(format!("{wq:?}").contains("looked at"));
    });
    assert_eq!(status, 0);
    let status = sys::fork(|| {
        joined(managed("another").queue(|| ()));
        assert!(!wq.is_closed());
        cmwq::shutdown(PATIENCE).unwrap();
        assert!(wq.is_closed(), "it would be");
        wq.flush();
        assert!(wq.is_closed(), "it is");
    });
    assert_eq!(status, 0);
    assert!(!wq.is_closed() && closed.is_closed() && destroyed.is_closed());
}
