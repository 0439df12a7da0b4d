//! CPUs, and how many workers of a pool may run.

use std::vec::Vec;

use crate::limit::Limits;
use crate::place::usable::{self, Usable};
use crate::place::{
    Belonging, Cpu, Cpus, OwnCpus, Pods, PoolAttrs, PoolKind, QueueKind, RESCAN_EVERY_NS, Rescan,
    SHARD_CORES, Scope, SlotCpus, StandIn, concurrency, cpu_of_node, granted, stand_in,
};
use crate::policy::UNMANAGED;

const ALL: u32 = u32::MAX;

#[test]
fn a_percpu_pool_runs_one_and_all_when_its_cpu_has_gone() {
    assert_eq!(concurrency(PoolKind::Percpu, 1, ALL), 1);
    assert_eq!(concurrency(PoolKind::Percpu, 1, 1), 1);
    assert_eq!(concurrency(PoolKind::Percpu, 0, ALL), UNMANAGED, "disassociated");
}

#[test]
fn a_managed_pool_runs_as_many_as_it_has_cpus_and_always_one() {
    assert_eq!([0, 1, 8].map(|cpus| concurrency(PoolKind::Managed, cpus, ALL)), [1, 1, 8]);
    assert_eq!([0, 1, 8].map(|cpus| concurrency(PoolKind::Managed, cpus, 3)), [1, 1, 3]);
}

#[test]
fn the_others_do_not_depend_on_cpus() {
    for cpus in [0, 1, 8] {
        assert_eq!(concurrency(PoolKind::Unbound, cpus, 1), UNMANAGED);
        assert_eq!(concurrency(PoolKind::Bh, cpus, 1), 0, "its context is a guest");
    }
}

/// Where workers start items, and where they may wake up.
fn places(kind: PoolKind, has_others: bool, [allowed, managed]: [u32; 2]) -> [Cpus; 2] {
    let belonging = Belonging::of(kind, has_others, OwnCpus { allowed, managed }, ALL);
    [belonging.bound, belonging.unbound]
}

#[test]
fn workers_belong_on_their_own_cpus_and_on_others_while_these_are_away() {
    assert_eq!(places(PoolKind::Percpu, false, [1, 1]), [Cpus::Own; 2]);
    assert_eq!(places(PoolKind::Percpu, false, [1, 0]), [Cpus::Own; 2], "isolated");
    assert_eq!(places(PoolKind::Percpu, false, [0, 0]), [Cpus::Unbound; 2]);
    assert_eq!(places(PoolKind::Unbound, false, [2, 0]), [Cpus::Own; 2]);
    assert_eq!(places(PoolKind::Unbound, false, [0, 0]), [Cpus::Allowed; 2]);
    assert_eq!(places(PoolKind::Bh, false, [0, 0]), [Cpus::Own; 2], "the system moves it");
}

#[test]
fn a_pod_helps_others_while_managed_queues_use_one_of_its_cpus() {
    for ([allowed, managed], helps) in [([2, 2], true), ([2, 1], true), ([2, 0], false)] {
        let own = OwnCpus { allowed, managed };
        assert_eq!(own.may_help(), helps, "{own:?}");
        assert_eq!(Belonging::of(PoolKind::Managed, true, own, ALL).may_help(), helps, "{own:?}");
    }
    let away = OwnCpus { allowed: 0, managed: 0 };
    assert!(!Belonging::of(PoolKind::Managed, true, away, ALL).may_help() && !away.may_help());
}

#[test]
fn workers_of_managed_pools_wake_up_wherever_managed_queues_run() {
    let managed = |own| places(PoolKind::Managed, true, own);
    assert_eq!(managed([1, 1]), [Cpus::Own, Cpus::Managed]);
    assert_eq!(managed([1, 0]), [Cpus::Own; 2], "isolated: nobody else's CPU is used");
    assert_eq!(managed([0, 0]), [Cpus::Unbound, Cpus::Managed]);
    assert_eq!(places(PoolKind::Managed, false, [4, 3]), [Cpus::Managed; 2], "the only one");
}

