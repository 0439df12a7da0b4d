//! Waiting: more flushers than colours, what a flush covers, and how waiters wait.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use cmwq::{Work, Workqueue};

use super::{build, cpu, gated, play};
use crate::support::wait::Opened;
use crate::support::{Gate, eventually, joined, procfs, sys};

/// Something on a thread of its own that has begun to wait.
pub(super) fn begun<T: Send + 'static>(wait: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let (tid, waiter) = mpsc::channel();
    let thread = thread::spawn(move || {
        tid.send(sys::gettid()).unwrap();
        wait()
    });
    let tid = waiter.recv().unwrap();
    eventually("somebody waits", || procfs::rests(tid));
    thread
}

fn flusher(wq: &Workqueue, returned: &Arc<AtomicUsize>) -> JoinHandle<()> {
    let (wq, returned) = (wq.clone(), Arc::clone(returned));
    begun(move || {
        wq.flush();
        returned.fetch_add(1, Ordering::SeqCst);
    })
}

/// Sixteen colours let fifteen flushes be under way; the others share the next colour, so they
/// return together with the last of them. Observed: `flush_20_concurrent_fifo`.
#[test]
fn flushers_return_one_by_one_up_to_the_fifteenth() {
    play("conformance::fifo_flushers");
}

pub(super) fn fifo_flushers() {
    const FLUSHERS: usize = 20;
    let wq = build("fifo", cmwq::Builder::ordered);
    let gates: Vec<Gate> = (0..FLUSHERS).map(|_| Gate::new()).collect();
    let started = Arc::new(AtomicUsize::new(0));
    let returned = Arc::new(AtomicUsize::new(0));
    let mut threads = Vec::new();
    for gate in &gates {
        let (gate, started) = (gate.clone(), Arc::clone(&started));
        drop(wq.queue(move || {
            started.fetch_add(1, Ordering::SeqCst);
            gate.pass();
        }));
        threads.push(flusher(&wq, &returned));
    }
    for (k, gate) in (1..).zip(&gates) {
        gate.open();
        let may_return = if k <= 15 || k == FLUSHERS { k } else { 15 };
        eventually("the next item has started", || {
            started.load(Ordering::SeqCst) == (k + 1).min(FLUSHERS)
        });
        eventually("its flushers have returned", || returned.load(Ordering::SeqCst) >= may_return);
        assert_eq!(returned.load(Ordering::SeqCst), may_return, "after item {k}");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Assertion (e), observed: `flush_24_concurrent`. Items end last to first, so nobody returns
/// before the first item, which all wait for.
#[test]
fn no_flusher_returns_before_the_first_item() {
    play("conformance::backward_flushers");
}

pub(super) fn backward_flushers() {
    let wq = build("backward", cmwq::Builder::unbound);
    let returned = Arc::new(AtomicUsize::new(0));
    let (gates, threads): (Vec<_>, Vec<_>) = (0..24)
        .map(|_| {
            let gate = Gate::new();
            let item = gated(&wq, cpu(), &gate);
            ((gate, item), flusher(&wq, &returned))
        })
        .unzip();
    for (gate, item) in gates.into_iter().rev() {
        assert_eq!(returned.load(Ordering::SeqCst), 0, "the first item has not ended");
        gate.open();
        joined(item);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(returned.load(Ordering::SeqCst), 24);
}

/// What an item has queued before the flush began belongs to it. Observed:
/// `flush_wq_item_queues_before_flush`.
#[test]
fn a_flush_covers_what_an_item_queued_before() {
    play("conformance::queued_by_an_item");
}

pub(super) fn queued_by_an_item() {
    let wq = build("queued by an item", cmwq::Builder::percpu);
    let (queued, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let first = wq.queue({
        let (wq, queued, gate) = (wq.clone(), queued.clone(), gate.clone());
        move || {
            let theirs = gate.clone();
            let second = wq.queue(move || theirs.pass());
            queued.open();
            gate.pass();
            second
        }
    });
    queued.pass();
    let returned = Arc::new(AtomicUsize::new(0));
    let thread = flusher(&wq, &returned);
    gate.open();
    thread.join().unwrap();
    assert!(first.is_finished() && joined(first).is_finished());
}

/// A flush of the queue does not wait for what is cancelled meanwhile, but for the others.
/// Observed: `flush_wq_then_cancelled`.
#[test]
fn a_flush_lets_go_of_what_is_cancelled() {
    play("conformance::cancelled_meanwhile");
}

pub(super) fn cancelled_meanwhile() {
    let wq = build("cancelled meanwhile", cmwq::Builder::ordered);
    let gate = Gate::new();
    let blocker = gated(&wq, cpu(), &gate);
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = Work::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    assert!(wq.queue_work(&work));
    let returned = Arc::new(AtomicUsize::new(0));
    let thread = flusher(&wq, &returned);
    assert!(work.cancel());
    assert_eq!(returned.load(Ordering::SeqCst), 0, "the blocker runs");
    gate.open();
    thread.join().unwrap();
    joined(blocker);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// Whoever waits for a BH item sleeps: it may be on the very CPU that the context needs.
#[test]
fn cancel_sync_of_a_running_bh_item_sleeps() {
    play("conformance::bh_cancel_sync");
}

pub(super) fn bh_cancel_sync() {
    let (wq, cpu) = (build("bh", cmwq::Builder::bh), cpu());
    let (entered, gate) = (Gate::new(), Gate::new());
    let work = Work::new({
        let (entered, gate) = (entered.clone(), gate.clone());
        move || {
            entered.open();
            gate.spin();
        }
    });
    assert!(wq.queue_work_on(cpu, &work));
    entered.pass();
    let theirs = work.clone();
    let canceller = begun(move || {
        sys::confine(0, &[cpu]).unwrap();
        theirs.cancel_sync()
    });
    eventually("it is disabled", || !wq.queue_work_on(cpu, &work) && !work.is_pending());
    assert!(!canceller.is_finished());
    gate.open();
    let _was_pending = canceller.join().unwrap();
    assert!(work.busy().is_idle());
}
