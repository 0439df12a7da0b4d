//! Items with a timer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cmwq::{DelayedWork, Workqueue};

use crate::support::scene::{Scene, Stage};
use crate::support::wait::PATIENCE;
use crate::support::{Gate, eventually, every_kind, joined, managed, percpu, procfs, sys};

const MS: Duration = Duration::from_millis(1);
/// A delay that no test waits for.
const FAR: Duration = Duration::from_secs(3_600);

pub(crate) const SCENES: &[Scene] = &[
    ("delayed::slack", slack),
    ("delayed::slack_by_creator", slack_by_creator),
    ("delayed::signals", signals),
];

#[test]
fn never_early() {
    for wq in every_kind("never early") {
        let handles: Vec<_> = [1, 100, 250, 262, 263, 500, 1_000, 2_500, 17_000, 70_000]
            .into_iter()
            .cycle()
            .take(60)
            .map(|us| {
                let (delay, start) = (Duration::from_micros(us), Instant::now());
                let handle = wq.queue_delayed(move || start.elapsed(), delay);
                (delay, handle)
            })
            .collect();
        for (delay, handle) in handles {
            let after = joined(handle);
            assert!(after >= delay, "{after:?} is before {delay:?}");
        }
    }
}

#[test]
fn a_zero_delay_does_not_wait_for_a_timer() {
    let wq = Workqueue::builder("zero").ordered().build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let push = |n: u32| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(n)
    };
    // All are queued by the time of their calls, so they run in the order of these.
    let first = wq.queue_delayed(push(1), Duration::ZERO);
    let second = wq.queue(push(2));
    let third = DelayedWork::new(push(3));
    assert!(wq.queue_delayed_work(&third, Duration::ZERO));
    let fourth = wq.queue(push(4));
    joined(first);
    joined(second);
    joined(fourth);
    assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn shorter_delays_come_first() {
    let wq = Workqueue::builder("by delay").ordered().build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    // Deadlines are two milliseconds apart, the arming of all takes microseconds: should it take
    // longer here, the deadlines are what counts.
    let mut deadlines = Vec::new();
    let handles: Vec<_> = [9, 3, 7, 1, 5, 8, 2, 6, 4, 0]
        .into_iter()
        .map(|rank: u32| {
            let order = Arc::clone(&order);
            let delay = 20 * MS + 2 * rank * MS;
            let before = Instant::now();
            let handle = wq.queue_delayed(move || order.lock().unwrap().push(rank), delay);
            deadlines.push((before + delay, Instant::now() + delay, rank));
            handle
        })
        .collect();
    handles.into_iter().for_each(joined);
    let order = order.lock().unwrap();
    let at = |rank| order.iter().position(|known| *known == rank).unwrap();
    for &(_, latest, first) in &deadlines {
        for &(earliest, _, second) in &deadlines {
            // More than the wheel's resolution apart.
            if earliest.saturating_duration_since(latest) > MS {
                assert!(at(first) < at(second), "{first} after {second}: {order:?}");
            }
        }
    }
}

#[test]
fn a_delayed_item_runs_on_its_cpu() {
    let wq = percpu("delayed on");
    for cpu in sys::allowed_cpus() {
        assert_eq!(joined(wq.queue_delayed_on(cpu, sys::current_cpu, 2 * MS)), cpu);
    }
}

