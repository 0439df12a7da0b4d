//! Items that queue themselves: those that know themselves, and functions that run at intervals.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cmwq::{DelayedWork, MissedTicks, Periodic, Tick, Work, Workqueue};

use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, eventually, every_kind, managed, within};

const SHORT: Duration = Duration::from_millis(2);
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(1_000_000);

#[test]
fn an_item_that_knows_itself_queues_itself() {
    for wq in every_kind("cyclic") {
        let left = Arc::new(AtomicU32::new(20));
        let work = Work::new_cyclic(|me| {
            assert!(me.upgrade().is_none(), "it is not there yet");
            let (me, wq, left) = (me.clone(), wq.clone(), Arc::clone(&left));
            move || {
                let me = me.upgrade().expect("it runs");
                if left.fetch_sub(1, Ordering::SeqCst) > 1 {
                    assert!(wq.queue_work(&me));
                }
            }
        });
        assert!(wq.queue_work(&work));
        let weak = work.downgrade();
        drop(work);
        let drained = wq.clone();
        within("drain", move || drained.drain());
        assert_eq!(left.load(Ordering::SeqCst), 0);
        eventually("the last run lets go of it", || weak.upgrade().is_none());
    }
}

#[test]
fn a_delayed_item_that_knows_itself_arms_itself() {
    let wq = managed("cyclic delayed");
    let left = Arc::new(AtomicU32::new(5));
    let make = |me: &cmwq::WeakDelayedWork| {
        let (me, wq, left) = (me.clone(), wq.clone(), Arc::clone(&left));
        move || {
            let me = me.upgrade().expect("it runs");
            if left.fetch_sub(1, Ordering::SeqCst) > 1 {
                assert!(wq.queue_delayed_work(&me, Duration::from_micros(300)));
            }
        }
    };
    let work = DelayedWork::new_cyclic(make);
    assert!(wq.queue_delayed_work(&work, Duration::ZERO));
    eventually("five runs", || left.load(Ordering::SeqCst) == 0);
    assert_eq!(work.downgrade().upgrade().map(|same| same.id()), Some(work.id()));
    eventually("the last one has ended", || work.busy().is_idle());
}

/// A periodic function that sends what each tick tells, and when it came.
fn sending(
    wq: &Workqueue,
    missed: MissedTicks,
    mut then: impl FnMut(&mut Tick) + Send + 'static,
) -> (Periodic, Receiver<(Instant, u64)>) {
    let (send, receive) = mpsc::channel();
    let periodic = Periodic::every(SHORT).missed(missed).start(wq, move |tick| {
        let _ = send.send((Instant::now(), tick.missed()));
        then(tick);
    });
    (periodic, receive)
}

#[test]
fn ticks_come_and_never_early() {
    for wq in every_kind("ticks") {
        let start = Instant::now();
        let (periodic, ticks) = sending(&wq, MissedTicks::Skip, |_| ());
        let mut missed = 0;
        for nth in 1..=5 {
            let (at, more) = ticks.recv_timeout(PATIENCE).unwrap();
            missed += u32::try_from(more).unwrap();
            assert!(at - start >= SHORT * (nth + missed), "tick {nth}, {missed} missed");
        }
        assert!(periodic.is_active());
        within("stop_sync", move || periodic.stop_sync());
        while ticks.try_recv().is_ok() {}
        assert!(ticks.recv().is_err(), "the function is gone with what it holds");
    }
}

/// As many ticks as intervals, once those that were missed have followed.
#[test]
fn missed_ticks_follow_if_they_are_to() {
    let wq = managed("burst");
    let (gate, start) = (Gate::new(), Instant::now());
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let (periodic, ticks) = sending(&wq, MissedTicks::Burst, move |_| theirs.pass());
    ticks.recv_timeout(PATIENCE).unwrap();
    eventually("ticks are missed", || start.elapsed() > SHORT * 10);
    gate.open();
    for nth in 2..=10_u32 {
        let (at, missed) = ticks.recv_timeout(PATIENCE).unwrap();
        assert_eq!(missed, 0);
        assert!(at - start >= SHORT * nth);
    }
    drop(periodic);
}

