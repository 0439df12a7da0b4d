//! Affinity scopes, and the CPUs of unbound queues as a whole.

use std::time::Duration;

use cmwq::{AffinityScope, Attrs, CpuSet, ErrorKind, Workqueue};

use crate::support::cpus::{for_each_cpu, on_cpus_that_stay};
use crate::support::load::burn;
use crate::support::scene::{Scene, Stage, skip};
use crate::support::{eventually, joined, percpu, procfs, sys, unbound, undisturbed};

pub(crate) const SCENES: &[Scene] = &[
    ("placement::unbound_cpus", unbound_cpus),
    ("placement::no_unbound_cpus", no_unbound_cpus),
    ("placement::in_turn", in_turn),
    ("placement::unbound_mask", unbound_mask),
    ("placement::default_scope", default_scope),
    ("placement::pools_are_shared", pools_are_shared),
    ("placement::stray", stray),
    ("placement::impossible_cpu", impossible_cpu),
    ("placement::pools_go", pools_go),
    ("placement::told_in_order", told_in_order),
];

fn scoped(name: &str, scope: AffinityScope, strict: bool) -> Workqueue {
    let builder = Workqueue::builder(name).unbound().affinity_scope(scope);
    builder.affinity_strict(strict).build().unwrap()
}

#[test]
fn a_strict_pod_is_never_left() {
    let wq = scoped("strict", AffinityScope::Cpu, true);
    for_each_cpu(|cpu, _| {
        let handles: Vec<_> = (0..50)
            .map(|_| {
                wq.queue_on(cpu, || {
                    burn(Duration::from_micros(50));
                    (sys::current_cpu(), sys::allowed_cpus())
                })
            })
            .collect();
        for handle in handles {
            assert_eq!(joined(handle), (cpu, vec![cpu]));
        }
    });
}

/// Workers of a pod that they may leave begin there when its CPU is free.
#[test]
fn a_free_pod_is_where_items_run() {
    Stage::new("placement::stray").on_cpus_that_stay().play();
}

fn stray() {
    let cpus = sys::allowed_cpus();
    if cpus.len() < 2 {
        skip("there is one CPU only");
        return;
    }
    let wq = scoped("stray", AffinityScope::Cpu, false);
    for &cpu in &cpus {
        // The one who queues is elsewhere, so the pod is as free as the machine lets it be.
        let elsewhere = *cpus.iter().find(|other| **other != cpu).unwrap();
        sys::confine(0, &[elsewhere]).unwrap();
        undisturbed(10, || {
            let (mut inside, mut wide) = (0, 0);
            for _ in 0..200 {
                let (ran_on, allowed) =
                    joined(wq.queue_on(cpu, || (sys::current_cpu(), sys::allowed_cpus())));
                inside += usize::from(ran_on == cpu);
                wide += usize::from(allowed == cpus);
            }
            assert_eq!(wide, 200, "the scheduler may move it");
            let is_there = inside >= 180;
            is_there.then_some(()).ok_or_else(|| format!("{inside} of 200 on CPU {cpu}"))
        });
    }
}

/// Which pools there are is a matter of attributes, not of queues.
#[test]
fn queues_with_equal_attributes_share_workers() {
    Stage::new("placement::pools_are_shared").play();
}

fn pools_are_shared() {
    let attrs = [
        Attrs::new(),
        Attrs::new().nice(sys::nicer(1)),
        Attrs::new().cpumask(CpuSet::single(sys::allowed_cpus()[0])),
    ];
    // Always of one pod.
    let cpu = sys::allowed_cpus()[0];
    for _ in 0..20 {
        for attrs in &attrs {
            let wq = Workqueue::builder("sharing").unbound().attrs(attrs.clone()).build().unwrap();
            joined(wq.queue_on(cpu, || ()));
            drop(wq);
        }
    }
    let keep: Vec<_> = attrs
        .iter()
        .flat_map(|attrs| [attrs, attrs])
        .map(|attrs| Workqueue::builder("sharing").unbound().attrs(attrs.clone()).build().unwrap())
        .collect();
    keep.iter().for_each(|wq| joined(wq.queue_on(cpu, || ())));
    let mut pools: Vec<_> = procfs::workers("kworker/u")
        .iter()
        .filter_map(|name| name.split(':').next().map(str::to_owned))
        .collect();
    pools.sort();
    pools.dedup();
    assert!(pools.len() <= 3, "{pools:?}");
}

