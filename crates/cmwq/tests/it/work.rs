//! Reusable items: pending once, one more run if queued while running, never two runs at once.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{Work, Workqueue, current_work};

use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, Peak, eventually, every_kind, gated_work, joined, percpu, sys};

fn ordered(name: &str) -> Workqueue {
    Workqueue::builder(name).ordered().build().unwrap()
}

/// A queue of every kind, ordered included.
fn queues(name: &str) -> Vec<Workqueue> {
    every_kind(name).into_iter().chain([ordered(name)]).collect()
}

#[test]
fn pending_until_its_function_is_entered() {
    for wq in queues("pending") {
        let (entered, gate) = (Gate::new(), Gate::new());
        let _opened = Opened(&gate);
        let (work, runs) = gated_work(&entered, &gate);
        assert!(!work.is_pending());
        assert!(wq.queue_work(&work));
        entered.pass();
        assert!(!work.is_pending(), "it runs");
        assert!(wq.queue_work(&work), "once more");
        assert!(work.is_pending());
        for _ in 0..10 {
            assert!(!wq.queue_work(&work), "pending already");
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        gate.open();
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 2, "once, and once more");
        assert!(!work.is_pending());
        assert!(!work.flush(), "idle");
    }
}

#[test]
fn queued_on_another_cpu_while_running_it_waits_for_its_own_end() {
    let cpus = sys::allowed_cpus();
    let Some([one, other]) = cpus.first_chunk() else { return };
    let wq = percpu("elsewhere");
    let (entered, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let inside = Arc::new(Peak::new());
    let work = Work::new({
        let (entered, gate, inside) = (entered.clone(), gate.clone(), Arc::clone(&inside));
        move || {
            let _inside = inside.enter();
            entered.open();
            gate.pass();
        }
    });
    assert!(wq.queue_work_on(*one, &work));
    entered.pass();
    assert!(wq.queue_work_on(*other, &work));
    // The other CPU's pool serves a later item, so it would have begun the earlier one by now.
    joined(wq.queue_on(*other, || ()));
    assert!(work.is_pending());
    gate.open();
    work.flush();
    assert_eq!((inside.most(), inside.now()), (1, 0));
}

#[test]
fn no_two_runs_at_once_however_it_is_queued() {
    for wq in queues("non-reentrant") {
        let inside = Arc::new(AtomicBool::new(false));
        let (runs, queued) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let work = Work::new({
            let (inside, runs) = (Arc::clone(&inside), Arc::clone(&runs));
            move || {
                assert!(!inside.swap(true, Ordering::SeqCst), "entered while it runs");
                let runs = runs.fetch_add(1, Ordering::SeqCst);
                if runs % 16 == 0 {
                    thread::sleep(Duration::from_micros(100));
                }
                inside.store(false, Ordering::SeqCst);
            }
        });
        let cpus = sys::allowed_cpus();
        let end = Instant::now() + Duration::from_millis(250);
        thread::scope(|s| {
            for i in 0..4 {
                let (wq, work, queued, cpus) = (&wq, &work, &queued, &cpus);
                s.spawn(move || {
                    for n in i.. {
                        let is_mine = wq.queue_work_on(cpus[n % cpus.len()], work);
                        queued.fetch_add(usize::from(is_mine), Ordering::SeqCst);
                        if n % 64 == 0 && Instant::now() >= end {
                            return;
                        }
                    }
                });
            }
        });
        wq.flush();
        assert_eq!(runs.load(Ordering::SeqCst), queued.load(Ordering::SeqCst), "each queueing ran");
    }
}

#[test]
fn what_was_written_before_queueing_is_seen_by_the_run() {
    for wq in queues("visible") {
        let (written, seen) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let work = Work::new({
            let (written, seen) = (Arc::clone(&written), Arc::clone(&seen));
            move || seen.store(written.load(Ordering::Relaxed), Ordering::Relaxed)
        });
        for n in 1..=20_000 {
            written.store(n, Ordering::Relaxed);
            wq.queue_work(&work);
        }
        work.flush();
        assert_eq!(seen.load(Ordering::Relaxed), 20_000, "an event was lost");
    }
}

#[test]
fn an_item_may_queue_itself() {
    for wq in queues("itself") {
        let own: Arc<std::sync::Mutex<Option<Work>>> = Arc::default();
        let (runs, done) = (Arc::new(AtomicU32::new(0)), Gate::new());
        let work = Work::new({
            let (own, runs, done, wq) =
                (Arc::clone(&own), Arc::clone(&runs), done.clone(), wq.clone());
            move || {
                if runs.fetch_add(1, Ordering::SeqCst) == 99 {
                    done.open();
                    return;
                }
                assert!(wq.queue_work(own.lock().unwrap().as_ref().unwrap()));
            }
        });
        *own.lock().unwrap() = Some(work.clone());
        assert!(wq.queue_work(&work));
        done.pass();
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 100);
        drop(own.lock().unwrap().take());
    }
}

