//! Layouts on made-up machines: which CPUs share workers, and how limits are split.

mod belonging;
mod coming;

use std::collections::HashSet;

use cmwq_core::{PwqConfig, WqKey};

use super::*;
use crate::engine::process::without_threads;
use crate::engine::runtime::Found;
use crate::engine::tools::attrs::Priority;
use crate::engine::wq::Spec;
use crate::os::topo::Pod;

fn set(list: &str) -> CpuSet {
    list.parse().expect("a CPU list")
}

/// A runtime without threads on a machine with these caches, as `(CPUs, node)`.
fn runtime(caches: &[(&str, u32)], quota: Option<f64>) -> &'static Runtime {
    let pod = |(cpus, node): &(&str, u32)| Pod { cpus: set(cpus), node: Some(*node) };
    let pods: Vec<Pod> = caches.iter().map(pod).collect();
    let all = pods.iter().fold(CpuSet::new(), |all, pod| all.or(&pod.cpus));
    let each = all.iter().map(|cpu| Pod { cpus: CpuSet::single(cpu), node: None }).collect();
    without_threads(Machine::new(&all, quota, pods, each))
}

/// Where workers for items of `cpu` begin, and where they may run.
#[track_caller]
fn check_key(layout: &Layout, cpu: u32, pod: &str, cpus: &str) {
    let PoolCpus::Pod { pod: is, cpus: may, .. } = layout.key(cpu).cpus else {
        panic!("an unbound queue leads to a pod");
    };
    assert_eq!((is.to_string(), may.to_string()), (pod.to_owned(), cpus.to_owned()), "CPU {cpu}");
}

/// Whether the CPU with this index is here.
fn is_here(runtime: &Runtime, index: usize) -> bool {
    runtime.placement.stand_in(index) == index
}

fn server() -> &'static Runtime {
    runtime(&[("0-3", 0), ("4-7", 0), ("8-15", 1)], None)
}

#[test]
fn pods_are_those_of_the_scope_within_the_mask() {
    let server = server();
    let layout = |attrs: &Attrs| server.layout(Kind::Unbound, attrs);
    let default = layout(&Attrs::new());
    check_key(&default, 5, "4-7", "0-15");
    let strict = layout(&Attrs::new().affinity_strict(true));
    check_key(&strict, 5, "4-7", "4-7");
    let numa = Attrs::new().affinity_scope(Some(AffinityScope::Numa));
    check_key(&layout(&numa), 5, "0-7", "0-15");
    let masked = layout(&numa.clone().cpumask(set("2-9")));
    check_key(&masked, 5, "2-7", "2-9");
    check_key(&masked, 12, "8-9", "2-9");
    let narrow = layout(&numa.cpumask(set("2-4")));
    // KERNEL: no CPU of the pod is in the mask, so it is the whole mask.
    check_key(&narrow, 12, "2-4", "2-4");
    let nowhere = layout(&Attrs::new().cpumask(set("100")));
    check_key(&nowhere, 0, "0-3", "0-15");
    check_key(&server.layout(Kind::Ordered, &Attrs::new()), 0, "0-15", "0-15");
}

#[test]
fn equal_places_have_equal_keys() {
    let server = server();
    let key = |attrs: &Attrs, cpu| server.layout(Kind::Unbound, attrs).key(cpu);
    let (plain, strict) = (Attrs::new(), Attrs::new().affinity_strict(true));
    assert_eq!(key(&plain, 4), key(&plain, 7));
    assert_ne!(key(&plain, 4), key(&plain, 8));
    assert_ne!(key(&plain, 4), key(&strict, 4));
    assert_ne!(key(&plain, 4), key(&plain.clone().nice(1), 4));
    // Workers that stay in their pod do not care what else the mask has; others do.
    let (some, more) = (set("4-7"), set("4-8"));
    let masked = |attrs: &Attrs, mask: &CpuSet| key(&attrs.clone().cpumask(mask.clone()), 4);
    assert_eq!(masked(&strict, &some), masked(&strict, &more));
    assert_ne!(masked(&plain, &some), masked(&plain, &more));
}

#[test]
fn limits_are_split_by_the_cpus_of_the_nodes() {
    let server = server();
    let spread = |attrs: &Attrs| server.spread(&server.layout(Kind::Unbound, attrs));
    assert_eq!(spread(&Attrs::new()), [(Some(0), 4), (Some(0), 4), (Some(1), 8)]);
    let masked = Attrs::new().cpumask(set("0-1,8-13"));
    assert_eq!(spread(&masked), [(Some(0), 2), (Some(1), 6)]);
    let system = Attrs::new().affinity_scope(Some(AffinityScope::System));
    assert_eq!(spread(&system), [(None, 16)]);
}

