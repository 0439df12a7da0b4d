//! CPUs that leave and come back while the process runs.
//!
//! Confining all threads imitates what a narrower cpuset does to them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::{AffinityScope, Attrs, Workqueue};

use crate::support::cpus::{Cpus, confine_all, on_cpus_that_stay};
use crate::support::cpuset::Cpuset;
use crate::support::load::burn;
use crate::support::procfs::Task;
use crate::support::scene::{Scene, Stage, skip};
use crate::support::wait::Opened;
use crate::support::{
    Gate, Peak, eventually, every_kind, joined, managed, nodes, percpu, procfs, sys, unbound,
};

pub(crate) const SCENES: &[Scene] = &[
    ("hotplug::leaves_and_returns", leaves_and_returns),
    ("hotplug::noticed", noticed),
    ("hotplug::queued_items_are_served", queued_items_are_served),
    ("hotplug::back_and_forth", back_and_forth),
    ("hotplug::own_pinning", own_pinning),
    ("hotplug::taskset_all", taskset_all),
    ("hotplug::forbidden_and_off", forbidden_and_off),
    ("hotplug::first_time", first_time),
    ("hotplug::another_cpuset", another_cpuset),
    ("hotplug::cpuset", cpuset),
    ("hotplug::started_narrow", started_narrow),
    ("hotplug::pinned_first", pinned_first),
];

/// The CPU that stays, the one that leaves, and all.
pub(crate) fn cast() -> Option<(u32, u32, Vec<u32>)> {
    // When this returns all threads that find out about CPUs have begun to.
    cmwq::rescan_cpus().unwrap();
    let cpus = sys::allowed_cpus();
    match cpus[..] {
        [stays, .., leaves] => Some((stays, leaves, cpus)),
        _ => {
            skip("there is one CPU only");
            None
        }
    }
}

/// When it is dropped, all threads are confined to these CPUs.
struct Confined<'a>(&'a [u32]);

impl Drop for Confined<'_> {
    fn drop(&mut self) {
        confine_all(self.0);
    }
}

/// Plays a round with a cast. Where CPUs come and leave by themselves, it is one of CPUs that
/// stayed meanwhile.
pub(crate) fn for_a_cast(mut round: impl FnMut(u32, u32, &[u32])) {
    let everything = sys::allowed_cpus();
    on_cpus_that_stay(|_| {
        let _all_are_back = Confined(&everything);
        if let Some((stays, leaves, all)) = cast() {
            round(stays, leaves, &all);
        }
    });
}

#[test]
fn a_cpu_that_leaves_is_served_elsewhere_and_returns() {
    for source in ["sentinel", "tick"] {
        Stage::new("hotplug::leaves_and_returns").detect(source).play();
    }
}

fn leaves_and_returns() {
    let bound = percpu("bound");
    for _ in 0..3 {
        for_a_cast(|stays, leaves, all| leaves_and_returns_once(&bound, stays, leaves, all));
    }
}

fn leaves_and_returns_once(bound: &Workqueue, stays: u32, leaves: u32, all: &[u32]) {
    assert_eq!(joined(bound.queue_on(leaves, sys::current_cpu)), leaves);
    let rest: Vec<_> = all.iter().copied().filter(|cpu| *cpu != leaves).collect();
    confine_all(&rest);
    cmwq::rescan_cpus().unwrap();
    for wq in every_kind("gone") {
        for cpu in all {
            let ran_on = joined(wq.queue_on(*cpu, sys::current_cpu));
            assert_ne!(ran_on, leaves, "for CPU {cpu}");
        }
    }
    assert_eq!(joined(bound.queue_on(stays, sys::allowed_cpus)), [stays], "still pinned");
    // The pool of a CPU that is gone does not manage: both run at once.
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let waits = bound.queue_on(leaves, {
        let gate = gate.clone();
        move || gate.spin()
    });
    let opens = bound.queue_on(leaves, {
        let gate = gate.clone();
        move || gate.open()
    });
    [waits, opens].into_iter().for_each(joined);

    confine_all(all);
    cmwq::rescan_cpus().unwrap();
    for cpu in all {
        for wq in [bound, &managed("back")] {
            let ran_on = joined(wq.queue_on(*cpu, sys::allowed_cpus));
            assert_eq!(ran_on.len(), 1, "pinned again");
        }
        assert_eq!(joined(bound.queue_on(*cpu, sys::current_cpu)), *cpu);
    }
    assert_eq!(joined(unbound("back").queue(sys::allowed_cpus)), all);
}

