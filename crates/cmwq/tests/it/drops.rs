//! The end of queues: the last handle waits for the items, unless an item is where it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{JoinHandle, RcuWork, Workqueue, rcu_read_lock};

use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, eventually, every_kind, joined, managed, percpu, sys, unbound, within};

pub(crate) const SCENES: &[Scene] = &[
    ("drops::by_the_timer", the_timers_handle_is_the_last),
    ("drops::last_handle_in_a_refused_closure", last_handle_in_a_refused_closure),
    ("drops::refused_closures_wait", refused_closures_wait),
    ("drops::ten_thousand", ten_thousand_queues),
];

#[test]
fn dropping_the_last_handle_waits_for_all_items() {
    for wq in every_kind("dropped") {
        let done = Arc::new(AtomicU32::new(0));
        for i in 0..60 {
            let done = Arc::clone(&done);
            let item = move || {
                thread::sleep(Duration::from_micros(i * 50));
                done.fetch_add(1, Ordering::Relaxed);
            };
            drop(wq.queue_on(i as u32, item));
        }
        let clone = wq.clone();
        drop(wq);
        within("the last handle", move || drop(clone));
        assert_eq!(done.load(Ordering::Relaxed), 60);
    }
}

#[test]
fn dropping_waits_for_items_that_items_queue() {
    fn chain(wq: &Workqueue, left: u32, done: &Arc<AtomicU32>) {
        done.fetch_add(1, Ordering::SeqCst);
        if left > 0 {
            let (next, done) = (wq.clone(), Arc::clone(done));
            drop(wq.queue(move || chain(&next, left - 1, &done)));
        }
    }
    for wq in every_kind("chain") {
        let done = Arc::new(AtomicU32::new(0));
        chain(&wq, 50, &done);
        drop(wq);
        eventually("the chain has run", || done.load(Ordering::SeqCst) == 51);
    }
}

#[test]
fn dropping_the_last_handle_inside_of_an_item_works() {
    for wq in every_kind("inside") {
        let (gate, done) = (Gate::new(), Arc::new(AtomicU32::new(0)));
        let others: Vec<_> = (0..10)
            .map(|_| {
                let done = Arc::clone(&done);
                wq.queue(move || done.fetch_add(1, Ordering::SeqCst))
            })
            .collect();
        let handle = {
            let (theirs, gate) = (wq.clone(), gate.clone());
            wq.queue(move || {
                gate.pass();
                drop(theirs);
                1
            })
        };
        drop(wq);
        gate.open();
        assert_eq!(joined(handle), 1);
        assert_eq!(others.into_iter().map(joined).count(), 10);
        assert_eq!(done.load(Ordering::SeqCst), 10);
    }
}

#[test]
fn an_item_may_drop_another_queue() {
    let outer = percpu("outer");
    for inner in every_kind("inner") {
        let done = Arc::new(AtomicU32::new(0));
        let handle = outer.queue({
            let done = Arc::clone(&done);
            move || {
                for _ in 0..20 {
                    let done = Arc::clone(&done);
                    drop(inner.queue(move || {
                        thread::sleep(Duration::from_micros(100));
                        done.fetch_add(1, Ordering::SeqCst);
                    }));
                }
                drop(inner);
                done.load(Ordering::SeqCst)
            }
        });
        assert_eq!(joined(handle), 20);
    }
}

#[test]
fn a_delayed_item_keeps_its_queue() {
    for wq in every_kind("kept") {
        let start = Instant::now();
        let handle = wq.queue_delayed(move || start.elapsed(), Duration::from_millis(20));
        drop(wq);
        assert!(joined(handle) >= Duration::from_millis(20));
    }
}

