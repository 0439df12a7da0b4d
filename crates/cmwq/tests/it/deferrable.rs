//! Deferrable timers: as others, but nothing wakes for them. That an idle process sleeps on is in
//! `idle`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cmwq::{DelayedWork, Workqueue};

use crate::support::{eventually, every_kind, joined, managed};

const MS: Duration = Duration::from_millis(1);
/// A delay that no test waits for.
const FAR: Duration = Duration::from_secs(3_600);

fn counting() -> (DelayedWork, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = DelayedWork::deferrable(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    (work, runs)
}

#[test]
fn never_early_and_with_the_next_activity() {
    for wq in every_kind("deferred") {
        let (start, at) = (Instant::now(), Arc::new(Mutex::new(None)));
        let work = DelayedWork::deferrable({
            let at = Arc::clone(&at);
            move || *at.lock().unwrap() = Some(start.elapsed())
        });
        assert!(wq.queue_delayed_work(&work, 10 * MS));
        // Any item of any queue will do: its worker goes to sleep afterwards.
        eventually("it has run", || {
            joined(wq.queue(|| ()));
            at.lock().unwrap().is_some()
        });
        let after = at.lock().unwrap().unwrap();
        assert!(after >= 10 * MS, "{after:?} is early");
    }
}

#[test]
fn another_timer_brings_it_along() {
    let wq = managed("brought along");
    let (work, runs) = counting();
    assert!(wq.queue_delayed_work(&work, MS));
    joined(wq.queue_delayed(|| (), 20 * MS));
    eventually("it has run", || runs.load(Ordering::SeqCst) == 1);
}

#[test]
fn what_is_due_comes_in_the_order_of_its_times() {
    let wq = Workqueue::builder("deferred order").ordered().build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let works: Vec<_> = [40, 10, 30, 20, 0]
        .map(|rank: u32| {
            let order = Arc::clone(&order);
            let work = DelayedWork::deferrable(move || order.lock().unwrap().push(rank));
            // Deadlines count from the same time, however long the arming takes.
            let delay = (500 + rank) * MS;
            assert!(wq.queue_delayed_work(&work, delay.saturating_sub(start.elapsed())));
            work
        })
        .into_iter()
        .collect();
    eventually("all have run", || {
        joined(wq.queue(|| ()));
        order.lock().unwrap().len() == works.len()
    });
    assert_eq!(*order.lock().unwrap(), [0, 10, 20, 30, 40]);
}

#[test]
fn it_is_cancelled_re_timed_and_flushed_like_any() {
    let wq = managed("deferred cancel");
    let (work, runs) = counting();
    for _ in 0..100 {
        assert!(wq.queue_delayed_work(&work, FAR));
        assert!(work.is_pending());
        assert!(!wq.queue_delayed_work(&work, FAR), "it is pending");
        assert!(work.cancel());
        assert!(!work.cancel());
    }
    assert!(wq.queue_delayed_work(&work, FAR));
    assert!(wq.mod_delayed_work(&work, MS), "it was armed");
    eventually("it has run", || {
        joined(wq.queue(|| ()));
        runs.load(Ordering::SeqCst) == 1
    });
    assert!(wq.queue_delayed_work(&work, FAR));
    // `false` only if it has run before the flush begins to wait.
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}