#[test]
fn a_narrower_set_is_noticed_while_there_is_work() {
    Stage::new("hotplug::noticed").detect("tick").play();
}

fn noticed() {
    let Some((stays, leaves, all)) = cast() else { return };
    let bound = percpu("bound");
    for cpu in &all {
        joined(bound.queue_on(*cpu, || ()));
    }
    let rest: Vec<_> = all.iter().copied().filter(|cpu| *cpu != leaves).collect();
    confine_all(&rest);
    // Of those that are on.
    let is_known = || cmwq::unbound_cpumask().unwrap().iter().eq(sys::allowed_cpus());
    eventually("the loss", || {
        // Enters a function where it should not.
        joined(bound.queue_on(leaves, || ()));
        is_known()
    });
    confine_all(&all);
    eventually("the return", || {
        // Blocks while another item waits, which keeps the service awake.
        let blocks = bound.queue_on(stays, || thread::sleep(Duration::from_millis(3)));
        joined(bound.queue_on(stays, || ()));
        joined(blocks);
        is_known()
    });
    on_cpus_that_stay(|cpus| {
        if cpus.here.contains(&leaves) {
            assert_eq!(joined(bound.queue_on(leaves, sys::current_cpu)), leaves);
        }
    });
}

/// Items that wait for a CPU when it leaves do not wait for its return.
#[test]
fn what_was_queued_when_the_cpu_left_is_served() {
    Stage::new("hotplug::queued_items_are_served").play();
}

fn queued_items_are_served() {
    let Some((_, leaves, all)) = cast() else { return };
    let rest: Vec<_> = all.iter().copied().filter(|cpu| *cpu != leaves).collect();
    // A per-CPU pool gives up managing without its CPU, a managed one does not.
    for (wq, starts_all) in [(percpu("waits"), true), (managed("waits"), false)] {
        confine_all(&all);
        cmwq::rescan_cpus().unwrap();
        let gate = Gate::new();
        let _opened = Opened(&gate);
        // Every CPU computes, so that what is queued behind waits.
        let busy: Vec<_> = all
            .iter()
            .map(|cpu| {
                let gate = gate.clone();
                wq.queue_on(*cpu, move || gate.spin())
            })
            .collect();
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let ran = Arc::clone(&ran);
            drop(wq.queue_on(leaves, move || ran.fetch_add(1, Ordering::SeqCst)));
        }
        confine_all(&rest);
        cmwq::rescan_cpus().unwrap();
        if starts_all {
            eventually("they run beside the busy ones", || ran.load(Ordering::SeqCst) == 10);
        }
        gate.open();
        busy.into_iter().for_each(joined);
        wq.flush();
        assert_eq!(ran.load(Ordering::SeqCst), 10);
    }
}

/// Under load, many times: nothing is lost, and in the end everything is where it belongs.
#[test]
fn cpus_that_leave_and_return_under_load_lose_nothing() {
    for source in ["sentinel", "tick"] {
        Stage::new("hotplug::back_and_forth").detect(source).play();
    }
}

fn back_and_forth() {
    let Some((_, leaves, all)) = cast() else { return };
    let rest: Vec<_> = all.iter().copied().filter(|cpu| *cpu != leaves).collect();
    let queues = every_kind("shaken");
    let mut handles = Vec::new();
    for round in 0..20 {
        for i in 0..90 {
            let item = move || {
                burn(Duration::from_micros(20));
                if i % 10 == 0 {
                    thread::sleep(Duration::from_micros(200));
                }
                i
            };
            handles.push((i, queues[i % 3].queue_on(all[i % all.len()], item)));
        }
        confine_all(if round % 2 == 0 { &rest } else { &all });
        cmwq::rescan_cpus().unwrap();
    }
    for (i, handle) in handles {
        assert_eq!(joined(handle), i);
    }
    queues.iter().for_each(Workqueue::flush);
    let bound = percpu("settled");
    on_cpus_that_stay(|cpus| {
        let here = cpus.here.iter();
        let ran_on: Vec<_> =
            here.map(|cpu| joined(bound.queue_on(*cpu, sys::current_cpu))).collect();
        assert_eq!(ran_on, cpus.here);
    });
}