#[test]
fn pending_while_armed_and_queued_once() {
    for wq in every_kind("armed") {
        let runs = Arc::new(AtomicU32::new(0));
        let work = DelayedWork::new({
            let runs = Arc::clone(&runs);
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(!work.is_pending());
        assert!(wq.queue_delayed_work(&work, FAR));
        assert!(work.is_pending());
        assert!(!wq.queue_delayed_work(&work, Duration::ZERO), "its delay is unchanged");
        // Armed later, expired earlier than a delay that had been changed.
        joined(wq.queue_delayed(|| (), MS));
        assert!(work.is_pending() && runs.load(Ordering::Relaxed) == 0);
        assert!(wq.mod_delayed_work(&work, MS), "it was pending");
        // Not if it has run by now: then it is armed for a time that this test does not see.
        let again = wq.queue_delayed_work(&work, FAR);
        eventually("it has run", || runs.load(Ordering::Relaxed) == 1);
        assert_eq!(work.cancel_sync(), again);
        assert!(!work.is_pending());
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn cancelling_an_armed_timer_keeps_it_from_running() {
    for wq in every_kind("cancel timer") {
        let runs = Arc::new(AtomicU32::new(0));
        let work = DelayedWork::new({
            let runs = Arc::clone(&runs);
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(!work.cancel(), "it is idle");
        for _ in 0..100 {
            assert!(wq.queue_delayed_work(&work, FAR));
            assert!(work.cancel());
            assert!(!work.is_pending());
            assert!(!work.cancel());
        }
        assert!(wq.queue_delayed_work(&work, MS), "it can be armed again");
        eventually("it has run", || runs.load(Ordering::Relaxed) == 1);
    }
}

#[test]
fn cancel_races_with_expiry_but_one_wins() {
    for wq in every_kind("cancel race") {
        let runs = Arc::new(AtomicU32::new(0));
        let work = DelayedWork::new({
            let runs = Arc::clone(&runs);
            move || {
                runs.fetch_add(1, Ordering::SeqCst);
            }
        });
        let mut cancelled = 0;
        for i in 0..300 {
            assert!(wq.queue_delayed_work(&work, Duration::from_micros(i % 13 * 50)));
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(i % 17 * 40) {
                std::hint::spin_loop();
            }
            cancelled += u32::from(work.cancel());
            eventually("it is idle", || !work.is_pending());
            work.flush();
        }
        assert_eq!(runs.load(Ordering::SeqCst) + cancelled, 300);
    }
}

#[test]
fn flushing_a_queue_does_not_wait_for_timers_and_flushing_an_item_does_not_wait_for_its() {
    let wq = managed("flush timers");
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = DelayedWork::new(move || {
        theirs.fetch_add(1, Ordering::Relaxed);
    });
    assert!(wq.queue_delayed_work(&work, FAR));
    wq.flush();
    assert!(work.is_pending());
    assert_eq!(runs.load(Ordering::Relaxed), 0, "only its timer is armed");
    work.flush();
    assert!(!work.is_pending());
    assert_eq!(runs.load(Ordering::Relaxed), 1, "queued at once");
}

#[test]
fn a_delayed_item_rearms_itself() {
    let wq = managed("rearm");
    let (done, runs) = (Gate::new(), Arc::new(AtomicU32::new(0)));
    let own: Arc<Mutex<Option<DelayedWork>>> = Arc::default();
    let work = DelayedWork::new({
        let (done, runs, own, wq) = (done.clone(), Arc::clone(&runs), Arc::clone(&own), wq.clone());
        move || {
            if runs.fetch_add(1, Ordering::Relaxed) == 4 {
                done.open();
                return;
            }
            let own = own.lock().unwrap();
            assert!(wq.queue_delayed_work(own.as_ref().unwrap(), MS), "not pending in its run");
        }
    });
    *own.lock().unwrap() = Some(work.clone());
    let start = Instant::now();
    assert!(wq.queue_delayed_work(&work, MS));
    done.pass();
    assert!(start.elapsed() >= 5 * MS);
    work.flush();
    assert_eq!(runs.load(Ordering::Relaxed), 5);
    drop(own.lock().unwrap().take());
}

#[test]
fn ten_thousand_timers() {
    let wq = managed("many timers");
    let start = Instant::now();
    let handles: Vec<_> = (0..10_000_u64)
        .map(|i| {
            let delay = Duration::from_micros(i * 7_919 % 100_000);
            (start.elapsed() + delay, wq.queue_delayed(move || start.elapsed(), delay))
        })
        .collect();
    for (due, handle) in handles {
        let at = joined(handle);
        assert!(at >= due, "{at:?} is before {due:?}");
    }
}

#[test]
fn a_worker_that_a_timer_makes_needed_has_the_programs_timer_slack() {
    Stage::new("delayed::slack").play();
}

/// The first item of a process, and so its pool's first worker, by way of the service thread, whose
/// own timers have no slack.
fn slack() {
    for wq in every_kind("slack") {
        let of_item = joined(wq.queue_delayed(sys::timer_slack_ns, MS));
        assert_eq!(of_item, sys::timer_slack_ns(), "{wq:?}");
    }
}

#[test]
fn where_there_are_rescuers_workers_and_contexts_have_the_programs_timer_slack() {
    Stage::new("delayed::slack_by_creator").play();
}

/// The thread that creates threads then is a child of the service thread.
fn slack_by_creator() {
    let rescued = Workqueue::builder("rescued").mem_reclaim().build().unwrap();
    let bh = Workqueue::builder("bh").bh().build().unwrap();
    for wq in [rescued, bh] {
        let of_item = joined(wq.queue(sys::timer_slack_ns));
        assert_eq!(of_item, sys::timer_slack_ns(), "{wq:?}");
    }
}

#[test]
fn signals_do_not_put_timers_off() {
    Stage::new("delayed::signals").play();
}

/// Handled ones, that the service thread gets more often than its timers expire: a collector stops
/// all threads that way, and so does a change of the user.
fn signals() {
    extern "C" fn ignore(_: i32) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR1, ignore as *const () as usize) };
    let wq = managed("put off");
    joined(wq.queue(|| ()));
    let mut service = None;
    eventually("the service thread has its name", || {
        service = procfs::tid_of("cmwq/service");
        service.is_some()
    });
    sys::send_each_ms(service.unwrap(), libc::SIGUSR1);
    let late = wq.queue_delayed(|| (), 300 * MS);
    let ended = late.join_timeout(PATIENCE).expect("it is put off by each signal");
    ended.unwrap();
}
