//! Freezing and thawing. It is the whole process that freezes, so each test is a scene.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cmwq::{DelayedWork, Work, Workqueue};

use crate::support::scene::{Scene, Stage};
use crate::support::wait::Opened;
use crate::support::{Gate, eventually, joined, managed, occupy, procfs, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("freeze::parks", parks),
    ("freeze::order", order),
    ("freeze::flush", flush),
    ("freeze::created", created),
    ("freeze::cancel", cancel),
    ("freeze::first", first),
    ("freeze::child", child),
];

/// A freezable queue of every kind.
fn freezable(name: &str) -> Vec<Workqueue> {
    let builder = || Workqueue::builder(name).freezable();
    [
        builder().percpu(),
        builder().unbound(),
        builder().managed(),
        builder().ordered(),
        builder().power_efficient(),
    ]
    .into_iter()
    .map(|builder| builder.build().unwrap())
    .collect()
}

fn counting() -> (Work, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = Work::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    (work, runs)
}

/// Conformance (i), first half.
#[test]
fn what_runs_finishes_and_what_is_queued_waits() {
    Stage::new("freeze::parks").play();
}

fn parks() {
    for wq in freezable("parked") {
        let gate = Gate::new();
        let _opened = Opened(&gate);
        let running = occupy(&wq, &gate);
        cmwq::freeze();
        assert!(cmwq::freeze_busy(), "one runs");
        let (work, runs) = counting();
        assert!(wq.queue_work(&work), "queueing goes on");
        assert!(cmwq::freeze_busy());
        gate.open();
        joined(running);
        eventually("nothing is active", || !cmwq::freeze_busy());
        assert!(work.busy().pending && !work.busy().running);
        // Another queue of the same pools is not frozen.
        joined(managed("warm").queue(|| ()));
        joined(Workqueue::builder("warm").percpu().build().unwrap().queue(|| ()));
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        cmwq::thaw();
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(!work.is_pending());
        wq.flush();
    }
}

/// Conformance (i), second half.
#[test]
fn thawing_releases_in_order() {
    Stage::new("freeze::order").play();
}

fn order() {
    let cpu = sys::allowed_cpus()[0];
    for wq in freezable("in order") {
        cmwq::freeze();
        let order = Arc::new(Mutex::new(Vec::new()));
        let handles: Vec<_> = (0..20)
            .map(|i| {
                let order = Arc::clone(&order);
                wq.queue_on(cpu, move || order.lock().unwrap().push(i))
            })
            .collect();
        let _of_ordered = wq.set_max_active(1);
        assert!(order.lock().unwrap().is_empty(), "a changed limit thaws nothing");
        cmwq::thaw();
        handles.into_iter().for_each(joined);
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }
}

#[test]
fn a_flush_of_a_frozen_queue_waits_for_the_thaw() {
    Stage::new("freeze::flush").play();
}

fn flush() {
    for wq in freezable("flushed") {
        cmwq::freeze();
        let (work, runs) = counting();
        wq.queue_work(&work);
        let thawed = Gate::new();
        let flusher = {
            let (wq, thawed) = (wq.clone(), thawed.clone());
            thread::spawn(move || {
                wq.flush();
                thawed.is_open()
            })
        };
        let delayed = wq.queue_delayed(|| (), Duration::from_millis(2));
        // Time passes, timers expire, and nothing of the queue runs.
        joined(managed("clock").queue_delayed(|| (), Duration::from_millis(10)));
        assert!(!flusher.is_finished() && !delayed.is_finished());
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        thawed.open();
        cmwq::thaw();
        assert!(flusher.join().unwrap(), "it returned before the thaw");
        joined(delayed);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn a_queue_made_in_the_frost_is_frozen() {
    Stage::new("freeze::created").play();
}

fn created() {
    cmwq::freeze();
    cmwq::freeze();
    for wq in freezable("newborn") {
        let (work, runs) = counting();
        wq.queue_work(&work);
        joined(managed("warm").queue(|| ()));
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        assert!(!cmwq::freeze_busy());
        cmwq::thaw();
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        cmwq::freeze();
    }
    cmwq::thaw();
}

#[test]
fn what_is_frozen_can_be_cancelled_and_re_timed() {
    Stage::new("freeze::cancel").play();
}

fn cancel() {
    for wq in freezable("cancelled") {
        cmwq::freeze();
        let (work, runs) = counting();
        assert!(wq.queue_work(&work));
        assert!(work.cancel_sync(), "it does not wait for the thaw");
        assert!(wq.queue_work(&work), "and can be queued again");
        let delayed = DelayedWork::new(|| ());
        assert!(wq.queue_delayed_work(&delayed, Duration::ZERO));
        assert!(wq.mod_delayed_work(&delayed, Duration::from_secs(3600)));
        assert!(delayed.cancel());
        cmwq::thaw();
        wq.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

/// It needs no thread, and nothing starts that is queued later.
#[test]
fn a_process_may_be_frozen_before_the_first_use() {
    Stage::new("freeze::first").play();
}

fn first() {
    let before = procfs::other_tasks().len();
    cmwq::freeze();
    assert!(!cmwq::freeze_busy());
    assert_eq!(procfs::other_tasks().len(), before);
    for wq in freezable("first") {
        let (work, runs) = counting();
        assert!(wq.queue_work(&work));
        joined(managed("warm").queue(|| ()));
        assert!(work.is_pending() && !cmwq::freeze_busy());
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        let status = sys::fork(|| {
            joined(wq.queue(|| ()));
        });
        assert_eq!(status, 0, "a child is not frozen");
        cmwq::thaw();
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        cmwq::freeze();
    }
    cmwq::thaw();
}

/// Neither the process nor its child has used anything else.
#[test]
fn the_child_of_a_frozen_process_begins_thawed() {
    Stage::new("freeze::child").play();
}

fn child() {
    cmwq::freeze();
    let status = sys::fork(|| {
        for wq in freezable("child") {
            joined(wq.queue(|| ()));
        }
        cmwq::freeze();
        let status = sys::fork(|| {
            freezable("grandchild").into_iter().for_each(|wq| joined(wq.queue(|| ())));
        });
        assert_eq!(status, 0, "nor is a child's child frozen");
    });
    assert_eq!(status, 0, "a child is not frozen");
    for wq in freezable("parent") {
        let (work, runs) = counting();
        assert!(wq.queue_work(&work));
        joined(managed("warm").queue(|| ()));
        assert!(work.is_pending() && runs.load(Ordering::SeqCst) == 0, "its parent still is");
        assert!(work.cancel());
    }
    cmwq::thaw();
}