#[test]
fn the_cpus_of_unbound_queues_can_be_changed() {
    Stage::new("placement::unbound_mask").on_cpus_that_stay().play();
}

fn unbound_mask() {
    let cpus = sys::allowed_cpus();
    let (wq, ordered) = (unbound("mask"), Workqueue::builder("mask").ordered().build().unwrap());
    let chosen = unbound("chosen");
    chosen.apply_attrs(&Attrs::new().cpumask(CpuSet::single(cpus[0]))).unwrap();
    for cpu in cpus.iter().rev() {
        cmwq::set_unbound_cpumask(&CpuSet::single(*cpu)).unwrap();
        assert_eq!(cmwq::unbound_cpumask().unwrap(), CpuSet::single(*cpu));
        for _ in 0..20 {
            for wq in [&wq, &ordered, &chosen] {
                // A mask with nothing in common stands for all of the unbound CPUs.
                assert_eq!(joined(wq.queue(sys::current_cpu)), *cpu);
            }
        }
    }
    let nowhere = CpuSet::single(60_000);
    let refused = cmwq::set_unbound_cpumask(&nowhere).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(cmwq::unbound_cpumask().unwrap(), CpuSet::single(cpus[0]), "as before");
    let all: CpuSet = cpus.iter().copied().collect();
    cmwq::set_unbound_cpumask(&all).unwrap();
    assert_eq!(joined(wq.queue(sys::allowed_cpus)), cpus);
}

#[test]
fn the_default_scope_can_be_changed() {
    Stage::new("placement::default_scope").on_cpus_that_stay().play();
}

fn default_scope() {
    let cpus = sys::allowed_cpus();
    let wq = Workqueue::builder("scope").unbound().affinity_strict(true).build().unwrap();
    let steady = scoped("steady", AffinityScope::System, true);
    cmwq::set_default_affinity_scope(AffinityScope::System).unwrap();
    assert_eq!(joined(wq.queue(sys::allowed_cpus)), cpus);
    cmwq::set_default_affinity_scope(AffinityScope::Cpu).unwrap();
    assert_eq!(cmwq::default_affinity_scope().unwrap(), AffinityScope::Cpu);
    for &cpu in &cpus {
        assert_eq!(joined(wq.queue_on(cpu, sys::allowed_cpus)), [cpu]);
        assert_eq!(joined(steady.queue_on(cpu, sys::allowed_cpus)), cpus, "it names its scope");
    }
}

/// Pools of scopes and masks that were have no threads, whether a queue led to them when they went
/// or not.
#[test]
fn pools_whose_scope_or_mask_has_gone_end() {
    Stage::new("placement::pools_go").on_cpus_that_stay().play();
}

fn pools_go() {
    let cpus = sys::allowed_cpus();
    let all: CpuSet = cpus.iter().copied().collect();
    let only_one_pool_has_workers = || {
        let names = procfs::workers("kworker/u");
        let pool = |name: &String| name.split(':').next().map(str::to_owned);
        names.iter().all(|name| pool(name) == pool(&names[0]))
    };
    let on_all_cpus = |wq: &Workqueue| {
        cpus.iter().for_each(|cpu| joined(wq.queue_on(*cpu, || ())));
    };
    // Whether a queue stays, or comes and goes.
    let stays = unbound("stays");
    for scope in AffinityScope::ALL {
        cmwq::set_default_affinity_scope(scope).unwrap();
        on_all_cpus(&stays);
        on_all_cpus(&unbound("comes and goes"));
    }
    drop(stays);
    cmwq::set_default_affinity_scope(AffinityScope::System).unwrap();
    eventually("pools of scopes that were have no workers", only_one_pool_has_workers);
    for cpu in &cpus {
        cmwq::set_unbound_cpumask(&CpuSet::single(*cpu)).unwrap();
        on_all_cpus(&unbound("comes and goes"));
    }
    cmwq::set_unbound_cpumask(&all).unwrap();
    let stays = unbound("stays");
    on_all_cpus(&stays);
    eventually("pools of masks that were have no workers", only_one_pool_has_workers);
    assert_eq!(joined(stays.queue(sys::allowed_cpus)), cpus);
}

