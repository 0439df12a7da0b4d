//! What queues tell about themselves: counters, CPU time, congestion; and what items say they do.

use std::thread;
use std::time::Duration;

use cmwq::{Work, Workqueue};

use crate::support::load::burn;
use crate::support::scene::{Scene, Stage};
use crate::support::wait::Opened;
use crate::support::{Gate, eventually, every_kind, joined, percpu, sys, undisturbed};

pub(crate) const SCENES: &[Scene] = &[("stats::cm_wakeup", cm_wakeup)];

#[test]
fn items_are_counted() {
    let bh = Workqueue::builder("counted bh").bh().build().unwrap();
    for wq in every_kind("counted").into_iter().chain([bh]) {
        assert_eq!(wq.stats(), cmwq::Stats::default(), "a new queue has done nothing");
        let cpus = sys::allowed_cpus();
        for n in 0..100 {
            drop(wq.queue_on(cpus[n % cpus.len()], || ()));
        }
        wq.flush();
        let stats = wq.stats();
        assert_eq!((stats.started, stats.completed, stats.cancelled), (100, 100, 0), "{stats}");
        assert_eq!((stats.mayday, stats.rescued), (0, 0), "{stats}");
    }
}

#[test]
fn running_and_cancelled_items_are_told_apart() {
    let wq = Workqueue::builder("told apart").ordered().build().unwrap();
    let (gate, entered) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let running = wq.queue({
        let (gate, entered) = (gate.clone(), entered.clone());
        move || {
            entered.open();
            gate.pass();
        }
    });
    entered.pass();
    let work = Work::new(|| ());
    assert!(wq.queue_work(&work) && work.cancel());
    let stats = wq.stats();
    assert_eq!((stats.started, stats.completed, stats.cancelled), (1, 0, 1), "{stats}");
    gate.open();
    joined(running);
}

/// Of the CPU time that items used, all is counted, and little more: what it takes to run them.
#[test]
fn cpu_time_is_that_of_the_items() {
    let bh = Workqueue::builder("timed bh").bh().build().unwrap();
    for wq in every_kind("timed").into_iter().chain([bh]) {
        // What the machine's host takes between items is taken in the worker's name.
        undisturbed(20, || {
            let before = wq.stats().cpu_time;
            let used: Duration = (0..4)
                .map(|_| {
                    wq.queue(|| {
                        let start = sys::thread_cpu_time();
                        burn(Duration::from_millis(5));
                        sys::thread_cpu_time() - start
                    })
                })
                .map(joined)
                .sum();
            // The worker settles when it goes idle, which is after the item has ended.
            eventually("it is settled", || wq.stats().cpu_time >= before + used);
            let counted = wq.stats().cpu_time - before;
            let is_right = counted < used + Duration::from_millis(5);
            if is_right { Ok(()) } else { Err(format!("{counted:?} for {used:?}")) }
        });
    }
}

#[test]
fn sleeping_uses_no_cpu_time() {
    let wq = percpu("asleep");
    undisturbed(10, || {
        let before = wq.stats().cpu_time;
        joined(wq.queue(|| thread::sleep(Duration::from_millis(50))));
        let used = wq.stats().cpu_time - before;
        if used < Duration::from_millis(10) { Ok(()) } else { Err(format!("{used:?}")) }
    });
}

/// It need not end to be seen.
#[test]
fn cpu_time_of_a_running_item_is_included() {
    let wq = percpu("running");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let item = wq.queue({
        let gate = gate.clone();
        move || gate.spin()
    });
    eventually("it has used some", || wq.stats().cpu_time >= Duration::from_millis(5));
    assert_eq!(wq.stats().completed, 0);
    gate.open();
    joined(item);
}

/// Two queues take turns on one worker: each gets its share, within a few ticks.
#[test]
fn cpu_time_is_divided_between_queues() {
    undisturbed(10, takes_turns);
}

fn takes_turns() -> Result<(), String> {
    let (heavy, light) = (percpu("heavy share"), percpu("light share"));
    let cpu = sys::allowed_cpus()[0];
    let handles: Vec<_> = (0..60)
        .flat_map(|_| {
            [
                heavy.queue_on(cpu, || burn(Duration::from_micros(3_000))),
                light.queue_on(cpu, || burn(Duration::from_micros(300))),
            ]
        })
        .collect();
    handles.into_iter().for_each(joined);
    eventually("all is settled", || {
        let all = heavy.stats().cpu_time + light.stats().cpu_time;
        all >= Duration::from_millis(180)
    });
    let (heavy, light) = (heavy.stats().cpu_time, light.stats().cpu_time);
    if heavy > light * 3 {
        Ok(())
    } else {
        Err(format!("{heavy:?} and {light:?} for 180 and 18 ms"))
    }
}

#[test]
fn a_queue_is_congested_while_items_wait_behind_its_limit() {
    let wq = Workqueue::builder("congested").percpu().max_active(1).build().unwrap();
    let cpus = sys::allowed_cpus();
    assert!(!wq.is_congested(None) && !wq.is_congested(Some(cpus[0])), "nothing was queued");
    let (gate, entered) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let running = wq.queue_on(cpus[0], {
        let (gate, entered) = (gate.clone(), entered.clone());
        move || {
            entered.open();
            gate.pass();
        }
    });
    entered.pass();
    assert!(!wq.is_congested(Some(cpus[0])), "one runs, as it may");
    let waiting = wq.queue_on(cpus[0], || ());
    assert!(wq.is_congested(Some(cpus[0])));
    for &other in &cpus[1..] {
        assert!(!wq.is_congested(Some(other)));
    }
    gate.open();
    joined(running);
    joined(waiting);
    assert!(!wq.is_congested(Some(cpus[0])));
    assert!(!wq.is_congested(Some(u32::MAX)));
}

#[test]
fn workers_woken_for_blocked_ones_are_counted() {
    Stage::new("stats::cm_wakeup").play();
}

fn cm_wakeup() {
    let wq = percpu("wakes");
    let cpu = sys::allowed_cpus()[0];
    // Beside load the first one may sleep at a page fault before it blocks, which counts, too.
    undisturbed(10, || {
        let before = wq.stats().cm_wakeup;
        // It blocks when the other is queued already, so that somebody has to be woken for that.
        let (first, second) = (Gate::new(), Gate::new());
        let blocked = wq.queue_on(cpu, {
            let (first, second) = (first.clone(), second.clone());
            move || {
                first.spin();
                cmwq::blocking(|| second.pass());
            }
        });
        let next = wq.queue_on(cpu, move || second.open());
        first.open();
        joined(next);
        joined(blocked);
        match wq.stats().cm_wakeup - before {
            1 => Ok(()),
            _ => Err(wq.stats().to_string()),
        }
    });
}
