//! Timers: an armed item is not forgotten, whatever the service thread is doing when it is armed.

use std::time::Duration;

use cmwq_core::Closed;
use shuttle::thread;

use super::{Pods, check};
use crate::DelayedWork;
use crate::api::workqueue::Workqueue;
use crate::os::sync::{Arc, AtomicU32, Ordering, lock};

const SOON: Duration = Duration::from_millis(1);
const LATER: Duration = Duration::from_millis(100);

#[test]
fn a_delayed_item_runs() {
    check(Pods::One, |world| {
        let wq = world.managed();
        assert_eq!(wq.queue_delayed(|| 1, SOON).join().unwrap(), 1);
    });
}

/// The second is due before the one that the service has planned for.
#[test]
fn a_shorter_delay_wakes_the_service_sooner() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let other = {
            let wq = wq.clone();
            thread::spawn(move || wq.queue_delayed(|| 1, LATER).join().unwrap())
        };
        let soon = wq.queue_delayed_on(1, || 2, SOON);
        let now = wq.queue_delayed(|| 3, Duration::ZERO);
        assert_eq!(soon.join().unwrap() + now.join().unwrap(), 5);
        assert_eq!(other.join().unwrap(), 1);
    });
}

/// An armed timer keeps its queue in being; its item is the last to know the queue.
#[test]
fn a_timer_outlives_the_handles_of_its_queue() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let late = wq.queue_delayed(|| 1, SOON);
        drop(wq);
        assert_eq!(late.join().unwrap(), 1);
    });
}

/// The timer has the last handle of its queue, and its item waits for another timer: whoever takes
/// the queue down, which takes until the item is done, it is not the service.
#[test]
fn an_item_of_a_timer_waits_for_another_timer() {
    check(Pods::One, |world| {
        let (wq, other) = (world.percpu(), world.percpu());
        let late = wq.queue_delayed(move || other.queue_delayed(|| 1, SOON).join().unwrap(), SOON);
        drop(wq);
        assert_eq!(late.join().unwrap(), 1);
    });
}

/// A closure that its queue refuses has the last handle of another queue, whose item waits for
/// another timer: it is not the service that lets go of the closure.
#[test]
fn a_refused_closure_has_the_last_handle_of_a_queue() {
    check(Pods::One, |world| {
        let (refuses, held, other) = (world.percpu(), world.percpu(), world.percpu());
        let running = held.queue(move || other.queue_delayed(|| 1, LATER).join().unwrap());
        refuses.handle().close(Closed::DESTROYING);
        let refused = refuses.queue_delayed(move || drop(held), SOON);
        assert_eq!(running.join().unwrap(), 1);
        assert!(refused.join().unwrap_err().is_refused());
    });
}

/// Armed while all is shut down: it is refused, or found and discarded.
#[test]
fn none_is_armed_when_all_is_shut() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let arming = {
            let wq = wq.clone();
            thread::spawn(move || wq.queue_delayed(|| 1, LATER))
        };
        wq.handle().close(Closed::SHUT);
        world.runtime.service.discard_timers(world.runtime, None);
        let late = arming.join().unwrap();
        assert!(lock(&world.runtime.service.timers).is_empty(), "it is armed");
        assert!(late.join().unwrap_err().is_refused());
    });
}

/// C's way to take a queue down waits for no timer: the item of one that expires meanwhile has run
/// when that is done, or is refused.
fn expires_while_destroyed(wq: &Workqueue, is_used: bool) {
    let count = Arc::new(AtomicU32::new(0));
    if is_used {
        wq.queue_on(0, || ()).join().unwrap();
    }
    let up = || {
        let count = Arc::clone(&count);
        move || count.fetch_add(1, Ordering::Relaxed)
    };
    let late = [(); 2].map(|()| wq.queue_delayed_on(0, up(), SOON));
    thread::yield_now();
    wq.handle().destroy();
    let ran = count.load(Ordering::Relaxed);
    let ended = late.into_iter().map(|late| late.join()).filter_map(Result::ok).count();
    assert_eq!(ended, ran as usize, "what is let in runs before the queue has gone");
}

#[test]
fn a_timer_expires_while_its_queue_is_destroyed() {
    check(Pods::One, |world| expires_while_destroyed(&world.percpu(), true));
}

#[test]
fn a_timer_expires_while_its_queue_is_destroyed_that_was_never_used() {
    check(Pods::One, |world| expires_while_destroyed(&world.percpu(), false));
}

#[test]
fn a_timer_expires_while_its_unbound_queue_is_destroyed() {
    check(Pods::One, |world| {
        expires_while_destroyed(&world.queue(|builder| builder.unbound().nice(5)), true);
    });
}

/// A queue is destroyed behind its timers, while the item of one queues and delays others, and so
/// does a thread: what was taken in is done, and nobody hangs.
#[test]
fn a_queue_is_destroyed_behind_its_timers() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let item = {
            let wq = wq.clone();
            move || (wq.queue(|| 1), wq.queue_delayed(|| 2, SOON))
        };
        let armed = wq.queue_delayed(item, SOON);
        let outside = {
            let wq = wq.clone();
            thread::spawn(move || (wq.queue_delayed(|| 3, SOON), wq.queue(|| 4)))
        };
        wq.handle().destroy_behind_timers();
        assert!(wq.queue(|| 5).join().unwrap_err().is_refused());
        let (chained, armed_again) = armed.join().expect("it was armed before");
        assert_eq!(chained.join().unwrap(), 1, "it is chained, or was queued before");
        let (late, queued) = outside.join().unwrap();
        for (value, item) in [(2, armed_again), (3, late), (4, queued)] {
            match item.join() {
                Ok(joined) => assert_eq!(joined, value),
                Err(error) => assert!(error.is_refused()),
            }
        }
        // Its end does not wait for the handles.
        while !wq.handle().is_going() {
            thread::yield_now();
        }
    });
}

/// One of them is flushed, and its item run: the others are still waited for.
#[test]
fn a_queue_that_is_destroyed_behind_its_timers_waits_for_all() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let runs = Arc::new(AtomicU32::new(0));
        let theirs = Arc::clone(&runs);
        let work = DelayedWork::new(move || _ = theirs.fetch_add(1, Ordering::Relaxed));
        let late = wq.queue_delayed(|| 1, LATER);
        assert!(wq.queue_delayed_work(&work, LATER));
        wq.handle().destroy_behind_timers();
        let flushing = thread::spawn(move || work.flush());
        assert_eq!(late.join().unwrap(), 1);
        flushing.join().unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 1, "it was armed before, too");
    });
}