/// Who sees the new mask can rely on it: what he queues from then on keeps to it.
#[test]
fn a_mask_is_told_when_it_holds() {
    Stage::new("placement::told_in_order").on_cpus_that_stay().play();
}

fn told_in_order() {
    let cpus = sys::allowed_cpus();
    if cpus.len() < 2 {
        skip("there is one CPU only");
        return;
    }
    // Many queues take their time to follow; the last one is looked at.
    let queues: Vec<_> = (0..300).map(|_| unbound("follows")).collect();
    queues.iter().for_each(|wq| joined(wq.queue(|| ())));
    let last = queues.last().unwrap();
    for round in 0..20 {
        let cpu = cpus[round % cpus.len()];
        let mask = CpuSet::single(cpu);
        std::thread::scope(|s| {
            s.spawn(|| cmwq::set_unbound_cpumask(&mask).unwrap());
            while cmwq::unbound_cpumask().unwrap() != mask {
                std::hint::spin_loop();
            }
            assert_eq!(joined(last.queue(sys::allowed_cpus)), [cpu], "round {round}");
        });
    }
}

#[test]
fn a_cpu_that_cannot_be_is_said_once() {
    Stage::new("placement::impossible_cpu").play();
}

fn impossible_cpu() {
    // Before this thread is confined, so that the process is not.
    cmwq::rescan_cpus().unwrap();
    let cpus = sys::allowed_cpus();
    if cpus.len() < 2 {
        skip("a queue with one way to go does not ask for the CPU");
        return;
    }
    sys::confine(0, &[cpus[0]]).unwrap();
    let wq = percpu("impossible");
    for cpu in [60_000, u32::MAX, 60_001] {
        assert_eq!(
            joined(wq.queue_on(cpu, sys::current_cpu)),
            cpus[0],
            "the current CPU stands in"
        );
    }
    let notices = cmwq::notices();
    assert!(notices.len() == 1 && notices[0].contains("CPU 60000"), "{notices:?}");
}

#[test]
fn the_parameter_unbound_cpus_confines_unbound_queues() {
    on_cpus_that_stay(|cpus| {
        let last = cpus.here.last().unwrap();
        Stage::new("placement::unbound_cpus").params(&format!("unbound_cpus={last}")).play();
    });
    let ignored = Stage::new("placement::no_unbound_cpus").params("unbound_cpus=1023");
    ignored.on_cpus_that_stay().play();
}

fn unbound_cpus() {
    let last = *sys::allowed_cpus().last().unwrap();
    let wq = Workqueue::builder("confined").unbound().build().unwrap();
    for _ in 0..50 {
        assert_eq!(joined(wq.queue(sys::current_cpu)), last);
    }
    assert_eq!(cmwq::unbound_cpumask().unwrap(), CpuSet::single(last));
}

fn no_unbound_cpus() {
    let wq = Workqueue::builder("ignored").unbound().build().unwrap();
    joined(wq.queue(|| ()));
    assert_eq!(cmwq::unbound_cpumask().unwrap().count(), sys::allowed_cpus().len());
    let notices = cmwq::notices();
    assert!(notices.iter().any(|said| said.contains("unbound_cpus=1023")), "{notices:?}");
}

#[test]
fn the_parameter_debug_force_rr_cpu_sends_items_to_all_cpus() {
    Stage::new("placement::in_turn").params("debug_force_rr_cpu=1").on_cpus_that_stay().play();
}

fn in_turn() {
    let cpus = sys::allowed_cpus();
    let wq = scoped("in turn", AffinityScope::Cpu, true);
    sys::confine(0, &cpus[..1]).unwrap();
    let mut seen: Vec<u32> = (0..100).map(|_| joined(wq.queue(sys::current_cpu))).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, cpus, "queued from one CPU, they ran on all");
}
