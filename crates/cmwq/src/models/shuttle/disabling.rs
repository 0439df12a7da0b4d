//! Cancelling with waiting, disabling and enabling, against queueing, running and timers.

use std::time::Duration;

use shuttle::thread;

use super::{Count, Pods, check, counter, counting};
use crate::api::work::{DelayedWork, Work};
use crate::os::sync::{Arc, Mutex, lock};

const LATER: Duration = Duration::from_millis(1);

/// After cancel_sync the item is idle, and what it queued itself has not outlived it.
#[test]
fn cancel_sync_against_requeueing() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let (count, own) = (Arc::new(Count::default()), Arc::new(Mutex::new(None::<Work>)));
        let work = Work::new({
            let (wq, count, own) = (wq.clone(), Arc::clone(&count), Arc::clone(&own));
            move || {
                let own = lock(&own).clone();
                if let Some(own) = own.filter(|_| count.up() <= 3) {
                    wq.queue_work(&own);
                }
            }
        });
        *lock(&own) = Some(work.clone());
        assert!(wq.queue_work(&work));
        work.cancel_sync();
        let runs = count.get();
        assert!(work.busy().is_idle());
        wq.flush();
        assert_eq!(count.get(), runs);
        // The item holds itself and its queue.
        drop(lock(&own).take());
    });
}

/// Two cancel and wait, a third queues: whoever returns finds the item not running on his account.
#[test]
fn two_cancel_and_wait() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let (work, count) = counting();
        let queued = u32::from(wq.queue_work(&work));
        let canceller = {
            let work = work.clone();
            thread::spawn(move || u32::from(work.cancel_sync()))
        };
        let again = u32::from(wq.queue_work(&work));
        let mine = u32::from(work.cancel_sync());
        let cancelled = mine + canceller.join().unwrap();
        assert!(work.busy().is_idle());
        assert_eq!(count.get() + cancelled, queued + again);
    });
}

/// One cancels and waits, another enables, once too often, and queues: what was lent for a run that
/// is taken back comes back, so nothing of the item outlives it.
#[test]
fn cancel_sync_against_enabling_too_often() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let (work, count) = counting();
        wq.queue_work(&work);
        let canceller = {
            let work = work.clone();
            thread::spawn(move || _ = work.cancel_sync())
        };
        work.enable();
        wq.queue_work(&work);
        canceller.join().unwrap();
        wq.flush();
        drop((work, wq));
        assert_eq!(Arc::strong_count(&count), 1, "the item is still there");
    });
}

/// Disabled and enabled while others queue: depth and PENDING come out right, and every queueing
/// that succeeded ran or was taken.
#[test]
fn disable_against_queue() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let (work, count) = counting();
        let queuer = {
            let (wq, work) = (wq.clone(), work.clone());
            thread::spawn(move || (0..3).filter(|_| wq.queue_work(&work)).count() as u32)
        };
        let other = {
            let work = work.clone();
            thread::spawn(move || {
                let taken = u32::from(work.disable());
                work.enable();
                taken
            })
        };
        let mut taken = u32::from(work.disable_sync());
        assert!(!wq.queue_work(&work), "disabled at least once");
        assert!(!work.busy().running, "nothing that was queued before runs");
        work.enable();
        taken += other.join().unwrap();
        let queued = queuer.join().unwrap();
        wq.flush();
        assert_eq!(count.get() + taken, queued);
        assert!(wq.queue_work(&work), "enabled as often as disabled");
        wq.flush();
    });
}

/// Its timer armed, expiring or re-armed by another: the time is changed or the item queued, once.
#[test]
fn re_timing_against_expiry() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let (up, count) = counter();
        let work = DelayedWork::new(up);
        assert!(wq.queue_delayed_work(&work, LATER));
        let other = {
            let (wq, work) = (wq.clone(), work.clone());
            thread::spawn(move || u32::from(!wq.mod_delayed_work(&work, LATER)))
        };
        let new = u32::from(!wq.mod_delayed_work(&work, Duration::ZERO)) + other.join().unwrap();
        work.flush();
        wq.flush();
        assert!(!work.is_pending());
        assert_eq!(count.get(), 1 + new, "a re-timed item is queued once instead of once");
    });
}

/// flush_delayed_work against the timer's own expiry and a canceller.
#[test]
fn flushing_a_timer_against_its_expiry() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let (up, count) = counter();
        let work = DelayedWork::new(up);
        assert!(wq.queue_delayed_work(&work, LATER));
        let canceller = {
            let work = work.clone();
            thread::spawn(move || u32::from(work.cancel()))
        };
        work.flush();
        let cancelled = canceller.join().unwrap();
        wq.flush();
        assert!(!work.is_pending());
        assert_eq!(count.get() + cancelled, 1);
    });
}