#[test]
fn missed_ticks_are_told() {
    let wq = managed("skip");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let (_periodic, ticks) = sending(&wq, MissedTicks::Skip, move |_| theirs.pass());
    let (first, _) = ticks.recv_timeout(PATIENCE).unwrap();
    eventually("ten ticks are missed", || first.elapsed() > SHORT * 10);
    gate.open();
    let (_, missed) = ticks.recv_timeout(PATIENCE).unwrap();
    assert!(missed >= 10, "{missed}");
}

#[test]
fn a_function_can_stop_its_own_ticks() {
    let wq = managed("own stop");
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let periodic =
        Periodic::every(Duration::from_micros(300)).first_after(Duration::ZERO).start(&wq, {
            move |tick| {
                if theirs.fetch_add(1, Ordering::SeqCst) == 2 {
                    tick.stop();
                }
            }
        });
    eventually("the third was the last", || !periodic.is_active());
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    let own = Arc::new(OnceLock::<Periodic>::new());
    let inner = Arc::clone(&own);
    let periodic = Periodic::every(SHORT).start(&wq, move |_| {
        if let Some(own) = inner.get() {
            own.stop();
        }
    });
    own.set(periodic).unwrap();
    eventually("it has stopped itself", || !own.get().unwrap().is_active());
}

#[test]
fn a_handle_ends_the_ticks_unless_it_is_detached() {
    let wq = managed("handles");
    let held = Arc::new(());
    let theirs = Arc::clone(&held);
    let periodic = Periodic::every(NEVER).start(&wq, move |_| _ = Arc::strong_count(&theirs));
    assert!(periodic.is_active());
    drop(periodic);
    assert_eq!(Arc::strong_count(&held), 1, "disarmed, and gone");
    let (send, ticks) = mpsc::channel();
    let periodic = Periodic::every(SHORT).start(&wq, move |tick| {
        if send.send(()).is_err() {
            tick.stop();
        }
    });
    periodic.detach();
    for _ in 0..3 {
        ticks.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn dropping_the_last_handle_of_the_queue_with_the_ticks_does_not_wait() {
    let wq = managed("last with its ticks");
    let gate = Gate::new();
    let opened = Opened(&gate);
    let theirs = gate.clone();
    let running = wq.queue(move || theirs.pass());
    let periodic = Periodic::every(NEVER).start(&wq, |_| ());
    drop(wq);
    within("the drop", move || drop(periodic));
    drop(opened);
    running.join().unwrap();
}

#[test]
fn a_panic_does_not_end_the_ticks() {
    let wq = managed("panicking ticks");
    let (_periodic, ticks) = sending(&wq, MissedTicks::Delay, |_| {
        std::panic::resume_unwind(Box::new("expected"));
    });
    for _ in 0..3 {
        ticks.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn stopping_twice_is_stopping() {
    let wq = managed("twice");
    let periodic = Periodic::every(NEVER).first_after(NEVER).deferrable().start(&wq, |_| ());
    for _ in 0..3 {
        periodic.stop();
        periodic.stop_sync();
        assert!(!periodic.is_active());
    }
}

#[test]
#[should_panic(expected = "an interval above zero")]
fn there_is_no_interval_of_nothing() {
    let _ = Periodic::every(Duration::ZERO);
}

/// As often as it can, which is never often enough.
#[test]
fn a_tick_that_is_always_late_ends_with_its_queue() {
    let wq = managed("always late");
    let ticks = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&ticks);
    let every = Periodic::every(Duration::from_nanos(1)).missed(MissedTicks::Burst);
    let periodic = every.start(&wq, move |_| _ = theirs.fetch_add(1, Ordering::SeqCst));
    eventually("it ticks", || ticks.load(Ordering::SeqCst) > 10);
    let draining = wq.drain_async();
    eventually("the queue is empty", || draining.is_over());
    assert!(!periodic.is_active());
}