#[test]
fn what_a_pool_is_follows_from_its_cpus() {
    let of = |kind, has_others, allowed, managed| {
        let it = Belonging::of(kind, has_others, OwnCpus { allowed, managed }, 2);
        (it.concurrency, it.is_disassociated, it.is_apart, it.is_pinned)
    };
    assert_eq!(of(PoolKind::Percpu, false, 1, 0), (1, false, false, true));
    assert_eq!(of(PoolKind::Percpu, false, 0, 0), (UNMANAGED, true, false, false));
    assert_eq!(of(PoolKind::Managed, true, 1, 1), (1, false, false, true));
    assert_eq!(of(PoolKind::Managed, true, 1, 0), (1, false, true, true));
    assert_eq!(of(PoolKind::Managed, true, 0, 0), (1, true, true, false));
    assert_eq!(of(PoolKind::Managed, false, 4, 3), (2, false, false, false), "what is granted");
    assert_eq!(of(PoolKind::Managed, false, 4, 1), (1, false, false, true));
    assert_eq!(of(PoolKind::Unbound, false, 1, 1), (UNMANAGED, false, false, false));
    assert_eq!(of(PoolKind::Unbound, false, 0, 0), (UNMANAGED, false, false, false));
    assert_eq!(of(PoolKind::Bh, false, 1, 1), (0, false, false, false));
}

#[test]
fn a_quota_grants_whole_cpus_rounded_up() {
    let of_eight = |quota| granted(8, Some(quota));
    assert_eq!([0.1, 1.0, 1.01, 2.5, 8.0, 9.0].map(of_eight), [1, 1, 2, 3, 8, 8]);
    assert_eq!([f64::MAX, f64::INFINITY, 0.0, -1.0, f64::NAN].map(of_eight), [8, 8, 1, 1, 1]);
    assert_eq!((granted(8, None), granted(0, None), granted(0, Some(4.0))), (8, 1, 1));
}

/// Nodes, caches of a node, cores of a cache, threads of a core.
fn machine([nodes, caches, cores, threads]: [u32; 4]) -> Vec<Cpu> {
    let (of_cache, of_node) = (cores * threads, caches * cores * threads);
    let cpu =
        |id| Cpu { id, core: id - id % threads, llc: id - id % of_cache, node: Some(id / of_node) };
    (0..nodes * of_node).map(cpu).collect()
}

/// The CPUs of the pods, in the order of their lowest ones.
fn pods(scope: Scope, cpus: &[Cpu]) -> Vec<Vec<u32>> {
    let pods = Pods::of(scope, cpus.iter().copied(), |_| true);
    assert!(cpus.iter().all(|cpu| pods.pod(cpu.id).is_some_and(|pod| pod.contains(&cpu.id))));
    pods.iter().map(<[u32]>::to_vec).collect()
}

/// Their sizes.
fn sizes(scope: Scope, cpus: &[Cpu]) -> Vec<usize> {
    pods(scope, cpus).iter().map(Vec::len).collect()
}

#[test]
fn pods_are_as_wide_as_their_scope() {
    let cpus = machine([2, 2, 3, 2]);
    assert_eq!(sizes(Scope::Cpu, &cpus), [1; 24]);
    assert_eq!(sizes(Scope::Smt, &cpus), [2; 12]);
    assert_eq!(sizes(Scope::Cache, &cpus), [6; 4]);
    assert_eq!(sizes(Scope::Numa, &cpus), [12; 2]);
    assert_eq!(sizes(Scope::System, &cpus), [24]);
    assert!(pods(Scope::System, &[]).is_empty());
}

