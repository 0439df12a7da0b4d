//! Queues that have nothing to do cost nothing: no wake-ups, and no workers beyond two per pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{DelayedWork, Workqueue};

use crate::max_workers::one_pool;
use crate::support::cpus::Cpus;
use crate::support::procfs::{self, Task};
use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{
    Gate, Peak, at_gate, eventually, every_kind, joined, managed, percpu, sys, unbound,
};

pub(crate) const SCENES: &[Scene] = &[
    ("idle::quiet", || {
        let queues = used_queues();
        assert_quiet();
        drop(queues);
    }),
    ("idle::culled", culled),
    ("idle::far_timer", far_timer),
    ("idle::deferred", deferred),
    ("idle::blocked", blocked),
    ("idle::blocked_guest", blocked_guest),
    ("idle::blocked_at_the_limit", blocked_at_the_limit),
    ("idle::signals", signals),
];

#[test]
fn an_idle_process_has_no_wakeups() {
    for source in ["sentinel", "tick", "perf"] {
        Stage::new("idle::quiet").detect(source).play();
    }
    Stage::new("idle::quiet").detect("sentinel").params("default_affinity_scope=cpu").play();
}

#[test]
fn surplus_workers_leave() {
    Stage::new("idle::culled").params("idle_timeout=0.2").play();
}

#[test]
fn a_far_timer_wakes_nobody() {
    Stage::new("idle::far_timer").play();
}

#[test]
fn a_due_deferrable_timer_wakes_nobody() {
    Stage::new("idle::deferred").play();
}

/// Of the idle class they would handle them late, and on a small stack.
#[test]
fn sentinels_take_no_signals() {
    for source in ["sentinel", "perf"] {
        Stage::new("idle::signals").detect(source).play();
    }
}

fn signals() {
    let _queues = used_queues();
    let is_sentinel = |task: &Task| task.name.starts_with("cmwq/idle:");
    let sentinels = || procfs::other_tasks().into_iter().filter(is_sentinel).collect::<Vec<_>>();
    let has_all = |task: &Task, signals: &[i32]| signals.iter().all(|s| task.has_blocked(*s));
    eventually("sentinels that take no signals", || {
        let signals = [libc::SIGTERM, libc::SIGALRM, libc::SIGPROF, libc::SIGUSR1, libc::SIGCHLD];
        !sentinels().is_empty() && sentinels().iter().all(|task| has_all(task, &signals))
    });
    // Their own faults have to be reported, and what a sandbox traps.
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGSYS];
    assert!(sentinels().iter().all(|task| faults.iter().all(|s| !task.has_blocked(*s))));
}

/// How long nothing may happen.
const WATCHED: Duration = Duration::from_secs(2);

/// A thread that sleeps for ever. If it is seen to switch, somebody has stopped the whole process
/// for a while, as snapshots and debuggers do, and what the others did meanwhile tells nothing.
const CONTROL: &str = "control";

fn start_control() {
    let control = thread::Builder::new().name(CONTROL.to_owned());
    let sleep = || {
        loop {
            thread::park();
        }
    };
    drop(control.spawn(sleep).unwrap());
}

/// Once no thread has run for a moment, none runs for a long time.
///
/// The watchdog looks once more after the last work that had to wait, a quarter of its threshold
/// later: that should not take seconds.
pub(crate) fn assert_quiet() {
    if !cmwq::watchdog::thresh().is_zero() {
        cmwq::watchdog::set_thresh(Duration::from_millis(100)).unwrap();
    }
    assert_quiet_but_for_the_watchdog();
}

/// As [`assert_quiet`], where work waits, and the watchdog has to look now and then.
fn assert_quiet_but_for_the_watchdog() {
    start_control();
    for _ in 0..10 {
        let cpus = Cpus::now();
        settle();
        let switched = switches_during(WATCHED);
        if switched.is_empty() {
            return;
        }
        // A worker that finds itself elsewhere has the service thread look which CPUs there are, up
        // to a second later.
        let is_stopped = switched.iter().any(|thread| thread.starts_with(CONTROL));
        assert!(is_stopped || cpus.have_changed(), "in {WATCHED:?}: {switched:?}");
    }
    panic!("somebody stops this process, or takes its CPUs, again and again");
}

/// Waits until no thread runs for a moment.
fn settle() {
    let start = Instant::now();
    loop {
        let switched = switches_during(Duration::from_millis(150));
        // One that is still to get a CPU, which may take an idle-class thread long, is not quiet.
        if switched.is_empty() && procfs::other_tasks().iter().all(|task| task.is_asleep) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "never quiet: {switched:?}");
    }
}

/// Which other threads ran, and how often.
fn switches_during(time: Duration) -> Vec<String> {
    let before = procfs::other_tasks();
    thread::sleep(time);
    difference(&before, &procfs::other_tasks())
}

fn difference(before: &[Task], now: &[Task]) -> Vec<String> {
    let changed = now.iter().filter(|task| !before.contains(task));
    let describe = |task: &Task| {
        let was = before.iter().find(|known| known.tid == task.tid);
        let switches = task.switches - was.map_or(0, |was| was.switches);
        format!("{} switched {switches} times", task.name)
    };
    changed.map(describe).collect()
}

/// Queues of every kind after a load of every kind.
fn used_queues() -> Vec<Workqueue> {
    let queues: Vec<_> = every_kind("used").into_iter().collect();
    for wq in &queues {
        let handles: Vec<_> = (0..200)
            .map(|i| {
                wq.queue_on(i % 2, move || {
                    if i % 5 == 0 {
                        thread::sleep(Duration::from_micros(500));
                    }
                })
            })
            .collect();
        handles.into_iter().for_each(joined);
        joined(wq.queue_delayed(|| (), Duration::from_millis(3)));
        let cancelled = DelayedWork::new(|| ());
        // Who has planned for a timer looks once when it would be due, although it was cancelled:
        // that must not be while nothing may happen.
        assert!(wq.queue_delayed_work(&cancelled, Duration::from_secs(3_600)));
        assert!(cancelled.cancel());
        wq.flush();
    }
    queues
}