#[test]
fn a_quota_makes_one_pod_unless_a_scope_is_named() {
    let server = runtime(&[("0-3", 0), ("4-7", 0)], Some(2.0));
    let layout = |attrs: &Attrs| server.layout(Kind::Unbound, attrs);
    check_key(&layout(&Attrs::new()), 5, "0-7", "0-7");
    let named = Attrs::new().affinity_scope(Some(AffinityScope::Cache));
    check_key(&layout(&named), 5, "4-7", "0-7");
}

#[test]
fn cpus_that_leave_are_stood_for_by_others() {
    let server = server();
    assert!((0..16).all(|index| is_here(server, index)));
    server.allow(&set("0-5"));
    assert!((0..6).all(|index| is_here(server, index)));
    for index in 6..16 {
        let stand_in = server.placement.stand_in(index);
        assert!(stand_in < 6 && !is_here(server, index), "{index} at {stand_in}");
    }
    let layout = server.layout(Kind::Unbound, &Attrs::new());
    check_key(&layout, 5, "4-5", "0-5");
    check_key(&layout, 12, "0-5", "0-5");
    server.allow(&set("0-15"));
    assert!((0..16).all(|index| is_here(server, index)));
}

#[test]
fn isolated_cpus_are_left_out_unless_nothing_is_left() {
    let of = |allowed, requested: Option<&str>, isolated| {
        usable(&set(allowed), requested.map(set).as_ref(), &set(isolated)).to_string()
    };
    assert_eq!(of("0-7", None, "2-3"), "0-1,4-7");
    assert_eq!(of("0-7", Some("2-5"), "2-3"), "4-5");
    assert_eq!(of("0-7", Some("2-3"), "2-3"), "2-3", "asked for, and nothing else is left");
    assert_eq!(of("0-3", Some("6-7"), "0"), "1-3", "what was asked for has gone");
    assert_eq!(of("2-3", None, "2-3"), "2-3");
}

/// Else it would not be used as long as the process lives.
#[test]
fn a_cpu_that_comes_while_the_process_starts_confines_nobody() {
    let is_narrower = |[before, widest, after]: [&str; 3]| {
        super::is_narrower(&set(before), &set(widest), &set(after))
    };
    assert!(!is_narrower(["0-2", "0-3", "0-3"]), "it came");
    assert!(!is_narrower(["0-3", "0-3", "0-2"]), "it left");
    assert!(!is_narrower(["0-3", "0-2", "0-2"]), "before anybody asked");
    assert!(is_narrower(["0-2", "0-3", "0-2"]), "`taskset`");
    assert!(is_narrower(["0-1", "0-3", "0-1,3"]), "the same, and a CPU came");
}

#[test]
fn a_mask_without_a_usable_cpu_is_refused() {
    let server = server();
    assert!(server.set_unbound_cpumask(&set("16-20")).is_err());
    assert_eq!(server.placement.now().unbound, set("0-15"));
    server.set_unbound_cpumask(&set("14-20")).expect("two of them are here");
    assert_eq!(server.placement.now().unbound, set("14-15"));
}

#[test]
fn what_leaves_its_queuer_stays_in_its_cache_if_that_has_a_pod_left() {
    let server = server();
    let pool = |slot| {
        let spec = Spec::of(Kind::Managed);
        server
            .pool_by_key(server.key_for(spec, spec.default_priority(), slot))
            .expect("a few pools")
            .pool
    };
    let usual = pool(7);
    assert_eq!(server.cpu_instead(usual, 0), Some(4), "that of CPU 8 is the next one");
    // Sentinels end it elsewhere; here nobody does.
    (4..7).for_each(|cpu| pool(cpu).set_caller_computes(true));
    assert_eq!(server.cpu_instead(usual, 0), Some(0), "of the same node");
    (0..4).for_each(|cpu| pool(cpu).set_caller_computes(true));
    assert_eq!(server.cpu_instead(usual, 0), Some(8));
}