/// A program's own pinning of its threads says nothing about the CPUs of the process.
#[test]
fn a_pinned_main_thread_is_no_smaller_machine() {
    Stage::new("hotplug::own_pinning").play();
}

fn own_pinning() {
    for_a_cast(|stays, leaves, all| {
        let bound = percpu("bound");
        joined(bound.queue(|| ()));
        sys::confine(0, &[stays]).unwrap();
        cmwq::rescan_cpus().unwrap();
        assert_eq!(cmwq::unbound_cpumask().unwrap().count(), all.len());
        assert_eq!(joined(bound.queue_on(leaves, sys::current_cpu)), leaves);
    });
}

/// `taskset -a` is obeyed: no thread of ours goes where it was forbidden to, and none is told so by
/// a notice.
#[test]
fn threads_stay_where_others_put_them() {
    for source in ["sentinel", "tick"] {
        Stage::new("hotplug::taskset_all").detect(source).play();
    }
}

fn taskset_all() {
    let Some((stays, leaves, all)) = cast() else { return };
    let strays = Workqueue::builder("strays").unbound().affinity_scope(AffinityScope::Cpu);
    let queues = [managed("managed"), percpu("percpu"), strays.build().unwrap()];
    // Work waits on every CPU, so that sentinels have to run.
    let load = || {
        let items = all.iter().flat_map(|cpu| queues.iter().map(move |wq| (*cpu, wq)));
        let items = items.flat_map(|(cpu, wq)| (0..4).map(move |_| (cpu, wq)));
        let sleep = || thread::sleep(Duration::from_millis(2));
        let handles: Vec<_> = items.map(|(cpu, wq)| wq.queue_on(cpu, sleep)).collect();
        handles.into_iter().for_each(joined);
    };
    load();
    let rest: Vec<_> = all.iter().copied().filter(|cpu| *cpu != leaves).collect();
    confine_all(&rest);
    // Nobody has looked yet: sentinels are armed for a CPU that was forbidden to them.
    let sentinel = |cpu: u32| procfs::tid_of(&format!("cmwq/idle:{cpu}"));
    for _ in 0..50 {
        load();
        if let Some(tid) = sentinel(leaves) {
            let cpus = Cpus::now();
            let its = sys::allowed_cpus_of(tid).unwrap();
            assert!(its == cpus.here || cpus.have_changed(), "{its:?} of {cpus:?}");
        }
    }
    cmwq::rescan_cpus().unwrap();
    for _ in 0..50 {
        on_cpus_that_stay(|_| {
            load();
            for task in procfs::other_tasks().iter().filter(|task| !is_homeless(task)) {
                // It may have ended meanwhile.
                let Ok(cpus) = sys::allowed_cpus_of(task.tid) else { continue };
                assert!(!cpus.contains(&leaves), "{} is on {cpus:?}", task.name);
            }
        });
    }
    confine_all(&all);
    cmwq::rescan_cpus().unwrap();
    load();
    let bound = percpu("bound");
    on_cpus_that_stay(|cpus| {
        for cpu in [stays, leaves].into_iter().filter(|cpu| cpus.here.contains(cpu)) {
            assert_eq!(joined(bound.queue_on(cpu, sys::allowed_cpus)), [cpu]);
        }
    });
    let is_home = || {
        let here = sys::allowed_cpus().into_iter();
        let mut sentinels = here.filter_map(|cpu| Some((cpu, sentinel(cpu)?)));
        sentinels.all(|(cpu, tid)| sys::allowed_cpus_of(tid).unwrap() == [cpu])
    };
    eventually("sentinels are back", || {
        load();
        is_home()
    });
    assert_eq!(cmwq::notices(), [""; 0]);
}

/// A CPU that was forbidden to all threads stays so when it was off in between.
#[test]
fn a_cpu_that_was_forbidden_and_off_stays_forbidden() {
    Stage::new("hotplug::forbidden_and_off").play();
}