/// Workers by pool, as their names tell. For pools of normal priority.
fn pools() -> BTreeMap<String, usize> {
    let mut pools = BTreeMap::new();
    for name in procfs::workers("kworker/") {
        let pool = name.split_once(':').expect("a worker has a number").0;
        *pools.entry(pool.to_owned()).or_default() += 1;
    }
    pools
}

fn culled() {
    let queues = [managed("a"), percpu("b"), unbound("c")];
    for wq in &queues {
        let gate = Gate::new();
        let waiters: Vec<_> = (0..25)
            .map(|_| {
                let gate = gate.clone();
                wq.queue_on(sys::allowed_cpus()[0], move || gate.pass())
            })
            .collect();
        eventually("many workers", || pools().values().sum::<usize>() > 25);
        gate.open();
        waiters.into_iter().for_each(joined);
        eventually("the surplus has left", || pools().values().all(|workers| *workers <= 2));
    }
    let used = pools();
    let full = used.values().filter(|workers| **workers == 2).count();
    assert!(full >= queues.len(), "two stay in each pool that had many: {used:?}");
    assert_quiet();
    for wq in &queues {
        assert_eq!(joined(wq.queue(|| 1)), 1, "the ones that stayed work");
    }
}

fn far_timer() {
    let wq = managed("far");
    let hour = Duration::from_secs(3_600);
    let works: Vec<_> = (1..20).map(|_| DelayedWork::new(|| panic!("too early"))).collect();
    for (n, work) in (1..).zip(&works) {
        assert!(wq.queue_delayed_work(work, hour * n));
    }
    assert_quiet();
    assert!(works.iter().all(DelayedWork::cancel));
}

fn deferred() {
    let wq = managed("deferred");
    joined(wq.queue(|| ()));
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = DelayedWork::deferrable(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    let bottom = Workqueue::builder("bottom").bh().build().unwrap();
    joined(bottom.queue(|| ()));
    let activities: [&dyn Fn(); 3] =
        [&|| joined(wq.queue(|| ())), &|| joined(bottom.queue(|| ())), &|| wq.run(|| ()).unwrap()];
    for (before, activity) in (0..).zip(activities) {
        // Else what follows the activity before would bring it along.
        settle();
        assert!(wq.queue_delayed_work(&work, Duration::from_millis(100)));
        // Longer than that passes before it begins to watch.
        assert_quiet();
        assert_eq!(runs.load(Ordering::SeqCst), before, "nothing has happened since it was armed");
        activity();
        eventually("it comes with the next activity", || runs.load(Ordering::SeqCst) == before + 1);
    }
}

#[test]
fn blocked_items_wake_nobody() {
    for source in ["sentinel", "tick", "perf"] {
        Stage::new("idle::blocked").detect(source).play();
    }
}

#[test]
fn blocked_lent_items_wake_nobody() {
    for source in ["sentinel", "tick", "perf"] {
        if sys::allowed_cpus().len() > 1 {
            Stage::new("idle::blocked_guest").detect(source).play();
        }
    }
}

/// Items block, and others may not start before they have finished.
fn blocked() {
    // Before anything waits: what the watchdog sleeps until is not put off.
    cmwq::watchdog::set_thresh(Duration::from_secs(3_600)).unwrap();
    let builder = || Workqueue::builder("blocked").max_active(2);
    let builders = [
        builder().managed(),
        builder().percpu(),
        builder().unbound(),
        Workqueue::builder("blocked").ordered(),
    ];
    let queues = builders.map(|builder| builder.build().unwrap());
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let handles: Vec<_> = (0..40_u32)
        .map(|i| {
            let gate = gate.clone();
            queues[i as usize % 4].queue_on(i % 3, move || gate.pass())
        })
        .collect();
    assert_quiet_but_for_the_watchdog();
    gate.open();
    handles.into_iter().for_each(joined);
}

#[test]
fn blocked_workers_at_the_limit_of_workers_wake_nobody() {
    Stage::new("idle::blocked_at_the_limit").params("max_workers=6").play();
}

/// As many workers block as there may be, and nothing waits for another one.
fn blocked_at_the_limit() {
    let wq = one_pool("limit").build().unwrap();
    let (gate, peak) = (Gate::new(), Arc::new(Peak::new()));
    let _opened = Opened(&gate);
    let mut handles = at_gate(&wq, 6, &gate, &peak);
    eventually("all workers are blocked", || peak.now() == 6);
    assert_quiet();
    // What comes now waits, and no longer than it has to.
    handles.extend(at_gate(&wq, 1, &gate, &peak));
    eventually("another waits", || wq.stats().queued == 1);
    gate.open();
    handles.into_iter().for_each(joined);
}

/// An item blocks that was lent to another CPU, and nobody else wants that.
fn blocked_guest() {
    let wq = managed("guest");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let cpu = sys::allowed_cpus()[0];
    let entered = Gate::new();
    // It computes until the other one, which another CPU has to take, has begun.
    let burner = wq.queue_on(cpu, {
        let entered = entered.clone();
        move || entered.spin()
    });
    let guest = wq.queue_on(cpu, {
        let gate = gate.clone();
        move || {
            entered.open();
            gate.pass();
        }
    });
    joined(burner);
    assert_quiet();
    gate.open();
    joined(guest);
}
