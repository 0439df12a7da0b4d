//! Edge cases of single calls, and of two things that happen to one queue at once.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use cmwq::{Attrs, Builder, DelayedWork, Work, Workqueue};

use super::flushes::begun;
use super::{build, computing, cpu, gated, play};
use crate::hotplug::{cast, for_a_cast};
use crate::support::cpus::{confine_all, on_cpus_that_stay};
use crate::support::wait::{Opened, within};
use crate::support::{Gate, eventually, gated_work, joined, sys};

const FAR: Duration = Duration::from_secs(3_600);

/// A drain that has begun to wait for an item behind the gate.
fn draining(wq: &Workqueue) -> thread::JoinHandle<()> {
    let theirs = wq.clone();
    begun(move || theirs.drain())
}

/// Cancelling the second instance must not make anybody forget that the first one runs.
#[test]
fn after_cancelling_the_second_instance_the_first_is_still_waited_for() {
    play("conformance::cancelled_second");
}

pub(super) fn cancelled_second() {
    for kind in [Builder::percpu, Builder::unbound, Builder::managed, Builder::ordered] {
        let wq = build("second cancelled", kind);
        let (entered, gate) = (Gate::new(), Gate::new());
        let _opened = Opened(&gate);
        let (work, _) = gated_work(&entered, &gate);
        assert!(wq.queue_work_on(cpu(), &work));
        entered.pass();
        assert!(wq.queue_work_on(cpu(), &work) && work.cancel());
        assert!(work.busy().running && !work.busy().pending);
        let (theirs, opened) = (work.clone(), gate.clone());
        let flusher = begun(move || (theirs.flush(), opened.is_open()));
        gate.open();
        assert_eq!(flusher.join().unwrap(), (true, true), "it waited until the run ended");
    }
}

/// A timer is not a running item: what a chained item arms is refused when it expires.
#[test]
fn a_timer_of_a_chained_item_is_no_chained_queueing() {
    play("conformance::chained_timer");
}

pub(super) fn chained_timer() {
    let wq = build("chained timer", Builder::managed);
    let (gate, armed) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let delayed = DelayedWork::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    let started = Gate::new();
    let item = wq.queue({
        let (wq, delayed, gate) = (wq.clone(), delayed.clone(), gate.clone());
        let (armed, started) = (armed.clone(), started.clone());
        move || {
            started.pass();
            assert!(
                wq.queue_delayed_work(&delayed, Duration::from_millis(1)),
                "arming asks nobody"
            );
            armed.open();
            gate.pass();
        }
    });
    let drainer = draining(&wq);
    started.open();
    armed.pass();
    eventually("its timer has expired", || !delayed.is_pending());
    gate.open();
    joined(item);
    drainer.join().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(delayed.busy().is_idle() && !delayed.cancel_sync());
}

/// Nor is a BH item a worker's: one that queues itself ends with the drain.
#[test]
fn a_bh_item_is_no_chained_queueing() {
    play("conformance::bh_drain");
}

pub(super) fn bh_drain() {
    let wq = build("bh drain", Builder::bh);
    let (runs, own) = (Arc::new(AtomicU32::new(0)), Arc::new(OnceLock::<Work>::new()));
    let work = Work::new({
        let (runs, own, wq) = (Arc::clone(&runs), Arc::clone(&own), wq.clone());
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
            assert!(wq.queue_work_on(cpu(), own.get().unwrap()), "queued or dropped");
        }
    });
    own.set(work.clone()).unwrap();
    assert!(wq.queue_work_on(cpu(), &work));
    eventually("it goes round", || runs.load(Ordering::SeqCst) > 10);
    let theirs = wq.clone();
    within("a drain of what queues itself", move || theirs.drain());
    assert!(work.busy().is_idle(), "dropped");
    let after = runs.load(Ordering::SeqCst);
    joined(wq.queue_on(cpu(), || ()));
    assert_eq!(runs.load(Ordering::SeqCst), after);
}

/// `flush_delayed_work` of a timer that was armed for a CPU that is not there.
#[test]
fn a_timer_for_a_cpu_that_is_not_there_is_flushed_at_once() {
    play("conformance::flushed_elsewhere");
}

