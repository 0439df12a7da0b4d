//! Flushing queues: everything queued before, nothing that is queued later, any number of flushers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cmwq::{Work, Workqueue};

use crate::support::wait::Opened;
use crate::support::{Gate, eventually, every_kind, joined, managed, procfs, sys, within};

#[test]
fn flush_waits_for_everything_queued_before() {
    for wq in every_kind("flush") {
        wq.flush();
        for round in 1..=20 {
            let done = Arc::new(AtomicU32::new(0));
            for i in 0..50 {
                let done = Arc::clone(&done);
                let item = move || {
                    if i % 10 == 0 {
                        thread::sleep(Duration::from_micros(200));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                };
                drop(wq.queue_on(i % 3, item));
            }
            wq.flush();
            assert_eq!(done.load(Ordering::Relaxed), 50, "round {round}");
        }
    }
}

/// Pools that only the tests below use, one test at a time: a thread that sleeps in a flush there
/// does not wait for a lock that others hold, but for the items.
fn own_pools() -> ([Workqueue; 3], MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let builder = || Workqueue::builder("own").highpri();
    let builders = [builder().managed(), builder().percpu(), builder().unbound()];
    (builders.map(|builder| builder.build().unwrap()), turn)
}

/// Something on a thread of its own that has begun to wait. On a queue of [`own_pools`].
fn begun(wait: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let (tid, waiter) = mpsc::channel();
    let thread = thread::spawn(move || {
        tid.send(sys::gettid()).unwrap();
        wait();
    });
    let tid = waiter.recv().unwrap();
    // After it has told its number there is nothing else to sleep in.
    eventually("the flusher waits", || procfs::rests(tid));
    thread
}

/// A flush that has begun and waits. On a queue of [`own_pools`].
fn begun_flush(wq: &Workqueue) -> JoinHandle<()> {
    let wq = wq.clone();
    begun(move || wq.flush())
}

/// An item behind a gate.
fn behind(wq: &Workqueue, gate: &Gate) -> cmwq::JoinHandle<()> {
    let gate = gate.clone();
    wq.queue(move || gate.pass())
}

#[test]
fn flush_does_not_wait_for_what_comes_later() {
    let ([managed, _, unbound], _turn) = own_pools();
    for wq in [managed, unbound] {
        let (first, later) = (Gate::new(), Gate::new());
        let _opened = (Opened(&first), Opened(&later));
        let earlier: Vec<_> = (0..5).map(|_| behind(&wq, &first)).collect();
        let flusher = begun_flush(&wq);
        let others: Vec<_> = (0..20).map(|_| behind(&wq, &later)).collect();
        assert!(!flusher.is_finished(), "the first items have not finished");
        first.open();
        within("a flush with later items", move || flusher.join().unwrap());
        assert!(earlier.iter().all(cmwq::JoinHandle::is_finished));
        assert!(others.iter().all(|other| !other.is_finished()));
        later.open();
        others.into_iter().for_each(joined);
    }
}

#[test]
fn flush_does_not_wait_for_what_its_items_queue() {
    let ([_, _, wq], _turn) = own_pools();
    let (first, later) = (Gate::new(), Gate::new());
    let _opened = (Opened(&first), Opened(&later));
    let chain = wq.queue({
        let (wq, first, later) = (wq.clone(), first.clone(), later.clone());
        move || {
            first.pass();
            behind(&wq, &later)
        }
    });
    let flusher = begun_flush(&wq);
    first.open();
    within("a flush", move || flusher.join().unwrap());
    let next = joined(chain);
    assert!(!next.is_finished());
    later.open();
    joined(next);
}

#[test]
fn a_flush_waits_for_as_many_runs_as_were_queued() {
    let (queues, _turn) = own_pools();
    for wq in queues {
        let (entered, gate, runs) = (Gate::new(), Gate::new(), Arc::new(AtomicU32::new(0)));
        let _opened = Opened(&gate);
        let work = Work::new({
            let (entered, gate, runs) = (entered.clone(), gate.clone(), Arc::clone(&runs));
            move || {
                entered.open();
                gate.pass();
                runs.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert!(wq.queue_work(&work));
        entered.pass();
        assert!(wq.queue_work(&work));
        let flusher = begun_flush(&wq);
        gate.open();
        within("a flush", move || flusher.join().unwrap());
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn flush_returns_under_continuous_requeueing() {
    for wq in every_kind("requeue") {
        let stop = Arc::new(AtomicBool::new(false));
        let works: Vec<_> = (0..8).map(|_| requeueing(&wq, &stop)).collect();
        for work in &works {
            assert!(wq.queue_work(work));
        }
        for _ in 0..10 {
            let wq = wq.clone();
            within("a flush under load", move || wq.flush());
        }
        for work in &works {
            let work = work.clone();
            within("the flush of an item under load", move || work.flush());
        }
        stop.store(true, Ordering::SeqCst);
        wq.flush();
        wq.flush();
    }
}

/// An item that queues itself until it is stopped.
fn requeueing(wq: &Workqueue, stop: &Arc<AtomicBool>) -> Work {
    let own: Arc<Mutex<Option<Work>>> = Arc::default();
    let work = Work::new({
        let (own, wq, stop) = (Arc::clone(&own), wq.clone(), Arc::clone(stop));
        move || {
            let mut own = own.lock().unwrap();
            if stop.load(Ordering::SeqCst) {
                drop(own.take());
            } else if let Some(work) = own.as_ref() {
                wq.queue_work(work);
            }
        }
    });
    *own.lock().unwrap() = Some(work.clone());
    work
}

#[test]
fn more_flushers_than_colours_all_return() {
    let (queues, _turn) = own_pools();
    for wq in queues {
        let gate = Gate::new();
        let _opened = Opened(&gate);
        let flushers: Vec<_> = (0..40)
            .map(|_| {
                let item = behind(&wq, &gate);
                (begun_flush(&wq), item)
            })
            .collect();
        assert!(flushers.iter().all(|(flusher, _)| !flusher.is_finished()));
        gate.open();
        within("forty flushers", move || {
            for (flusher, item) in flushers {
                flusher.join().unwrap();
                assert!(item.is_finished(), "returned before the item that was queued before");
            }
        });
    }
}

#[test]
fn concurrent_flushers_each_see_their_own_items() {
    for wq in every_kind("own items") {
        let flushers = (0..20).map(|_| {
            let wq = wq.clone();
            thread::spawn(move || {
                for round in 0..40 {
                    let done = Arc::new(AtomicU32::new(0));
                    for _ in 0..3 {
                        let done = Arc::clone(&done);
                        drop(wq.queue(move || done.fetch_add(1, Ordering::Relaxed)));
                    }
                    wq.flush();
                    assert_eq!(done.load(Ordering::Relaxed), 3, "round {round}");
                }
            })
        });
        let flushers: Vec<_> = flushers.collect();
        within("twenty flushers", move || {
            flushers.into_iter().for_each(|flusher| flusher.join().unwrap());
        });
    }
}

#[test]
fn flush_work_waits_for_the_running_and_the_pending_instance() {
    let (queues, _turn) = own_pools();
    for wq in queues {
        let (entered, gate) = (Gate::new(), Gate::new());
        let _opened = Opened(&gate);
        let runs = Arc::new(AtomicU32::new(0));
        let work = Work::new({
            let (entered, gate, runs) = (entered.clone(), gate.clone(), Arc::clone(&runs));
            move || {
                entered.open();
                gate.pass();
                runs.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert!(!work.flush(), "never queued");
        assert!(wq.queue_work(&work));
        entered.pass();
        assert!(wq.queue_work(&work));
        let flushers = [(); 4].map(|()| {
            let (wq, work, runs) = (wq.clone(), work.clone(), Arc::clone(&runs));
            begun(move || {
                assert!(wq.flush_work(&work), "there was something to wait for");
                assert_eq!(runs.load(Ordering::SeqCst), 2);
            })
        });
        gate.open();
        within("flushers of an item", move || {
            flushers.into_iter().for_each(|flusher| flusher.join().unwrap());
        });
        assert!(!work.flush(), "idle again");
    }
}

#[test]
fn items_of_one_queue_flush_another() {
    // A diamond: one item flushes two queues whose items flush a fourth.
    let [top, left, right, bottom] = ["top", "left", "right", "bottom"].map(managed);
    for _ in 0..50 {
        let done = Arc::new(AtomicU32::new(0));
        let side = |queue: &Workqueue| {
            let (queue, bottom, done) = (queue.clone(), bottom.clone(), Arc::clone(&done));
            move || {
                let (bottom, theirs) = (bottom.clone(), Arc::clone(&done));
                drop(queue.queue(move || {
                    let at_bottom = Arc::clone(&theirs);
                    drop(bottom.queue(move || at_bottom.fetch_add(1, Ordering::SeqCst)));
                    bottom.flush();
                    theirs.fetch_add(10, Ordering::SeqCst);
                }));
                queue.flush();
            }
        };
        let (left, right) = (side(&left), side(&right));
        joined(top.queue(move || {
            left();
            right();
        }));
        top.flush();
        assert_eq!(done.load(Ordering::SeqCst), 22);
    }
}

#[test]
fn many_items_flush_one_item() {
    let wq = managed("flushed by items");
    let (gate, runs) = (Gate::new(), Arc::new(AtomicU32::new(0)));
    let _opened = Opened(&gate);
    let target = Work::new({
        let (gate, runs) = (gate.clone(), Arc::clone(&runs));
        move || {
            gate.pass();
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(wq.queue_work(&target));
    let flushers: Vec<_> = (0..100)
        .map(|i| {
            let (target, runs) = (target.clone(), Arc::clone(&runs));
            let cpus = sys::allowed_cpus();
            wq.queue_on(cpus[i % cpus.len()], move || {
                target.flush();
                runs.load(Ordering::SeqCst)
            })
        })
        .collect();
    drop(wq.queue({
        let gate = gate.clone();
        move || gate.open()
    }));
    for flusher in flushers {
        assert_eq!(joined(flusher), 1);
    }
}