#[test]
fn shards_are_even_and_keep_siblings_together() {
    let shards = |cores| sizes(Scope::CacheShard(SHARD_CORES), &machine([1, 1, cores, 2]));
    // 12 cores make two shards, 11 one; 20 make three (rounded up) of 7, 7 and 6 cores.
    assert_eq!(shards(12), [12, 12]);
    assert_eq!(shards(11), [22]);
    assert_eq!(shards(20), [14, 14, 12]);
    assert_eq!(sizes(Scope::CacheShard(0), &machine([1, 1, 3, 2])), [2, 2, 2]);
    assert_eq!(sizes(Scope::CacheShard(u32::MAX), &machine([1, 2, 3, 1])), [3, 3]);
}

#[test]
fn siblings_and_caches_may_be_numbered_across_each_other() {
    // Two cores with CPUs 0, 2 and 1, 3, and a cache each; two more CPUs of no node.
    let cpu = |id, core, llc, node| Cpu { id, core, llc, node };
    let cpus = [
        cpu(0, 0, 0, Some(1)),
        cpu(1, 1, 1, Some(1)),
        cpu(2, 0, 0, Some(1)),
        cpu(3, 1, 1, Some(1)),
        cpu(5, 5, 5, None),
        cpu(6, 6, 6, None),
    ];
    let cores = [&[0, 2][..], &[1, 3], &[5], &[6]];
    assert_eq!(pods(Scope::Smt, &cpus), cores);
    assert_eq!(pods(Scope::CacheShard(1), &cpus), cores);
    assert_eq!(pods(Scope::Numa, &cpus), [&[0, 1, 2, 3][..], &[5, 6]]);
}

/// Of the CPUs of a machine, the pods if these have gone.
fn without(gone: &[u32], scope: Scope, cpus: &[Cpu]) -> Vec<Vec<u32>> {
    let here: Vec<_> = cpus.iter().copied().filter(|cpu| !gone.contains(&cpu.id)).collect();
    pods(scope, &here)
}

#[test]
fn pods_are_cut_of_the_cpus_that_are_here() {
    let shard = Scope::CacheShard(SHARD_CORES);
    let nr = |gone: &[u32]| without(gone, shard, &machine([1, 1, 12, 1])).len();
    assert_eq!((nr(&[]), nr(&[3]), nr(&[3, 7])), (2, 1, 1));
    // Cores are counted, and one without its first CPU is one.
    assert_eq!(without(&[0, 3], shard, &machine([1, 1, 12, 2])).len(), 2);
    let cores = without(&[0, 3], Scope::Smt, &machine([1, 1, 2, 2]));
    assert_eq!(cores, [[1], [2]]);
    let caches = without(&[0, 1], Scope::Cache, &machine([1, 2, 3, 1]));
    assert_eq!(caches, [&[2][..], &[3, 4, 5]]);
}

#[test]
fn a_cpu_that_has_gone_is_in_no_pod_nor_is_one_whose_pod_the_queue_may_not_use() {
    let here = machine([1, 2, 4, 1]).into_iter().filter(|cpu| cpu.id != 1);
    let pods = Pods::of(Scope::Cache, here, |cpu| cpu < 3);
    assert_eq!([0, 1, 2, 3, 4].map(|cpu| pods.pod(cpu)), {
        let first = Some(&[0, 2][..]);
        [first, None, first, first, None]
    });
    assert_eq!(pods.iter().count(), 1);
}

#[test]
fn one_pod_has_all_cpus_of_a_queue_that_leads_to_one_pool() {
    let (shard, numa) = (Scope::CacheShard(SHARD_CORES), Scope::Numa);
    let scope = |kind: QueueKind, named, granted| kind.scope(named, shard, granted, 8);
    assert_eq!(scope(QueueKind::Unbound, None, 8), shard);
    assert_eq!(scope(QueueKind::Unbound, Some(numa), 8), numa);
    assert_eq!(scope(QueueKind::Unbound, None, 2), Scope::System, "a quota");
    assert_eq!(scope(QueueKind::Unbound, Some(numa), 2), numa);
    assert_eq!(scope(QueueKind::Ordered, Some(numa), 8), Scope::System);
}

