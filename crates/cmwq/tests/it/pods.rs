//! Managed queues over several pods: a pod that has a CPU to spare takes items from one that has
//! not.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{CpuSet, JoinHandle, Work, Workqueue, blocking};

use crate::support::cpus::confine_all;
use crate::support::load::burn;
use crate::support::scene::{Scene, Stage, skip};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, eventually, joined, managed, sys, undisturbed, within};

pub(crate) const SCENES: &[Scene] = &[
    ("pods::lend", lend),
    ("pods::after_short", after_short),
    ("pods::along", along),
    ("pods::many", many),
    ("pods::flush", flush),
    ("pods::non_reentrant", non_reentrant),
    ("pods::blocked_guest", blocked_guest),
    ("pods::blocked_helper", blocked_helper),
    ("pods::own_work_first", own_work_first),
    ("pods::away", away),
    ("pods::near", near),
    ("pods::idle_after_all", idle_after_all),
    ("pods::one_backlog", one_backlog),
];

/// Two CPUs, which the process keeps to from now on: who knows that one is busy knows where else an
/// item runs. To be called before the library is used.
fn only_two_cpus() -> [u32; 2] {
    let cpus = sys::allowed_cpus();
    let two = [cpus[0], cpus[1]];
    confine_all(&two);
    two
}

fn play(scene: &'static str) {
    play_with(scene, &["sentinel", "perf", "tick"]);
}

fn play_with(scene: &'static str, sources: &[&str]) {
    if sys::allowed_cpus().len() < 2 {
        skip("there is one CPU only");
        return;
    }
    for source in sources {
        Stage::new(scene)
            .detect(source)
            .params("default_affinity_scope=cpu cpu_intensive_thresh_us=0")
            .on_cpus_that_stay()
            .play();
    }
}

/// Only these tell that a CPU is idle.
fn play_with_sentinels(scene: &'static str) {
    play_with(scene, &["sentinel", "perf"]);
}

#[test]
fn an_idle_pod_takes_an_item_from_a_busy_one() {
    play("pods::lend");
}

/// Helping with items that take next to no time is given up, but not for good.
#[test]
fn an_idle_pod_takes_an_item_behind_many_short_ones() {
    play("pods::after_short");
}

/// A helper takes short items along, of which some wait for the one behind them.
#[test]
fn an_item_that_a_helper_runs_may_wait_for_the_next_one() {
    play_with("pods::along", &["sentinel", "perf", "tick", "inline"]);
}

#[test]
fn items_of_one_pod_run_on_all_cpus() {
    play("pods::many");
}

#[test]
fn flush_covers_lent_items() {
    play("pods::flush");
}

#[test]
fn lent_items_are_not_reentered() {
    play("pods::non_reentrant");
}

#[test]
fn a_lent_item_that_blocks_makes_room_in_the_pod_that_runs_it() {
    play("pods::blocked_guest");
}

#[test]
fn a_pod_whose_worker_blocks_helps() {
    play("pods::blocked_helper");
}

#[test]
fn a_pods_own_work_is_not_forgotten_while_it_helps() {
    play("pods::own_work_first");
}

#[test]
fn long_items_leave_a_queuer_that_computes_alone() {
    play_with_sentinels("pods::away");
}

#[test]
fn long_items_stay_near_a_queuer_that_waits() {
    play_with_sentinels("pods::near");
}

/// A pod whose CPU a queuer has been computing on helps when that waits after all.
#[test]
fn a_pod_helps_again_when_its_queuer_waits() {
    play_with_sentinels("pods::idle_after_all");
}

/// Each CPU has an item, and those that come then begin in their order, whichever CPU queues them.
#[test]
fn very_long_items_begin_in_order_whoever_queues_them() {
    play_with_sentinels("pods::one_backlog");
}

/// The first item computes until the second has started, which its own CPU is too busy for.
fn lend() {
    let wq = managed("lend");
    for cpu in sys::allowed_cpus() {
        for _ in 0..20 {
            // Who is seen asleep, at a page fault, say, may go on elsewhere.
            undisturbed(20, || {
                let started = Gate::new();
                let first = wq.queue_on(cpu, {
                    let started = started.clone();
                    move || {
                        started.spin();
                        sys::current_cpu()
                    }
                });
                let second = wq.queue_on(cpu, move || {
                    started.open();
                    sys::current_cpu()
                });
                let (first, second) = (joined(first), joined(second));
                if first == second { Err(format!("both on {first}")) } else { Ok(()) }
            });
        }
    }
}

