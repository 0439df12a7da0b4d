//! `max_active`, and how many items run at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cmwq::{JoinHandle, Work, Workqueue};

use crate::support::cpus::{Cpus, for_each_cpu, on_cpus_that_stay};
use crate::support::load::burn;
use crate::support::scene::{Scene, Stage};
use crate::support::wait::Opened;
use crate::support::{Gate, Peak, eventually, joined, managed, nodes, percpu, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("limits::two_pods", || {
        assert_unbound_total();
        assert_cancelled_in_line_goes();
    }),
    ("limits::one_at_a_time", one_at_a_time),
    ("limits::as_many_as_cpus", as_many_as_cpus),
    ("limits::managed_start", managed_start),
];

/// Items that wait inside of `inside` until `gate` opens, and note their number when they start.
struct Crowd {
    inside: Arc<Peak>,
    gate: Gate,
    started: Arc<Mutex<Vec<usize>>>,
    handles: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn new() -> Self {
        let (inside, started) = (Arc::new(Peak::new()), Arc::default());
        Self { inside, gate: Gate::new(), started, handles: Vec::new() }
    }

    fn add(&mut self, wq: &Workqueue, cpu: u32) {
        let (inside, gate) = (Arc::clone(&self.inside), self.gate.clone());
        let (number, started) = (self.handles.len(), Arc::clone(&self.started));
        self.handles.push(wq.queue_on(cpu, move || {
            let _inside = inside.enter();
            started.lock().unwrap().push(number);
            gate.pass();
        }));
    }

    /// Waits until as many are inside, which may never be if CPUs come or leave.
    #[track_caller]
    fn grows_to(&self, expected: usize, cpus: &Cpus) {
        let what = format!("{expected} have started");
        eventually(&what, || self.inside.now() == expected || cpus.have_changed());
    }

    fn started(&self) -> Vec<usize> {
        self.started.lock().unwrap().clone()
    }