fn forbidden_and_off() {
    if std::env::var_os("CMWQ_GUEST").is_none() {
        return skip("CPUs are switched off in guests only");
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    if (numbers.next(), numbers.next()) < (Some(6), Some(2)) {
        return skip("before Linux 6.2 a mask does not tell who was confined");
    }
    let Some((_, leaves, all)) = cast() else { return };
    let rest: Vec<_> = all.iter().copied().filter(|cpu| *cpu != leaves).collect();
    joined(unbound("first").queue(|| ()));
    confine_all(&rest);
    for on in ["0", "1"] {
        std::fs::write(format!("/sys/devices/system/cpu/cpu{leaves}/online"), on).unwrap();
        cmwq::rescan_cpus().unwrap();
        assert!(!cmwq::unbound_cpumask().unwrap().contains(leaves));
    }
    assert!(!joined(unbound("last").queue(sys::allowed_cpus)).contains(&leaves));
}

/// A sentinel whose CPU is off. Then the system lets it run anywhere, and it only waits.
fn is_homeless(task: &Task) -> bool {
    const ONLINE: &str = "/sys/devices/system/cpu/online";
    let home = task.name.strip_prefix("cmwq/idle:").and_then(|cpu| cpu.parse().ok());
    // In a sandbox without sysfs nobody switches CPUs off.
    home.is_some_and(|home| Path::new(ONLINE).exists() && !cpu_list(ONLINE).contains(&home))
}

/// CPUs that were off since the system started: in an emulated machine, `.ci/guests run late`.
#[test]
fn cpus_that_come_for_the_first_time_belong_somewhere() {
    Stage::new("hotplug::first_time").play();
}

fn cpu_list(path: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(path).unwrap();
    // Of isolated CPUs there may be none.
    let list: cmwq::CpuSet = match text.trim() {
        "" => return Vec::new(),
        list => list.parse().unwrap(),
    };
    list.iter().collect()
}

fn first_time() {
    if std::env::var_os("CMWQ_GUEST").is_none() {
        return skip("CPUs are switched on in guests only");
    }
    let dir = "/sys/devices/system/cpu";
    let (present, on) = (cpu_list(&format!("{dir}/present")), cpu_list(&format!("{dir}/online")));
    let strict = Workqueue::builder("strict").unbound().affinity_scope(AffinityScope::Cache);
    let strict = strict.affinity_strict(true).build().unwrap();
    let few = Workqueue::builder("few").max_active(4).build().unwrap();
    for wq in [&strict, &few] {
        on.iter().for_each(|cpu| joined(wq.queue_on(*cpu, || ())));
    }
    for cpu in present.iter().filter(|cpu| !on.contains(cpu)) {
        std::fs::write(format!("{dir}/cpu{cpu}/online"), "1").unwrap();
    }
    cmwq::rescan_cpus().unwrap();
    let isolated = cpu_list(&format!("{dir}/isolated"));
    on_cpus_that_stay(|_| {
        let on = cpu_list(&format!("{dir}/online"));
        for cpu in on.into_iter().filter(|cpu| !isolated.contains(cpu)) {
            let mut cache = cpu_list(&format!("{dir}/cpu{cpu}/cache/index3/shared_cpu_list"));
            cache.retain(|cpu| !isolated.contains(cpu));
            assert_eq!(joined(strict.queue_on(cpu, sys::allowed_cpus)), cache, "CPU {cpu}");
        }
    });
    let inside = Arc::new(Peak::new());
    let handles: Vec<_> = (0..10 * present.len())
        .map(|n| {
            let inside = Arc::clone(&inside);
            few.queue_on(present[n % present.len()], move || {
                let _inside = inside.enter();
                thread::sleep(Duration::from_millis(20));
            })
        })
        .collect();
    handles.into_iter().for_each(joined);
    // This thread has the CPUs of the start, and the machine has more.
    sys::confine(0, &present).unwrap();
    let most = nodes::total_of(4, 4);
    assert!(inside.most() <= most, "{} at once, and {most} may", inside.most());
}

/// A cpuset without any CPU of the one before: nothing is refused, so nothing is said of refusals.
#[test]
fn another_cpuset_is_no_refusal() {
    Stage::new("hotplug::another_cpuset").play();
}

fn another_cpuset() {
    for_a_cast(|stays, leaves, all| {
        let cpuset = match Cpuset::enter(all) {
            Ok(cpuset) => cpuset,
            Err(error) => return skip(format_args!("no cpuset can be made: {error}")),
        };
        for (round, cpu) in [stays, leaves, stays, leaves].into_iter().enumerate() {
            cpuset.set(&[cpu]).unwrap();
            // Nobody has looked yet when these queues need workers.
            for (n, wq) in every_kind("elsewhere").into_iter().enumerate() {
                let attrs = Attrs::new().nice(1 + round as i32);
                let unusual = Workqueue::builder("unusual").unbound().attrs(attrs).build().unwrap();
                for at in all {
                    assert_eq!(joined(wq.queue_on(*at, sys::current_cpu)), cpu, "queue {n}");
                    assert_eq!(joined(unusual.queue_on(*at, sys::current_cpu)), cpu);
                }
            }
            assert_eq!(cmwq::notices(), [""; 0]);
            cmwq::rescan_cpus().unwrap();
        }
        cpuset.set(all).unwrap();
    });
}

/// The same with a real cpuset, which confines even threads that confined themselves elsewhere.
#[test]
fn a_cpuset_that_shrinks_and_grows_is_followed() {
    Stage::new("hotplug::cpuset").play();
}

fn cpuset() {
    for_a_cast(|stays, leaves, all| {
        let cpuset = match Cpuset::enter(all) {
            Ok(cpuset) => cpuset,
            Err(error) => return skip(format_args!("no cpuset can be made: {error}")),
        };
        let bound = percpu("bound");
        for _ in 0..3 {
            for cpu in all {
                assert_eq!(joined(bound.queue_on(*cpu, sys::current_cpu)), *cpu);
            }
            let rest: Vec<_> = all.iter().copied().filter(|cpu| *cpu != leaves).collect();
            cpuset.set(&rest).unwrap();
            cmwq::rescan_cpus().unwrap();
            assert_eq!(cmwq::unbound_cpumask().unwrap().count(), rest.len());
            for wq in every_kind("gone") {
                for cpu in all {
                    assert_ne!(joined(wq.queue_on(*cpu, sys::current_cpu)), leaves);
                }
            }
            assert_eq!(joined(bound.queue_on(stays, sys::allowed_cpus)), [stays]);
            cpuset.set(all).unwrap();
            cmwq::rescan_cpus().unwrap();
            assert_eq!(cmwq::unbound_cpumask().unwrap().count(), all.len());
        }
        for cpu in all {
            assert_eq!(joined(bound.queue_on(*cpu, sys::allowed_cpus)), [*cpu]);
        }
        assert_eq!(joined(unbound("back").queue(sys::allowed_cpus)), all);
        assert_eq!(cmwq::notices(), [""; 0]);
    });
}

/// Who starts a program on one CPU means it, whatever the cpuset would allow.
#[test]
fn a_process_that_was_started_on_one_cpu_stays_there() {
    Stage::new("hotplug::started_narrow").play();
}

fn started_narrow() {
    let cpus = sys::allowed_cpus();
    let (cpu, other) = (cpus[0], *cpus.last().unwrap());
    confine_all(&[cpu]);
    for wq in every_kind("narrow") {
        cmwq::rescan_cpus().unwrap();
        assert_eq!(joined(wq.queue(sys::allowed_cpus)), [cpu]);
        assert_eq!(joined(wq.queue_on(other, sys::current_cpu)), cpu);
    }
    assert_eq!(cmwq::unbound_cpumask().unwrap().count(), 1);
}

/// Which of a program's threads comes first is chance.
#[test]
fn a_pinned_thread_that_uses_the_library_first_does_not_confine_it() {
    Stage::new("hotplug::pinned_first").on_cpus_that_stay().play();
}

fn pinned_first() {
    let cpus = sys::allowed_cpus();
    let cpu = cpus[0];
    let first = thread::spawn(move || {
        sys::confine(0, &[cpu]).unwrap();
        joined(managed("first").queue(|| ()));
    });
    first.join().unwrap();
    for round in ["at first", "looked at again"] {
        let bound = percpu("bound");
        let ran_on: Vec<_> =
            cpus.iter().map(|cpu| joined(bound.queue_on(*cpu, sys::current_cpu))).collect();
        assert_eq!(ran_on, cpus, "{round}");
        assert_eq!(joined(unbound("anywhere").queue(sys::allowed_cpus)), cpus, "{round}");
        assert_eq!(cmwq::unbound_cpumask().unwrap().count(), cpus.len(), "{round}");
        cmwq::rescan_cpus().unwrap();
    }
}