/// As [`lend`], behind so many empty items that those who help find it not worth it.
fn after_short() {
    let wq = managed("short");
    // Not on each: there may be many.
    for cpu in sys::allowed_cpus().into_iter().take(2) {
        for _ in 0..5 {
            (0..20_000).for_each(|_| drop(wq.queue_on(cpu, || ())));
            let started = Gate::new();
            let first = wq.queue_on(cpu, {
                let started = started.clone();
                move || started.spin()
            });
            let second = wq.queue_on(cpu, move || started.open());
            joined(second);
            joined(first);
        }
    }
}

/// The first item keeps its pod's CPU until all others have run, which only helpers can do.
fn along() {
    const NR_ITEMS: usize = 1_000;
    let wq = managed("along");
    let cpu = sys::allowed_cpus()[0];
    for _ in 0..5 {
        let all = Gate::new();
        let first = wq.queue_on(cpu, {
            let all = all.clone();
            move || all.spin()
        });
        let gates: Vec<_> = (0..=NR_ITEMS).map(|_| Gate::new()).collect();
        let item = |number: usize| {
            let (gate, next) = (gates[number].clone(), gates[number + 1].clone());
            wq.queue_on(cpu, move || {
                gate.open();
                if number % 50 == 49 && number + 1 < NR_ITEMS {
                    blocking(|| next.pass());
                }
            })
        };
        let items: Vec<_> = (0..NR_ITEMS).map(item).collect();
        items.into_iter().for_each(joined);
        all.open();
        joined(first);
    }
}

fn many() {
    let wq = managed("many");
    let cpus = sys::allowed_cpus();
    for &cpu in &cpus {
        // Each waits until there is one on every CPU, so that nobody can have run more than it
        // could.
        let here = Arc::new(Mutex::new(BTreeSet::new()));
        let handles: Vec<_> = (0..200)
            .map(|_| {
                let (here, nr_cpus) = (Arc::clone(&here), cpus.len());
                wq.queue_on(cpu, move || {
                    let on = sys::current_cpu();
                    here.lock().unwrap().insert(on);
                    let end = Instant::now() + PATIENCE;
                    while here.lock().unwrap().len() < nr_cpus && Instant::now() < end {
                        burn(Duration::from_micros(100));
                    }
                })
            })
            .collect();
        handles.into_iter().for_each(joined);
        let ran_on = here.lock().unwrap();
        assert!(cpus.iter().eq(&*ran_on), "items for CPU {cpu} ran on {ran_on:?}");
    }
}

const LONG: Duration = Duration::from_micros(300);

/// An item that needs the CPU for long, and tells where it ran.
fn long() -> u32 {
    takes(LONG)
}

/// As [`long`], for so long.
fn takes(time: Duration) -> u32 {
    burn(time);
    sys::current_cpu()
}

/// Queues long items from `here` without ever sleeping, until one has run elsewhere.
fn compute_until_away(wq: &Workqueue, here: u32) {
    sys::confine(sys::gettid(), &[here]).unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        let items: Vec<_> = (0..16).map(|_| wq.queue(long)).collect();
        while !items.iter().all(JoinHandle::is_finished) {
            std::hint::spin_loop();
        }
        if items.into_iter().all(|item| joined(item) != here) {
            return;
        }
        assert!(Instant::now() < end, "items go on preempting their queuer");
    }
}

fn away() {
    let wq = managed("away");
    compute_until_away(&wq, sys::allowed_cpus()[0]);
}

fn near() {
    let wq = managed("near");
    let here = sys::allowed_cpus()[0];
    sys::confine(sys::gettid(), &[here]).unwrap();
    // Where other programs run, a worker may be preempted before it has come to its end, and its
    // pod helped with what comes next.
    eventually("they stay here", || {
        (0..100).filter(|_| joined(wq.queue(long)) != here).count() < 10
    });
}