    fn finish(mut self) -> usize {
        self.gate.open();
        self.handles.drain(..).for_each(joined);
        self.inside.most()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// An item queued afterwards on another queue of the same pool has run: so would any that may.
fn others_have_had_their_turn(wq: &Workqueue, cpu: u32) {
    for _ in 0..5 {
        joined(wq.queue_on(cpu, || ()));
    }
}

/// Raised, more start at once and in order; lowered, nobody is interrupted and nobody new starts
/// until enough have finished.
#[test]
fn max_active_changes_while_items_run() {
    let cpu = sys::allowed_cpus()[0];
    for builder in [
        Workqueue::builder("changing").percpu(),
        Workqueue::builder("changing").unbound(),
        Workqueue::builder("changing").managed(),
    ] {
        let wq = builder.max_active(1).build().unwrap();
        let started = Arc::new(Mutex::new(Vec::new()));
        let gates: Vec<Gate> = (0..6).map(|_| Gate::new()).collect();
        let handles: Vec<_> = (0..6)
            .map(|i| {
                let (gate, started) = (gates[i].clone(), Arc::clone(&started));
                wq.queue_on(cpu, move || {
                    started.lock().unwrap().push(i);
                    gate.pass();
                })
            })
            .collect();
        let nr_started = || started.lock().unwrap().len();
        eventually("the first starts", || nr_started() == 1);
        wq.set_max_active(3).unwrap();
        assert_eq!(wq.max_active(), 3);
        // One node of several would have a part of it. Refused where it is no limit of nodes.
        let _ = wq.set_min_active(3);
        eventually("three have started", || nr_started() == 3);
        wq.set_max_active(1).unwrap();
        let mut handles = handles.into_iter();
        for gate in &gates[..2] {
            gate.open();
            joined(handles.next().unwrap());
            let probe = percpu("probe");
            others_have_had_their_turn(&probe, cpu);
            assert_eq!(nr_started(), 3, "more than one was left of three");
        }
        gates.iter().for_each(Gate::open);
        handles.for_each(joined);
        let mut order = started.lock().unwrap().clone();
        // Those that start together may say so in any order.
        order[1..3].sort_unstable();
        order[3..].sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    }
}

/// Beside `max_active` on each CPU, a per-CPU queue may have a limit for all of them.
#[test]
fn a_percpu_queue_may_have_a_limit_in_all() {
    let builder = Workqueue::builder("in all").percpu().max_active(2).max_active_total(3);
    let wq = builder.build().unwrap();
    on_cpus_that_stay(|cpus| {
        let mut crowd = Crowd::new();
        for _ in 0..10 {
            cpus.here.iter().for_each(|cpu| crowd.add(&wq, *cpu));
        }
        let expected = (2 * cpus.here.len()).min(3);
        crowd.grows_to(expected, cpus);
        let probe = percpu("probe");
        cpus.here.iter().for_each(|cpu| others_have_had_their_turn(&probe, *cpu));
        assert_eq!(crowd.inside.now(), expected);
        assert_eq!(crowd.finish(), expected, "and when others finished, no more than that");
    });
    let refused = Workqueue::builder("no").unbound().max_active_total(3).build();
    assert!(refused.is_err(), "its limit is one for all already");
}

#[test]
fn limits_that_cannot_be_are_clamped_or_refused() {
    let wq = Workqueue::builder("clamped").unbound().build().unwrap();
    assert_eq!((wq.max_active(), wq.min_active()), (1024, 8));
    wq.set_max_active(0).unwrap();
    assert_eq!((wq.max_active(), wq.min_active()), (1, 1), "min_active gives way");
    wq.set_max_active(5000).unwrap();
    assert_eq!((wq.max_active(), wq.min_active()), (2048, 1));
    wq.set_min_active(4000).unwrap();
    assert_eq!(wq.min_active(), 2048, "no more than max_active");
    let notices = cmwq::notices();
    for said in ["max_active 0 of workqueue 'clamped'", "max_active 5000 of workqueue 'clamped'"] {
        assert!(notices.iter().any(|notice| notice.contains(said)), "{notices:?}");
    }
    let ordered = Workqueue::builder("ordered").ordered().build().unwrap();
    assert!(ordered.set_max_active(3).is_err() && ordered.set_min_active(3).is_err());
    assert_eq!(ordered.max_active(), 1);
    assert!(percpu("percpu").set_min_active(3).is_err());
}

#[test]
fn max_active_is_per_cpu_for_percpu_queues() {
    let wq = Workqueue::builder("limited").percpu().max_active(3).build().unwrap();
    let probe = percpu("probe");
    for_each_cpu(|cpu, cpus| {
        let mut crowd = Crowd::new();
        (0..10).for_each(|_| crowd.add(&wq, cpu));
        crowd.grows_to(3, cpus);
        others_have_had_their_turn(&probe, cpu);
        assert_eq!(crowd.started(), [0, 1, 2]);
        assert_eq!(crowd.finish(), 3);
    });
    on_cpus_that_stay(|cpus| {
        let mut crowd = Crowd::new();
        (0..10).for_each(|_| cpus.here.iter().for_each(|&cpu| crowd.add(&wq, cpu)));
        let total = 3 * cpus.here.len();
        crowd.grows_to(total, cpus);
        assert_eq!(crowd.finish(), total);
    });
}

#[test]
fn max_active_is_a_total_for_unbound_queues() {
    assert_unbound_total();
}

/// On any number of pods, and of nodes.
fn assert_unbound_total() {
    for builder in [Workqueue::builder("total").unbound(), Workqueue::builder("total").managed()] {
        let wq = builder.max_active(5).build().unwrap();
        for min_active in [5, 1] {
            wq.set_min_active(min_active).unwrap();
            let probe = managed("probe");
            on_cpus_that_stay(|cpus| {
                let expected = nodes::total_of(5, min_active);
                let mut crowd = Crowd::new();
                (0..10).for_each(|_| cpus.here.iter().for_each(|&cpu| crowd.add(&wq, cpu)));
                crowd.grows_to(expected, cpus);
                cpus.here.iter().for_each(|&cpu| others_have_had_their_turn(&probe, cpu));
                assert_eq!(crowd.inside.now(), expected);
                assert_eq!(crowd.finish(), expected);
            });
        }
    }
}

#[test]
fn pods_of_a_node_share_max_active() {
    if sys::allowed_cpus().len() > 1 {
        Stage::new("limits::two_pods").params("default_affinity_scope=cpu").play();
    }
}

/// An item that waits for a slot that all pods of a node share is cancelled, and its queue dropped.
fn assert_cancelled_in_line_goes() {
    let cpus = sys::allowed_cpus();
    for _ in 0..20 {
        let wq = Workqueue::builder("in line").unbound().max_active(1).build().unwrap();
        let mut crowd = Crowd::new();
        crowd.add(&wq, cpus[0]);
        eventually("it has started", || crowd.inside.now() == 1);
        let never = Work::new(|| panic!("this was cancelled"));
        assert!(wq.queue_work_on(cpus[1], &never));
        assert!(never.cancel());
        crowd.finish();
        drop(wq);
    }
}

#[test]
fn items_beyond_the_limit_run_later_in_order() {
    for builder in [Workqueue::builder("later").unbound(), Workqueue::builder("later").percpu()] {
        let wq = builder.max_active(1).build().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let handles: Vec<_> = (0..300)
            .map(|n| {
                let order = Arc::clone(&order);
                wq.queue_on(0, move || order.lock().unwrap().push(n))
            })
            .collect();
        handles.into_iter().for_each(joined);
        assert_eq!(*order.lock().unwrap(), (0..300).collect::<Vec<_>>());
    }
}

#[test]
fn a_finished_item_makes_room_for_exactly_one() {
    let wq = Workqueue::builder("room").unbound().max_active(2).build().unwrap();
    let gates: Vec<_> = (0..8).map(|_| Gate::new()).collect();
    let _opened: Vec<_> = gates.iter().map(Opened).collect();
    let (inside, started) = (Arc::new(Peak::new()), Arc::new(AtomicUsize::new(0)));
    let handles: Vec<_> = gates
        .iter()
        .map(|gate| {
            let (gate, inside, started) = (gate.clone(), Arc::clone(&inside), Arc::clone(&started));
            wq.queue(move || {
                let _inside = inside.enter();
                started.fetch_add(1, Ordering::SeqCst);
                gate.pass();
            })
        })
        .collect();
    for (n, (gate, handle)) in gates.iter().zip(handles).enumerate() {
        let expected = (n + 2).min(gates.len());
        eventually("the next has started", || started.load(Ordering::SeqCst) == expected);
        assert!(inside.now() <= 2);
        gate.open();
        joined(handle);
    }
    assert_eq!(inside.most(), 2);
}

#[test]
fn unbound_items_all_start_at_once() {
    let wq = Workqueue::builder("at once").unbound().build().unwrap();
    let mut crowd = Crowd::new();
    (0..100).for_each(|_| crowd.add(&wq, 0));
    eventually("all have started", || crowd.inside.now() == 100);
    assert_eq!(crowd.finish(), 100);
}

/// Nobody is a hog, however much CPU time the machine's host takes in an item's name.
fn play_without_hogs(scene: &'static str) {
    Stage::new(scene).params("cpu_intensive_thresh_us=0").play();
}

/// One more may run for each time that one of `wq` was seen to block, be it at a page fault.
fn may_run(wq: &Workqueue, cpus: usize) -> usize {
    cpus + usize::try_from(wq.stats().cm_wakeup).unwrap()
}

#[test]
fn computing_items_of_a_cpu_run_one_at_a_time() {
    play_without_hogs("limits::one_at_a_time");
}

fn one_at_a_time() {
    for_each_cpu(|cpu, _| {
        let wq = percpu("one at a time");
        let inside = Arc::new(Peak::new());
        let handles: Vec<_> = (0..50)
            .map(|_| {
                let inside = Arc::clone(&inside);
                wq.queue_on(cpu, move || {
                    let _inside = inside.enter();
                    burn(Duration::from_micros(500));
                })
            })
            .collect();
        handles.into_iter().for_each(joined);
        assert!(inside.most() <= may_run(&wq, 1), "{} at once; {}", inside.most(), wq.stats());
    });
}

#[test]
fn computing_items_of_a_managed_queue_are_as_many_as_cpus() {
    play_without_hogs("limits::as_many_as_cpus");
}

fn as_many_as_cpus() {
    let wq = managed("computing");
    on_cpus_that_stay(|cpus| {
        let cpus = cpus.here.len();
        let inside = Arc::new(Peak::new());
        let handles: Vec<_> = (0..200)
            .map(|_| {
                let inside = Arc::clone(&inside);
                wq.queue(move || {
                    let _inside = inside.enter();
                    burn(Duration::from_micros(300));
                })
            })
            .collect();
        handles.into_iter().for_each(joined);
        let (most, stats) = (inside.most(), wq.stats());
        assert!(most <= may_run(&wq, cpus), "{most} computed on {cpus} CPUs; {stats}");
    });
}

#[test]
fn cpu_intensive_items_do_not_hold_up_others() {
    let intensive = Workqueue::builder("intensive").percpu().cpu_intensive().build().unwrap();
    let normal = percpu("held up");
    for cpu in sys::allowed_cpus() {
        let (entered, gate) = (Gate::new(), Gate::new());
        let _opened = Opened(&gate);
        let burner = intensive.queue_on(cpu, {
            let (entered, gate) = (entered.clone(), gate.clone());
            move || {
                entered.open();
                gate.spin();
            }
        });
        entered.pass();
        assert_eq!(joined(normal.queue_on(cpu, || 1)), 1, "it ran beside the burner");
        gate.open();
        joined(burner);
    }
}

#[test]
fn a_computing_item_holds_up_cpu_intensive_ones() {
    play_without_hogs("limits::managed_start");
}

fn managed_start() {
    let intensive = Workqueue::builder("managed start").percpu().cpu_intensive().build().unwrap();
    let normal = percpu("holds up");
    let cpu = sys::allowed_cpus()[0];
    let entered = Arc::new(AtomicBool::new(false));
    let is_computing = Arc::new(AtomicBool::new(true));
    let burner = normal.queue_on(cpu, {
        let (entered, is_computing) = (Arc::clone(&entered), Arc::clone(&is_computing));
        move || {
            // Not by a gate: the item must not wait for its lock.
            entered.store(true, Ordering::SeqCst);
            burn(Duration::from_millis(20));
            is_computing.store(false, Ordering::SeqCst);
        }
    });
    eventually("it has begun", || entered.load(Ordering::SeqCst));
    let behind = intensive.queue_on(cpu, move || is_computing.load(Ordering::SeqCst));
    let started_beside = joined(behind);
    joined(burner);
    assert!(!started_beside || normal.stats().cm_wakeup > 0, "its start is managed");
}

#[test]
fn a_queue_with_a_limit_does_not_hold_up_others() {
    let limited = Workqueue::builder("holds").percpu().max_active(1).build().unwrap();
    let free = percpu("free");
    let mut crowd = Crowd::new();
    let cpu = sys::allowed_cpus()[0];
    (0..20).for_each(|_| crowd.add(&limited, cpu));
    eventually("one has started", || crowd.inside.now() == 1);
    let handles: Vec<_> = (0..20).map(|i| free.queue_on(cpu, move || i)).collect();
    for (i, handle) in handles.into_iter().enumerate() {
        assert_eq!(joined(handle), i);
    }
    assert_eq!(crowd.inside.now(), 1);
    thread::scope(|s| {
        s.spawn(|| crowd.gate.open());
    });
    assert_eq!(crowd.finish(), 1);
}
