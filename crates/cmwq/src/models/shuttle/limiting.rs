//! `max_active`: never more at once, and no slot is lost.

use shuttle::thread;

use super::{Count, Pods, check};
use crate::api::work::Work;
use crate::api::workqueue::Workqueue;
use crate::engine::threads::current::blocking;
use crate::os::sync::{Arc, Ordering};

/// Items that are counted while they run, at most `limit` at once, in two pods if there are two.
fn run_limited(wq: &Workqueue, limit: u32) {
    let (running, done) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let queuers: Vec<_> = (0..2)
        .map(|cpu| {
            let (wq, running, done) = (wq.clone(), Arc::clone(&running), Arc::clone(&done));
            thread::spawn(move || {
                for _ in 0..2 {
                    let (running, done) = (Arc::clone(&running), Arc::clone(&done));
                    drop(wq.queue_on(cpu, move || {
                        assert!(running.up() <= limit, "more than max_active at once");
                        blocking(|| thread::yield_now());
                        running.0.fetch_sub(1, Ordering::Relaxed);
                        done.up();
                    }));
                }
            })
        })
        .collect();
    for queuer in queuers {
        queuer.join().unwrap();
    }
    wq.flush();
    // An item that found too many has panicked, and is missing here.
    assert_eq!(done.get(), 4);
}

#[test]
fn an_unbound_limit_holds() {
    check(Pods::One, |world| run_limited(&world.queue(|b| b.unbound().max_active(2)), 2));
}

/// The pods of a node share the limit, slot by slot.
#[test]
fn a_limit_holds_across_pods() {
    check(Pods::Two, |world| run_limited(&world.queue(|b| b.managed().max_active(1)), 1));
}

#[test]
fn a_limit_of_two_holds_across_pods() {
    check(Pods::Two, |world| run_limited(&world.queue(|b| b.managed().max_active(2)), 2));
}

/// The slot goes from one pod to the other, whose item is cancelled before it starts, and back to
/// the next in line.
#[test]
fn a_cancelled_item_gives_its_slot_back() {
    check(Pods::Two, |world| {
        let wq = world.queue(|b| b.managed().max_active(1));
        let work = Work::new(|| ());
        let busy = wq.queue_on(1, || ());
        assert!(wq.queue_work_on(0, &work));
        let last = wq.queue_on(1, || 1);
        work.cancel();
        assert_eq!(last.join().unwrap(), 1);
        busy.join().unwrap();
    });
}

/// Two are cancelled at once, and one is not.
#[test]
fn cancelled_items_give_their_slots_back() {
    check(Pods::Two, |world| {
        let wq = world.queue(|b| b.managed().max_active(1));
        let works = [0, 1].map(|cpu| {
            let work = Work::new(|| ());
            assert!(wq.queue_work_on(cpu, &work));
            work
        });
        let last = wq.queue_on(1, || 1);
        let canceller = {
            let work = works[0].clone();
            thread::spawn(move || _ = work.cancel())
        };
        works[1].cancel();
        canceller.join().unwrap();
        assert_eq!(last.join().unwrap(), 1);
    });
}

/// Callers that run functions themselves, and a worker, keep the limit together.
#[test]
fn callers_that_run_keep_the_limit() {
    check(Pods::Two, |world| {
        let wq = world.queue(|builder| builder.managed().max_active(1));
        let at_once = Arc::new(Count::default());
        let one = |at_once: &Count| {
            assert_eq!(at_once.up(), 1, "two run at once");
            thread::yield_now();
            at_once.0.fetch_sub(1, Ordering::Relaxed);
        };
        let callers = [(); 2].map(|()| {
            let (wq, at_once) = (wq.clone(), Arc::clone(&at_once));
            thread::spawn(move || wq.run(|| one(&at_once)).unwrap())
        });
        let theirs = Arc::clone(&at_once);
        wq.queue(move || one(&theirs)).join().unwrap();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}