#[test]
fn cpus_that_have_gone_are_spread_over_those_that_are_here() {
    let stand_ins: Vec<_> = (4..8).filter_map(|index| stand_in(index, 3)).collect();
    assert_eq!(stand_ins, [1, 2, 0, 1]);
    assert_eq!(stand_in(4, 0), None, "none is here");
}

#[test]
fn pools_of_unusual_attributes_close_and_all_but_bh_begin_with_a_worker() {
    for kind in [PoolKind::Percpu, PoolKind::Managed, PoolKind::Unbound, PoolKind::Bh] {
        assert!(!kind.closes(true));
        assert_eq!(kind.closes(false), kind == PoolKind::Unbound);
        assert_eq!(kind.is_renewed(), kind == PoolKind::Unbound);
        assert_eq!(kind.begins_with_worker(), kind != PoolKind::Bh);
    }
}

#[test]
fn one_attribute_of_its_own_makes_a_pool_unusual() {
    let usual = PoolAttrs {
        has_default_priority: true,
        is_strict: false,
        has_all_cpus: true,
        has_default_pod: true,
    };
    assert!(usual.are_usual());
    let others = [
        PoolAttrs { has_default_priority: false, ..usual },
        PoolAttrs { is_strict: true, ..usual },
        PoolAttrs { has_all_cpus: false, ..usual },
        PoolAttrs { has_default_pod: false, ..usual },
    ];
    assert!(others.iter().all(|attrs| !attrs.are_usual()), "{others:?}");
}

#[test]
fn cpus_are_looked_at_once_a_second() {
    let rescan = Rescan::begin(5);
    let due = 5 + RESCAN_EVERY_NS;
    assert!(!rescan.is_due(due - 1) && rescan.is_due(due));
    assert_eq!(rescan.at(7), due, "who is displaced waits");
    assert_eq!(rescan.at(due + 1), due + 1);
}

const QUEUES: [QueueKind; 5] =
    [QueueKind::Percpu, QueueKind::Bh, QueueKind::Unbound, QueueKind::Managed, QueueKind::Ordered];

#[test]
fn a_quota_leads_queues_without_a_scope_to_one_pod() {
    let one = |names_scope, granted| QUEUES.map(|kind| kind.leads_to_one(names_scope, granted, 4));
    assert_eq!(one(false, 4), [false, false, false, false, true]);
    assert_eq!(one(false, 3), [false, false, true, true, true]);
    assert_eq!(one(true, 3), [false, false, false, false, true]);
}

#[test]
fn workers_of_unbound_pools_may_leave_their_pod_unless_that_is_forbidden() {
    const POOLS: [PoolKind; 4] =
        [PoolKind::Percpu, PoolKind::Bh, PoolKind::Unbound, PoolKind::Managed];
    assert_eq!(POOLS.map(|kind| kind.may_leave_pod(false, false)), [false, false, true, false]);
    let unbound = PoolKind::Unbound;
    assert!(!unbound.may_leave_pod(true, false) && !unbound.may_leave_pod(false, true));
}

#[test]
fn a_pod_without_cpus_has_those_of_its_queue() {
    use SlotCpus::{All, Pod};
    let slot = |kind: QueueKind, has_pod, is_strict| {
        let slot = kind.slot(has_pod, is_strict);
        (slot.pod, slot.cpus, slot.is_strict)
    };
    let unbound = QueueKind::Unbound;
    assert_eq!(slot(unbound, true, false), (Pod, All, false));
    assert_eq!(slot(unbound, true, true), (Pod, Pod, true));
    assert_eq!(slot(unbound, false, false), (All, All, false));
    assert_eq!(slot(unbound, false, true), (All, All, true));
    assert_eq!(slot(QueueKind::Ordered, true, true), (Pod, All, false), "its pod has all of them");
}

#[test]
fn a_power_efficient_queue_is_unbound_where_power_is_saved() {
    assert_eq!(
        [false, true].map(QueueKind::power_efficient),
        [QueueKind::Percpu, QueueKind::Unbound]
    );
}

