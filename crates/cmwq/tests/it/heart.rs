//! The heart: a worker that blocks, in whatever way, makes room for the next item at once.
//!
//! Each scene is played for each source of detection, as this user and as one without privileges.

use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::cpus::keep_to_few_cpus;
use crate::support::load::burn;
use crate::support::scene::{NOBODY, Scene, Stage, skip};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, Peak, eventually, joined, managed, percpu, sys, undisturbed};

pub(crate) const SCENES: &[Scene] = &[
    ("heart::blocks", blocks),
    ("heart::beside_hogs", beside_hogs),
    ("heart::mixed_load", mixed_load),
];

fn play_everywhere(scene: &'static str) {
    for source in ["perf", "sentinel", "tick"] {
        Stage::new(scene).detect(source).play();
        if sys::is_root() {
            Stage::new(scene).detect(source).user(NOBODY).play();
        }
    }
}

#[test]
fn a_blocked_item_makes_room() {
    play_everywhere("heart::blocks");
}

#[test]
fn a_blocked_item_makes_room_beside_busy_programs() {
    play_everywhere("heart::beside_hogs");
}

#[test]
fn a_mixed_load_computes_on_as_many_cpus_as_there_are() {
    play_everywhere("heart::mixed_load");
}

/// Whether switch records were asked for and refused: then there is nothing to test here.
fn is_perf_refused() -> bool {
    joined(percpu("probe").queue(|| ()));
    let refusal = cmwq::notices().into_iter().find(|text| text.contains("switch records"));
    if let Some(refusal) = &refusal {
        skip(refusal);
    }
    refusal.is_some()
}

/// Blocks until `free` is called on the other end.
type Way = (&'static str, fn() -> (Box<dyn FnOnce() + Send>, Box<dyn FnOnce() + Send>));

const WAYS: [Way; 3] = [
    ("a pipe", || {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let block = move || reader.read_exact(&mut [0]).unwrap();
        let free = move || writer.write_all(&[1]).unwrap();
        (Box::new(block), Box::new(free))
    }),
    ("a mutex", || {
        let mutex = Arc::new(Mutex::new(()));
        let (held, free) = (Gate::new(), Gate::new());
        let holder = thread::spawn({
            let (mutex, held, free) = (Arc::clone(&mutex), held.clone(), free.clone());
            move || {
                let _guard = mutex.lock().unwrap();
                held.open();
                free.pass();
            }
        });
        held.pass();
        let block = move || drop(mutex.lock().unwrap());
        let free = move || {
            free.open();
            holder.join().unwrap();
        };
        (Box::new(block), Box::new(free))
    }),
    ("a condition", || {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = Arc::clone(&pair);
        let block = move || {
            let (lock, condition) = &*theirs;
            let free = lock.lock().unwrap();
            let (free, _) = condition.wait_timeout_while(free, PATIENCE, |free| !*free).unwrap();
            assert!(*free, "nobody came");
        };
        let free = move || {
            *pair.0.lock().unwrap() = true;
            pair.1.notify_all();
        };
        (Box::new(block), Box::new(free))
    }),
];

/// On one CPU, or on all: what frees the blocked items is an item behind them, which can only run
/// if their blocking is noticed.
fn blocks_until_the_next_item(times: usize) {
    for (name, way) in WAYS {
        for cpu in sys::allowed_cpus() {
            let wq = percpu(name);
            for _ in 0..times {
                let (block, free) = way();
                let blocked = wq.queue_on(cpu, block);
                joined(wq.queue_on(cpu, free));
                joined(blocked);
            }
        }
        let wq = managed(name);
        for _ in 0..times {
            let pairs: Vec<_> = sys::allowed_cpus().iter().map(|_| way()).collect();
            let (blocks, frees): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let blocked: Vec<_> = blocks.into_iter().map(|block| wq.queue(block)).collect();
            joined(wq.queue(|| frees.into_iter().for_each(|free| free())));
            blocked.into_iter().for_each(joined);
        }
    }
}

fn blocks() {
    if is_perf_refused() {
        return;
    }
    blocks_until_the_next_item(20);
    // Nothing can end a sleep early, so here the next item must start before its end. On a machine
    // that others keep busy it may come too late now and then.
    for cpu in sys::allowed_cpus() {
        let in_time = (0..5).any(|_| starts_during_a_sleep(cpu));
        assert!(in_time, "items behind a sleeper on CPU {cpu} start after it");
    }
}

fn starts_during_a_sleep(cpu: u32) -> bool {
    let wq = percpu("sleeps");
    let (entered, awake) = (Gate::new(), Gate::new());
    let sleeper = wq.queue_on(cpu, {
        let (entered, awake) = (entered.clone(), awake.clone());
        move || {
            entered.open();
            thread::sleep(Duration::from_millis(300));
            awake.open();
        }
    });
    entered.pass();
    let was_awake = joined(wq.queue_on(cpu, move || awake.is_open()));
    joined(sleeper);
    !was_awake
}

/// As [`blocks`], while other programs keep every CPU busy, so that it never goes idle.
fn beside_hogs() {
    keep_to_few_cpus();
    if is_perf_refused() {
        return;
    }
    let stop = Gate::new();
    thread::scope(|s| {
        let _opened = Opened(&stop);
        for cpu in sys::allowed_cpus() {
            let stop = &stop;
            s.spawn(move || {
                sys::confine(0, &[cpu]).unwrap();
                stop.spin();
            });
        }
        blocks_until_the_next_item(3);
    });
}

/// Items that compute, then block, by the hundred.
fn mixed_load() {
    if is_perf_refused() {
        return;
    }
    let wq = managed("mixed");
    undisturbed(10, || compute_then_sleep(&wq));
}

fn compute_then_sleep(wq: &cmwq::Workqueue) -> Result<(), String> {
    let cpus = sys::allowed_cpus().len();
    let (computing, alive) = (Arc::new(Peak::new()), Arc::new(Peak::new()));
    // Where many CPUs take turns on few, items would end sooner than others are queued.
    let more_start = Gate::new();
    let handles: Vec<_> = (0..200.max(2 * cpus))
        .map(|_| {
            let (computing, alive) = (Arc::clone(&computing), Arc::clone(&alive));
            let more_start = more_start.clone();
            wq.queue(move || {
                let _alive = alive.enter();
                if alive.most() > cpus {
                    more_start.open();
                }
                let inside = computing.enter();
                burn(Duration::from_millis(1));
                drop(inside);
                // Fails if none starts while others sleep.
                more_start.pass();
                thread::sleep(Duration::from_millis(5));
            })
        })
        .collect();
    handles.into_iter().for_each(joined);
    eventually("all have left", || alive.now() == 0);
    let most = computing.most();
    if most <= cpus { Ok(()) } else { Err(format!("{most} computed on {cpus} CPUs")) }
}