/// A CPU may be back before anybody has seen that it was away; the mask that the worker has set
/// meanwhile is without it.
#[test]
fn a_worker_that_goes_to_its_pod_while_a_cpu_is_away_is_put_back_later() {
    let here = topo::allowed_cpus();
    let cpu = here.iter().max().expect("the test runs somewhere");
    let there = |cpus: &CpuSet| {
        let pods = cpus.iter().map(|cpu| Pod { cpus: CpuSet::single(cpu), node: None });
        let pods: Vec<_> = pods.collect();
        let runtime = without_threads(Machine::new(cpus, None, pods.clone(), pods));
        let key = runtime.layout(Kind::Unbound, &Attrs::new()).key(cpu);
        runtime.pool_by_key(key).expect("a few pools").pool.go_to_pod();
        runtime.service.is_to_rescan()
    };
    assert!(!there(&here), "it has all of its CPUs");
    let absent = CpuSet::single(cpu + 1);
    assert!(there(&here.or(&absent)), "it goes without one of them");
    assert_eq!(topo::allowed_cpus(), here);
}

fn one_queues() -> PwqConfig {
    PwqConfig {
        wq: WqKey(0),
        max_active: 1,
        node: None,
        cpu_intensive: false,
        rescuer: false,
        work_color: 0,
    }
}

/// More sets of attributes, one after the other, than there may be pools: what nobody needs is used
/// again.
#[test]
fn pools_do_not_run_out() {
    let server = server();
    server.set_fault_no_threads(true);
    let mut pools = HashSet::new();
    let mut last = None;
    for n in 0..70_000_u64 {
        let priority = Priority::nice((n % 19) as i32 + 1);
        let cpus: CpuSet = (0..16).filter(|cpu| (n / 19 + 1) >> cpu & 1 == 1).collect();
        let of = PoolCpus::Pod { pod: cpus.clone(), cpus: cpus.clone(), strict: n % 2 == 0 };
        let key = PoolKey { kind: place::PoolKind::Unbound, priority, cpus: of };
        let found = server.pool_by_key(key).expect("there is room");
        let pool = found.pool;
        let pwq =
            pool.add_pwq(&found.spec, one_queues(), false, None).expect("nobody else wants it");
        assert_eq!((pool.spec().priority, &pool.spec().cpus), (priority, &cpus));
        assert_eq!(pool.spec().is_strict, n % 2 == 0);
        assert_eq!(pool.whereabouts(), cpus);
        pools.insert(pool.id);
        // The change before this one is over: its pwq goes.
        if let Some((pool, pwq)) = last.replace((pool, pwq)) {
            let pool: &'static Pool = pool;
            assert!(pool.remove_pwq(pwq).is_ok());
            pool.close_if_unused();
        }
    }
    assert_eq!(pools.len(), 2);
    assert_eq!(server.pools().count(), 2);
}

/// Who has looked for a pool and comes to it when it is another one's looks again.
#[test]
fn a_pool_that_was_renewed_is_told_from_the_one_that_was_found() {
    let server = server();
    server.set_fault_no_threads(true);
    let find = |nice| {
        let attrs = Attrs::new().nice(nice);
        server.pool_by_key(server.layout(Kind::Ordered, &attrs).key(0)).expect("a few pools")
    };
    let add = |found: &Found| found.pool.add_pwq(&found.spec, one_queues(), false, None);
    let early = find(1);
    // Somebody whose pwq was there before closes it.
    early.pool.close_if_unused();
    let late = find(2);
    assert!(std::ptr::eq(early.pool, late.pool), "it was vacant");
    assert_eq!(add(&early), None);
    assert!(add(&late).is_some());
    assert_eq!(late.pool.spec().priority.nice, 2);
    let again = find(1);
    assert!(!std::ptr::eq(again.pool, late.pool));
    assert!(add(&again).is_some());
}

/// The CPUs have numbers that no caller of this test is on.
#[test]
fn an_item_for_a_node_goes_to_a_cpu_that_the_process_may_use() {
    let caches = [("100-107", 0), ("108-115", 1)];
    let server = runtime(&caches, None);
    assert_eq!(
        [0, 1, 2].map(|node| server.cpu_of_node(Kind::Unbound, node)),
        [Some(100), Some(108), None]
    );
    server.allow(&set("104-107,112-115"));
    assert_eq!([0, 1].map(|node| server.cpu_of_node(Kind::Unbound, node)), [Some(104), Some(112)]);
    server.allow(&set("104-107"));
    assert_eq!([0, 1].map(|node| server.cpu_of_node(Kind::Unbound, node)), [Some(104), None]);
    // Also where managed queues have one pod for all.
    let pods = caches.map(|(cpus, node)| Pod { cpus: set(cpus), node: Some(node) });
    let all = set("100-115");
    let one = vec![Pod { cpus: all.clone(), node: None }];
    let server = without_threads(Machine::new(&all, None, pods.into(), one));
    assert_eq!([0, 1].map(|node| server.cpu_of_node(Kind::Unbound, node)), [Some(100), Some(108)]);
}