#[test]
fn whoever_names_a_cpu_means_it() {
    use StandIn::{Managed, Own, Present};
    assert_eq!(QUEUES.map(|kind| kind.stand_in(true)), [Own, Own, Own, Present, Own]);
    assert_eq!(QUEUES.map(|kind| kind.stand_in(false)), [Present, Present, Own, Managed, Own]);
}

#[test]
fn what_leaves_no_cpu_is_not_heeded() {
    // Whether each was asked for, and whether it is isolated.
    let used = |cpus: &[(bool, bool)]| -> Vec<bool> {
        let of = |&(is_requested, is_isolated)| usable::Cpu { is_requested, is_isolated };
        let usable = Usable::of(cpus.iter().map(of));
        cpus.iter().map(|cpu| usable.has(of(cpu))).collect()
    };
    assert_eq!(used(&[(true, false), (true, true)]), [true, false]);
    assert_eq!(used(&[(true, true), (false, false)]), [true, false], "nothing else was asked for");
    assert_eq!(used(&[(false, true), (false, false)]), [false, true], "what was asked for is away");
    assert_eq!(used(&[(true, true), (true, true)]), [true, true]);
    assert_eq!(used(&[]), []);
}

#[test]
fn limits_follow_from_the_kind() {
    let limits = |kind, asked, total| {
        let limits = Limits::of(kind, asked, total);
        (limits.max_active(), limits.total(), limits.is_split())
    };
    let with = |asked, total| QUEUES.map(|kind| limits(kind, asked, total));
    const NONE: u32 = i32::MAX as u32;
    let of_others = [(NONE, None, false), (1, None, false)];
    let [bh, ordered] = of_others;
    let all =
        |percpu, shared: u32| [percpu, bh, (shared, None, true), (shared, None, true), ordered];
    assert_eq!(with(0, None), all((1024, None, false), 1024), "the default");
    assert_eq!(with(5000, None), all((2048, None, false), 2048));
    assert_eq!(with(16, Some(3)), all((16, Some(3), false), 3), "the lower one");
    assert_eq!(with(2, Some(0)), all((2, Some(1), false), 1));
}

#[test]
fn a_limit_is_shared_on_a_node_or_by_all() {
    let shared = |kind, total| {
        let limits = Limits::of(kind, 0, total);
        [Some(3), None].map(|node| limits.shared_by(node))
    };
    assert_eq!(shared(QueueKind::Unbound, None), [Some(Some(3)), Some(None)]);
    assert_eq!(shared(QueueKind::Percpu, Some(5)), [Some(None); 2], "whatever the node");
    assert_eq!(shared(QueueKind::Percpu, None), [None; 2]);
    assert_eq!(shared(QueueKind::Ordered, None), [None; 2]);
}

#[test]
fn limits_of_bh_and_ordered_queues_stay() {
    for kind in QUEUES {
        let mut limits = Limits::of(kind, 0, None);
        let before = limits.max_active();
        limits.set_max_active(0);
        assert_eq!(limits.max_active(), if kind.has_limit() { 1 } else { before });
        assert!(limits.min_active() <= limits.max_active());
        limits.set_max_active(4000);
        assert_eq!(limits.max_active(), if kind.has_limit() { 2048 } else { before });
    }
}

#[test]
fn a_nodes_item_stays_with_its_caller_if_that_is_there() {
    let cpus = [6, 2, 4];
    let chosen = |here| cpu_of_node(here, cpus.into_iter());
    assert_eq!((chosen(Some(4)), chosen(Some(3)), chosen(None)), (Some(4), Some(2), Some(2)));
    assert_eq!(cpu_of_node(Some(4), [].into_iter()), None);
    assert_eq!(QueueKind::Managed.cpus_of_nodes(), Cpus::Managed, "named is only the node");
    assert_eq!(QueueKind::Unbound.cpus_of_nodes(), Cpus::Allowed);
}