fn one_backlog() {
    let wq = managed("one backlog");
    let cpus = sys::allowed_cpus();
    let shared = format!("/sys/devices/system/cpu/cpu{}/cache/index3/shared_cpu_list", cpus[0]);
    let shared = fs::read_to_string(shared).unwrap_or_default();
    let shared = CpuSet::parse_list(&shared).unwrap_or_default();
    let near: Vec<_> = cpus.iter().copied().filter(|&cpu| shared.contains(cpu)).take(2).collect();
    let [first, second] = near[..] else {
        return skip("no two CPUs have a last-level cache in common");
    };
    let nr_cpus = cpus.len();
    let long = || burn(Duration::from_millis(1));
    // How long its items are is measured now and then, and so is whether this thread waits.
    (0..200).for_each(|_| joined(wq.queue(long)));
    undisturbed(20, || {
        let gate = Gate::new();
        let _opened = Opened(&gate);
        let begun = Arc::new(AtomicU32::new(0));
        let busy: Vec<_> = (0..nr_cpus)
            .map(|_| {
                let (gate, begun) = (gate.clone(), Arc::clone(&begun));
                wq.queue(move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    gate.spin();
                })
            })
            .collect();
        eventually("all CPUs are occupied", || begun.load(Ordering::SeqCst) == nr_cpus as u32);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut items = Vec::new();
        for cpu in [first, second] {
            sys::confine(sys::gettid(), &[cpu]).unwrap();
            for _ in 0..20 {
                let (order, number) = (Arc::clone(&order), items.len());
                items.push(wq.queue(move || {
                    order.lock().unwrap().push(number);
                    long();
                }));
                // Whoever queues without a sleep is taken for one who computes.
                thread::sleep(Duration::from_micros(100));
            }
        }
        sys::confine(sys::gettid(), &cpus).unwrap();
        gate.open();
        busy.into_iter().chain(items).for_each(joined);
        let order = order.lock().unwrap();
        // With a backlog on each CPU those of the second one would begin with the first ones.
        let early = order.iter().take(15).filter(|&&number| number >= 20).count();
        if early == 0 { Ok(()) } else { Err(format!("{early} of the second CPU: {order:?}")) }
    });
}

fn idle_after_all() {
    let wq = managed("after all");
    let cpus = sys::allowed_cpus();
    let here = cpus[0];
    compute_until_away(&wq, here);
    // Those of the last round stay away, and this thread sleeps while they run. Others may be done
    // with all of them before its CPU has found out that it is idle, or with each before the next
    // is queued: the sooner, the longer they take.
    let nr_items = 200.max(16 * cpus.len());
    let mut time = LONG;
    eventually("they come back to its idle CPU", || {
        let items: Vec<_> = (0..nr_items).map(|_| wq.queue(move || takes(time))).collect();
        time = (2 * time).min(Duration::from_millis(40));
        items.into_iter().filter(|item| !item.is_finished()).any(|item| joined(item) == here)
    });
}

fn flush() {
    let wq = managed("flush");
    for round in 0..100 {
        let done = Arc::new(AtomicU32::new(0));
        for _ in 0..6 {
            let done = Arc::clone(&done);
            drop(wq.queue_on(round % 2, move || {
                burn(Duration::from_micros(200));
                done.fetch_add(1, Ordering::SeqCst);
            }));
        }
        if round % 3 == 0 {
            let wq = wq.clone();
            within("a flush", move || wq.flush());
        } else {
            wq.flush();
        }
        assert_eq!(done.load(Ordering::SeqCst), 6, "round {round}");
    }
    // Dropping waits for them, too.
    let done = Arc::new(AtomicU32::new(0));
    for _ in 0..50 {
        let done = Arc::clone(&done);
        drop(wq.queue_on(0, move || {
            burn(Duration::from_micros(200));
            done.fetch_add(1, Ordering::SeqCst);
        }));
    }
    within("the last handle", move || drop(wq));
    assert_eq!(done.load(Ordering::SeqCst), 50);
}