#[test]
fn queues_come_and_go_while_others_use_them() {
    let threads = (0..4).map(|n| {
        thread::spawn(move || {
            for i in 0..200 {
                let wq = match (n + i) % 3 {
                    0 => managed("short"),
                    1 => percpu("short"),
                    _ => unbound("short"),
                };
                let handles: Vec<_> = (0..5).map(|j| wq.queue_on(j, move || j)).collect();
                drop(wq);
                assert!(handles.iter().all(cmwq::JoinHandle::is_finished));
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    within("queues that come and go", move || {
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_timers_handle_may_be_the_last() {
    Stage::new("drops::by_the_timer").play();
}

/// When the timer has queued its item, the queue's only handle is the timer's. Its end must not be
/// the service thread's business, which has to be there for other timers: here, one that the item
/// waits for.
fn the_timers_handle_is_the_last() {
    let other = managed("other");
    let wq = managed("only the timer's");
    let (began, handle) = (Gate::new(), Gate::new());
    let item = wq.queue_delayed(
        {
            let (began, may_wait) = (began.clone(), handle.clone());
            move || {
                began.open();
                may_wait.pass();
                joined(other.queue_delayed(|| 5, Duration::from_millis(5)))
            }
        },
        Duration::from_millis(5),
    );
    drop(wq);
    began.pass();
    handle.open();
    assert_eq!(joined(item), 5);
}

/// Opens a gate when it is dropped.
struct Opens(Gate);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Passes a gate when it is dropped.
struct Passes(Gate);

impl Drop for Passes {
    fn drop(&mut self) {
        self.0.pass();
    }
}

/// Waits for a closure that is refused, when it is dropped.
pub(crate) struct Joins(pub(crate) Option<JoinHandle<()>>);

impl Drop for Joins {
    fn drop(&mut self) {
        let handle = self.0.take().unwrap();
        assert!(handle.join().unwrap_err().is_refused());
    }
}

const SOON: Duration = Duration::from_millis(5);

/// Timers are armed for its items, which it refuses when they expire.
fn refusing() -> Workqueue {
    let wq = managed("refuses");
    wq.clone().close().wait();
    wq
}

#[track_caller]
fn assert_refused(handle: JoinHandle<()>) {
    let outcome = handle.join_timeout(PATIENCE).expect("whoever waits is told");
    assert!(outcome.unwrap_err().is_refused());
}

#[test]
fn a_refused_closure_may_have_the_last_handle() {
    Stage::new("drops::last_handle_in_a_refused_closure").play();
}

/// When its timer expires, a closure is refused that has the last handle of another queue. An item
/// of that queue runs, and waits for a timer: for that the service thread has to be there.
fn last_handle_in_a_refused_closure() {
    let (held, other) = (managed("held"), managed("other"));
    let is_dropped = Gate::new();
    let running = held.queue({
        let is_dropped = is_dropped.clone();
        move || {
            is_dropped.pass();
            joined(other.queue_delayed(|| 5, SOON))
        }
    });
    let captured = (Opens(is_dropped), held);
    let refused = refusing().queue_delayed(move || drop(captured), SOON);
    assert_eq!(joined(running), 5);
    assert_refused(refused);
}

#[test]
fn what_refused_closures_captured_may_wait_when_it_is_dropped() {
    Stage::new("drops::refused_closures_wait").play();
}

/// Timers go on, and other closures are refused, the one that is waited for included.
fn refused_closures_wait() {
    let (refuses, other) = (refusing(), managed("other"));
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let passes = Passes(gate.clone());
    let first = refuses.queue_delayed(move || drop(passes), SOON);
    let joins = Joins(Some(refuses.queue_delayed(|| (), 3 * SOON)));
    let second = refuses.queue_delayed(move || drop(joins), 2 * SOON);
    assert_refused(second);
    assert_eq!(joined(other.queue_delayed(|| 1, SOON)), 1);
    assert!(!first.is_finished(), "what it captured is still being dropped");
    gate.open();
    assert_refused(first);
}

#[test]
fn a_refused_rcu_item_may_have_the_last_handle() {
    let (refuses, held) = (managed("refuses"), managed("held"));
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let running = held.queue({
        let gate = gate.clone();
        move || gate.pass()
    });
    let work = RcuWork::new(move || drop(held.clone()));
    let section = rcu_read_lock();
    assert!(refuses.queue_rcu_work(&work));
    drop(work);
    refuses.close().wait();
    // Whoever ends the grace period does not wait for the item.
    drop(section);
    gate.open();
    joined(running);
}

#[test]
fn many_queues_cost_little() {
    Stage::new("drops::ten_thousand").play();
}

fn ten_thousand_queues() {
    let threads = || crate::support::procfs::other_tasks().len();
    joined(managed("warm").queue(|| ()));
    let before = threads();
    // A few workers and a sentinel for each CPU.
    let few = 16 + 8 * sys::allowed_cpus().len();
    let queues: Vec<_> = (0..10_000).map(|i| managed(&format!("queue {i}"))).collect();
    // The watchdog's thread may be among them: it is made when an item first has to wait, as the
    // one above may have had to.
    assert!(threads() <= before + few, "a queue has no thread of its own");
    let handles: Vec<_> = queues.iter().enumerate().map(|(i, wq)| wq.queue(move || i)).collect();
    for (i, handle) in handles.into_iter().enumerate() {
        assert_eq!(joined(handle), i);
    }
    within("dropping ten thousand queues", move || drop(queues));
    assert!(threads() <= before + few, "{} threads for empty items", threads());
    // Their places are used again.
    for wq in every_kind("afterwards") {
        assert_eq!(joined(wq.queue(|| 1)), 1);
    }
}