pub(super) fn flushed_elsewhere() {
    for kind in [Builder::percpu, Builder::unbound, Builder::managed] {
        let (wq, runs) = (build("elsewhere", kind), Arc::new(AtomicU32::new(0)));
        let theirs = Arc::clone(&runs);
        let work = DelayedWork::new(move || {
            theirs.fetch_add(1, Ordering::SeqCst);
        });
        assert!(wq.queue_delayed_work_on(4_095, &work, FAR));
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(!work.is_pending() && !work.flush());
    }
}

/// Cancelling, with waiting, what waits behind another item takes it off and waits for nobody.
/// Observed: `cancel_sync_behind_on_ordered`.
#[test]
fn cancel_sync_does_not_wait_for_those_before() {
    play("conformance::cancelled_behind");
}

pub(super) fn cancelled_behind() {
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = Work::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    let (gate, wq) = (Gate::new(), build("behind", Builder::ordered));
    let _opened = Opened(&gate);
    let before = gated(&wq, cpu(), &gate);
    assert!(wq.queue_work(&work) && work.cancel_sync());
    gate.open();
    joined(before);
    let (gate, wq) = (Gate::new(), build("behind", Builder::percpu));
    let _opened = Opened(&gate);
    let before = computing(&wq, cpu(), &gate);
    assert!(wq.queue_work_on(cpu(), &work) && work.cancel_sync());
    gate.open();
    joined(before);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// Attributes change while CPUs leave and return: both work on one view of what is online, so in
/// the end every queue leads where it should, and no item is lost.
#[test]
fn attributes_change_while_cpus_come_and_go() {
    play("conformance::attrs_and_hotplug");
}

pub(super) fn attrs_and_hotplug() {
    let Some((_, leaves, all)) = cast() else { return };
    let rest: Vec<_> = all.iter().copied().filter(|cpu| *cpu != leaves).collect();
    let (free, ordered) = (build("free", Builder::unbound), build("line", Builder::ordered));
    let (runs, stop) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
    let mut queued = 0;
    thread::scope(|s| {
        s.spawn(|| {
            for nice in (0..3).map(sys::nicer).cycle() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                free.apply_attrs(&Attrs::new().nice(nice)).unwrap();
                ordered.apply_attrs(&Attrs::new().nice(nice)).unwrap();
            }
        });
        for round in 0..40 {
            for wq in [&free, &ordered, &free, &ordered] {
                let runs = Arc::clone(&runs);
                drop(wq.queue(move || runs.fetch_add(1, Ordering::SeqCst)));
                queued += 1;
            }
            confine_all(if round % 2 == 0 { &rest } else { &all });
            cmwq::rescan_cpus().unwrap();
        }
        stop.store(true, Ordering::SeqCst);
    });
    free.flush();
    ordered.flush();
    assert_eq!(runs.load(Ordering::SeqCst), queued);
    for wq in [&free, &ordered] {
        on_cpus_that_stay(|cpus| {
            for &cpu in &cpus.here {
                let mask = cmwq::CpuSet::single(cpu);
                wq.apply_attrs(&Attrs::new().cpumask(mask)).unwrap();
                assert_eq!(joined(wq.queue(sys::current_cpu)), cpu);
            }
        });
    }
}

/// As workers do, a BH context returns to its CPU when that does.
#[test]
fn bh_items_return_to_their_cpu() {
    play("conformance::bh_hotplug");
}

pub(super) fn bh_hotplug() {
    let wq = build("bh hotplug", Builder::bh);
    for _ in 0..10 {
        for_a_cast(|stays, leaves, all| {
            let ran_on = || joined(wq.queue_on(leaves, sys::current_cpu));
            assert_eq!(ran_on(), leaves);
            let rest: Vec<_> = all.iter().copied().filter(|cpu| *cpu != leaves).collect();
            confine_all(&rest);
            cmwq::rescan_cpus().unwrap();
            assert!(rest.contains(&ran_on()), "on {stays} or another that is there");
        });
    }
}