fn non_reentrant() {
    let wq = managed("once");
    let cpus = sys::allowed_cpus();
    let works: Vec<_> = (0..4)
        .map(|_| {
            let (inside, runs) = (AtomicBool::new(false), Arc::new(AtomicU32::new(0)));
            let counted = Arc::clone(&runs);
            let work = Work::new(move || {
                assert!(!inside.swap(true, Ordering::SeqCst), "entered while it runs");
                burn(Duration::from_micros(30));
                counted.fetch_add(1, Ordering::SeqCst);
                inside.store(false, Ordering::SeqCst);
            });
            (work, runs, AtomicU32::new(0))
        })
        .collect();
    let end = Instant::now() + Duration::from_millis(500);
    thread::scope(|s| {
        for i in 0..3_usize {
            let (wq, works, cpus) = (&wq, &works, &cpus);
            s.spawn(move || {
                let mut n = i;
                while Instant::now() < end {
                    n += 1;
                    let (work, _, queued) = &works[n % works.len()];
                    let is_mine = wq.queue_work_on(cpus[n / 7 % cpus.len()], work);
                    queued.fetch_add(u32::from(is_mine), Ordering::SeqCst);
                    if n % 50 == 0 {
                        work.flush();
                    }
                }
            });
        }
    });
    wq.flush();
    for (_, runs, queued) in &works {
        assert_eq!(runs.load(Ordering::SeqCst), queued.load(Ordering::SeqCst));
    }
}

/// An item that another pod runs blocks; an item of that pod then starts.
fn blocked_guest() {
    let cpus = only_two_cpus();
    let wq = managed("guest");
    for _ in 0..10 {
        undisturbed(10, || guest_blocks(&wq, cpus));
    }
}

fn guest_blocks(wq: &Workqueue, [one, other]: [u32; 2]) -> Result<(), String> {
    let (stop, free) = (Gate::new(), Gate::new());
    let _opened = (Opened(&stop), Opened(&free));
    let (burner_is_on, burner_cpu) = mpsc::channel();
    let burner = wq.queue_on(one, {
        let stop = stop.clone();
        move || {
            burner_is_on.send(sys::current_cpu()).unwrap();
            stop.spin();
        }
    });
    // Whichever CPU took that, the other one is for the guest.
    let burns_on = burner_cpu.recv_timeout(PATIENCE).unwrap();
    let (guest_is_on, guest_cpu) = mpsc::channel();
    let guest = wq.queue_on(burns_on, {
        let free = free.clone();
        move || {
            guest_is_on.send(sys::current_cpu()).unwrap();
            free.pass();
        }
    });
    let idle = if burns_on == one { other } else { one };
    let ran_on =
        [guest_cpu.recv_timeout(PATIENCE).unwrap(), joined(wq.queue_on(idle, sys::current_cpu))];
    stop.open();
    free.open();
    joined(burner);
    joined(guest);
    if ran_on == [idle; 2] { Ok(()) } else { Err(format!("on {ran_on:?}, and {idle} was idle")) }
}

/// A pod whose worker blocks, while nothing waits there, has a CPU to spare for another's items.
fn blocked_helper() {
    let [one, other] = only_two_cpus();
    let wq = managed("helper");
    for _ in 0..10 {
        let free = Gate::new();
        let _opened = Opened(&free);
        let (blocked_is_on, blocked_cpu) = mpsc::channel();
        let blocked = wq.queue_on(one, {
            let free = free.clone();
            move || {
                blocked_is_on.send(sys::current_cpu()).unwrap();
                free.pass();
            }
        });
        let idle = blocked_cpu.recv_timeout(PATIENCE).unwrap();
        let busy = if idle == one { other } else { one };
        // As in `lend`.
        let started = Gate::new();
        let first = wq.queue_on(busy, {
            let started = started.clone();
            move || started.spin()
        });
        let second = wq.queue_on(busy, move || started.open());
        joined(second);
        joined(first);
        free.open();
        joined(blocked);
    }
}

/// One pod has ever more items than it can run, as long as one for the other pod has not run.
fn own_work_first() {
    let [one, other] = only_two_cpus();
    let wq = managed("own");
    for _ in 0..5 {
        let (own_ran, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        (0..50).for_each(|_| burn_until(&wq, one, &own_ran, &runs));
        eventually("some have run", || runs.load(Ordering::SeqCst) > 10);
        joined(wq.queue_on(other, move || own_ran.store(true, Ordering::SeqCst)));
        wq.flush();
    }
}

/// Queues an item that queues itself again.
fn burn_until(wq: &Workqueue, cpu: u32, end: &Arc<AtomicBool>, runs: &Arc<AtomicU32>) {
    let (again, end, runs) = (wq.clone(), Arc::clone(end), Arc::clone(runs));
    drop(wq.queue_on(cpu, move || {
        burn(Duration::from_micros(250));
        runs.fetch_add(1, Ordering::SeqCst);
        if !end.load(Ordering::SeqCst) {
            burn_until(&again, cpu, &end, &runs);
        }
    }));
}