#[test]
fn an_item_knows_itself() {
    let wq = percpu("knows itself");
    let seen = Arc::new(std::sync::Mutex::new(None));
    let work = Work::new({
        let seen = Arc::clone(&seen);
        move || *seen.lock().unwrap() = current_work()
    });
    assert!(wq.queue_work(&work));
    work.flush();
    assert_eq!(*seen.lock().unwrap(), Some(work.id()));
    assert_ne!(work.id(), Work::new(|| {}).id());
}

#[test]
fn cancel_takes_a_pending_item_and_leaves_a_running_one() {
    for wq in queues("cancel") {
        let (entered, gate) = (Gate::new(), Gate::new());
        let _opened = Opened(&gate);
        let (work, runs) = gated_work(&entered, &gate);
        assert!(!work.cancel(), "idle");
        assert!(wq.queue_work(&work));
        entered.pass();
        assert!(!work.cancel(), "running only");
        assert!(wq.queue_work(&work));
        assert!(work.cancel(), "running and pending");
        assert!(!work.is_pending());
        assert!(!work.cancel());
        gate.open();
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(wq.queue_work(&work), "a cancelled item can be queued");
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn cancelling_makes_room_for_the_next() {
    // One at a time, so what is behind the running item is inactive.
    let wq = Workqueue::builder("make room").unbound().max_active(1).build().unwrap();
    let (entered, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let (blocker, _) = gated_work(&entered, &gate);
    assert!(wq.queue_work(&blocker));
    entered.pass();
    let never = Work::new(|| panic!("this was cancelled"));
    assert!(wq.queue_work(&never));
    let last = wq.queue(|| 1);
    assert!(never.cancel());
    gate.open();
    assert_eq!(joined(last), 1);
}

#[test]
fn a_queued_item_outlives_its_handles() {
    for wq in queues("outlives") {
        let runs = Arc::new(AtomicU32::new(0));
        for _ in 0..100 {
            let theirs = Arc::clone(&runs);
            let work = Work::new(move || {
                theirs.fetch_add(1, Ordering::SeqCst);
            });
            assert!(wq.queue_work(&work));
        }
        eventually("all have run", || runs.load(Ordering::SeqCst) == 100);
        eventually("all are freed", || Arc::strong_count(&runs) == 1);
    }
}

/// When it is dropped it queues an item of the same closure, and says whether that has run behind a
/// flush.
struct Follows {
    next: Option<(Workqueue, mpsc::Sender<bool>)>,
    may_run: Gate,
    has_run: Arc<AtomicBool>,
}

impl Follows {
    fn into_work(self) -> Work {
        Work::new(move || {
            self.may_run.pass();
            self.has_run.store(true, Ordering::SeqCst);
        })
    }
}

impl Drop for Follows {
    fn drop(&mut self) {
        let Some((wq, said)) = self.next.take() else { return };
        let has_run = Arc::new(AtomicBool::new(false));
        let (may_run, theirs) = (self.may_run.clone(), Arc::clone(&has_run));
        let work = Self { next: None, may_run, has_run: theirs }.into_work();
        assert!(wq.queue_work(&work));
        work.flush();
        let _ = said.send(has_run.load(Ordering::SeqCst));
    }
}

/// Memory that is free is used again at once, here for an item that must not be taken for the one
/// whose run drops the closure.
#[test]
fn what_an_item_captured_may_wait_for_another_one_when_it_is_dropped() {
    for wq in queues("follows").into_iter().filter(|wq| wq.max_active() > 1) {
        let (said, says) = mpsc::channel();
        let may_run = Gate::new();
        let _opened = Opened(&may_run);
        let next = Some((wq.clone(), said));
        let work = Follows { next, may_run: may_run.clone(), has_run: Arc::default() }.into_work();
        assert!(wq.queue_work(&work));
        drop(work);
        // Now the run has the last reference.
        may_run.open();
        assert_eq!(says.recv_timeout(PATIENCE), Ok(true), "{wq:?}");
    }
}

#[test]
fn a_cancelled_item_is_freed() {
    let wq = Workqueue::builder("freed").unbound().max_active(1).build().unwrap();
    let (entered, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let (blocker, _) = gated_work(&entered, &gate);
    assert!(wq.queue_work(&blocker));
    entered.pass();
    let captured = Arc::new(());
    for _ in 0..100 {
        let theirs = Arc::clone(&captured);
        let work = Work::new(move || drop(Arc::clone(&theirs)));
        assert!(wq.queue_work(&work));
        assert!(work.cancel());
    }
    assert_eq!(Arc::strong_count(&captured), 1);
}
