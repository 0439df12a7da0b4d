//! Cancelling against queueing and running.

use std::time::Duration;

use shuttle::thread;

use super::{Count, Pods, check, counting};
use crate::api::work::{DelayedWork, Work};
use crate::os::park::Event;
use crate::os::sync::Arc;

const LATER: Duration = Duration::from_millis(1);

/// Of each successful queueing either the run happens or the cancel says so.
#[test]
fn an_item_is_cancelled_or_runs() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let (work, count) = counting();
        let queuer = {
            let (wq, work) = (wq.clone(), work.clone());
            thread::spawn(move || (0..3).filter(|_| wq.queue_work(&work)).count() as u32)
        };
        let mut cancelled = 0;
        for _ in 0..2 {
            cancelled += u32::from(work.cancel());
        }
        let queued = queuer.join().unwrap();
        work.flush();
        wq.flush();
        assert_eq!(count.get() + cancelled, queued);
        assert!(!work.is_pending());
    });
}

/// Two cancel what a third queues, while the pool is saturated: the item is in the inbox, or on its
/// way.
#[test]
fn two_cancel_what_waits_behind_a_busy_worker() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let (work, count) = counting();
        let queuer = {
            let (wq, work) = (wq.clone(), work.clone());
            thread::spawn(move || {
                drop(wq.queue_on(0, || thread::yield_now()));
                drop(wq.queue_on(0, || ()));
                u32::from(wq.queue_work_on(0, &work))
            })
        };
        let canceller = {
            let work = work.clone();
            thread::spawn(move || u32::from(work.cancel()))
        };
        let mine = u32::from(work.cancel());
        let queued = queuer.join().unwrap();
        let cancelled = mine + canceller.join().unwrap();
        wq.flush();
        assert_eq!(count.get() + cancelled, queued);
    });
}

/// A cancelled item's slot goes to the next one, which somebody must come for.
#[test]
fn cancelling_makes_room() {
    check(Pods::One, |world| {
        let wq = world.queue(|builder| builder.unbound().max_active(1));
        let (work, count) = counting();
        let first = wq.queue(|| thread::yield_now());
        let queued = wq.queue_work(&work);
        assert!(queued);
        let last = wq.queue(|| ());
        let cancelled = work.cancel();
        last.join().unwrap();
        first.join().unwrap();
        assert_eq!(count.get() + u32::from(cancelled), 1);
    });
}

/// Armed, expiring, queued or running: a cancel finds it wherever it is, or comes too late.
#[test]
fn a_delayed_item_is_cancelled_or_runs() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let count = Arc::new(Count::default());
        let work = DelayedWork::new({
            let count = Arc::clone(&count);
            move || _ = count.up()
        });
        assert!(wq.queue_delayed_work(&work, LATER));
        let canceller = {
            let work = work.clone();
            thread::spawn(move || u32::from(work.cancel()))
        };
        let mine = u32::from(work.cancel());
        let cancelled = mine + canceller.join().unwrap();
        assert!(!work.is_pending());
        wq.flush();
        assert_eq!(count.get() + cancelled, 1);
    });
}

/// Queued again by its owner as soon as it is idle, with and without delay.
#[test]
fn a_cancelled_item_can_be_queued_again() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let count = Arc::new(Count::default());
        let work = DelayedWork::new({
            let count = Arc::clone(&count);
            move || _ = count.up()
        });
        let queuer = {
            let (wq, work) = (wq.clone(), work.clone());
            thread::spawn(move || {
                u32::from(wq.queue_delayed_work(&work, LATER))
                    + u32::from(wq.queue_delayed_work(&work, Duration::ZERO))
            })
        };
        let mut cancelled = u32::from(work.cancel()) + u32::from(work.cancel());
        let queued = queuer.join().unwrap();
        cancelled += u32::from(work.cancel());
        wq.flush();
        assert_eq!(count.get() + cancelled, queued);
    });
}

/// Somebody waits for an item that another takes off its queue, queued, waiting for a slot, or
/// running.
#[test]
fn a_flush_of_a_cancelled_item_returns() {
    check(Pods::One, |world| {
        let wq = world.queue(|builder| builder.unbound().max_active(1));
        let (work, count) = counting();
        drop(wq.queue(|| thread::yield_now()));
        assert!(wq.queue_work(&work));
        let flusher = {
            let work = work.clone();
            thread::spawn(move || work.flush())
        };
        let cancelled = work.cancel();
        let again = wq.queue_work(&work);
        flusher.join().unwrap();
        wq.flush();
        assert_eq!(count.get() + u32::from(cancelled), 1 + u32::from(again));
    });
}

/// The slot is given back by an item that was left to the worker which runs it already; nobody else
/// was woken for it.
///
/// | worker | others |
/// |---|---|
/// | runs the item, waits for another one | |
/// | | queue the item again: it is the same worker's to run |
/// | | queue the other one: no slot is left |
/// | | cancel the second run: the other one has its slot, and nobody to run it but whoever is woken now |
#[test]
fn cancelling_a_second_run_makes_room() {
    check(Pods::One, |world| {
        let wq = world.queue(|builder| builder.unbound().max_active(2));
        let [running, let_go] = [(); 2].map(|()| Arc::new(Event::new()));
        let work = Work::new({
            let (running, let_go) = (Arc::clone(&running), Arc::clone(&let_go));
            move || {
                running.set();
                let_go.wait(None);
            }
        });
        assert!(wq.queue_work(&work));
        running.wait(None);
        assert!(wq.queue_work(&work));
        drop(wq.queue(move || let_go.set()));
        work.cancel();
        wq.flush();
    });
}

/// A closure is taken back or has its outcome, also one with a timer; what it holds is let go.
#[test]
fn a_closure_is_taken_back_or_runs() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let count = Arc::new(Count::default());
        let counting = || {
            let count = Arc::clone(&count);
            move || count.up()
        };
        let handles = [wq.queue(counting()), wq.queue_delayed(counting(), LATER)];
        let third = wq.queue(counting());
        let canceller = thread::spawn(move || u32::from(third.cancel_sync().is_none()));
        let mut taken_back = 0;
        for handle in handles {
            match handle.cancel_sync() {
                None => taken_back += 1,
                Some(outcome) => drop(outcome.unwrap()),
            }
        }
        taken_back += canceller.join().unwrap();
        wq.flush();
        assert_eq!(count.get() + taken_back, 3);
        assert_eq!(Arc::strong_count(&count), 1);
    });
}
