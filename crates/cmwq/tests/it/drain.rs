//! Draining: the queue's own items may queue, nobody else.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use cmwq::{DelayedWork, Refused, Work, Workqueue};

use crate::support::wait::{Opened, within};
use crate::support::{Gate, eventually, joined, managed, percpu, procfs, sys, unbound};

fn counter() -> (Work, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = Work::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    (work, runs)
}

/// Begins to drain, and returns when the drainer waits.
fn drainer(wq: &Workqueue) -> thread::JoinHandle<()> {
    let (send, receive) = std::sync::mpsc::channel();
    let wq = wq.clone();
    let drainer = thread::spawn(move || {
        send.send(sys::gettid()).unwrap();
        wq.drain();
    });
    let tid = receive.recv().unwrap();
    eventually("the drainer waits", || procfs::rests(tid));
    drainer
}

/// Conformance (h).
#[test]
fn chained_items_are_let_in_and_waited_for() {
    for again in [1, 8, 25] {
        let wq = managed("chained");
        let (runs, own) = (Arc::new(AtomicU32::new(0)), Arc::new(OnceLock::<Work>::new()));
        let work = Work::new({
            let (runs, own, wq) = (Arc::clone(&runs), Arc::clone(&own), wq.clone());
            move || {
                if runs.fetch_add(1, Ordering::SeqCst) < again {
                    assert!(wq.queue_work(own.get().unwrap()));
                }
            }
        });
        own.set(work.clone()).unwrap();
        assert!(wq.queue_work(&work));
        let queue = wq.clone();
        within("drain", move || queue.drain());
        assert_eq!(runs.load(Ordering::SeqCst), again + 1);
        assert!(wq.queue_work(&work), "open again");
        wq.flush();
        assert_eq!(runs.load(Ordering::SeqCst), again + 2);
    }
}

/// Items that queue each other from one CPU to the other and back: each of the queue's pwqs is idle
/// at times, and the queue never.
#[test]
fn a_chain_over_all_cpus_is_waited_for() {
    const HOPS: u32 = 5_000;
    fn hop(wq: &Workqueue, hops: &Arc<AtomicU32>, cpus: &Arc<[u32]>) {
        let now = hops.fetch_add(1, Ordering::SeqCst);
        if now < HOPS {
            let (queue, hops, cpus) = (wq.clone(), Arc::clone(hops), Arc::clone(cpus));
            let cpu = cpus[now as usize % cpus.len()];
            drop(wq.queue_on(cpu, move || hop(&queue, &hops, &cpus)));
        }
    }
    let cpus: Arc<[u32]> = sys::allowed_cpus().into();
    for wq in [percpu("hops"), managed("hops"), unbound("hops")] {
        let hops = Arc::new(AtomicU32::new(0));
        let (queue, theirs, cpus) = (wq.clone(), Arc::clone(&hops), Arc::clone(&cpus));
        drop(wq.queue(move || hop(&queue, &theirs, &cpus)));
        within("drain", move || wq.drain());
        assert_eq!(hops.load(Ordering::SeqCst), HOPS + 1);
    }
}

#[test]
fn an_item_may_queue_others_of_its_queue() {
    let wq = managed("peers");
    let (peer, runs) = counter();
    let (queue, theirs) = (wq.clone(), peer.clone());
    let first = wq.queue(move || queue.queue_work(&theirs));
    wq.drain();
    assert!(joined(first));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Dropped, said once, `true` returned as Linux does, and the item is idle: it can be queued again.
#[test]
fn outsiders_are_turned_away() {
    let (wq, other) = (managed("closed"), managed("elsewhere"));
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let last = wq.queue(move || theirs.pass());
    let drainer = drainer(&wq);
    let (work, runs) = counter();
    assert!(wq.queue_work(&work), "as the kernel says");
    assert!(work.busy().is_idle(), "but it was dropped");
    assert!(wq.queue_work(&work), "and PENDING did not leak");
    let notices = cmwq::notices();
    let said = notices.iter().find(|said| said.contains("takes only what its own items queue"));
    // Which test's item was the first to be refused is not known here.
    assert!(said.is_some_and(|said| said.contains(" was not queued")), "{notices:?}");
    let closure = wq.queue(|| ());
    assert!(closure.join().unwrap_err().is_refused());
    // An item of another queue is an outsider, too.
    let (queue, theirs) = (wq.clone(), work.clone());
    assert!(joined(other.queue(move || queue.queue_work(&theirs))));
    assert!(work.busy().is_idle());
    gate.open();
    joined(last);
    drainer.join().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(wq.queue_work(&work));
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1, "open again");
}

/// Conformance (o): a timer that expires during a drain finds the queue closed, and the item is
/// idle and can be cancelled, queued and flushed.
#[test]
fn a_timer_that_expires_during_a_drain_leaves_the_item_idle() {
    let wq = managed("timer");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let last = wq.queue(move || theirs.pass());
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = DelayedWork::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    let drainer = drainer(&wq);
    assert!(wq.queue_delayed_work(&work, Duration::from_millis(2)), "arming asks nobody");
    let delayed = wq.queue_delayed(|| (), Duration::from_millis(2));
    assert_eq!(delayed.join().unwrap_err().why(), Some(Refused::Draining), "its handle is told");
    eventually("its timer has expired", || !work.is_pending());
    assert!(!work.cancel_sync(), "idle, and cancelling does not hang");
    gate.open();
    joined(last);
    drainer.join().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(wq.queue_delayed_work(&work, Duration::ZERO));
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn draining_does_not_wait_for_timers() {
    let wq = managed("armed");
    let work = DelayedWork::new(|| ());
    assert!(wq.queue_delayed_work(&work, Duration::from_secs(3600)));
    wq.drain();
    assert!(work.is_pending());
    assert!(work.cancel());
}

#[test]
fn several_drain_at_once_and_the_last_opens_it() {
    let wq = managed("drainers");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let last = wq.queue(move || theirs.pass());
    let drainers: Vec<_> = (0..4).map(|_| drainer(&wq)).collect();
    assert!(wq.queue(|| ()).join().unwrap_err().is_refused());
    gate.open();
    joined(last);
    drainers.into_iter().for_each(|drainer| drainer.join().unwrap());
    joined(wq.queue(|| ()));
}

#[test]
fn an_unending_chain_is_said_after_ten_flushes() {
    let wq = Workqueue::builder("unending").ordered().build().unwrap();
    let (stop, own) = (Gate::new(), Arc::new(OnceLock::<Work>::new()));
    let _opened = Opened(&stop);
    let work = Work::new({
        let (stop, own, wq) = (stop.clone(), Arc::clone(&own), wq.clone());
        move || {
            if !stop.is_open() {
                wq.queue_work(own.get().unwrap());
            }
        }
    });
    own.set(work.clone()).unwrap();
    assert!(wq.queue_work(&work));
    let queue = wq.clone();
    let drainer = thread::spawn(move || queue.drain());
    eventually("it is said", || {
        let notices = cmwq::notices();
        notices.iter().any(|said| said.contains("'unending' is not empty after 10 flushes"))
    });
    stop.open();
    drainer.join().unwrap();
}

#[test]
fn a_scope_on_a_draining_queue_ends() {
    let wq = managed("scoped drain");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let last = wq.queue(move || theirs.pass());
    let drainer = drainer(&wq);
    let mut touched = false;
    let outcome = wq.scope(|scope| scope.queue(|| touched = true).join());
    assert!(outcome.is_err(), "it did not run");
    assert!(!touched);
    gate.open();
    joined(last);
    drainer.join().unwrap();
}
