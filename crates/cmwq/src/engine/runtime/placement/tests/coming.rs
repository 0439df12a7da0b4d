//! CPUs of which nothing was known when the process started, and those that are to be left alone.

use cmwq_core::help::Length;

use super::*;
use crate::engine::item::caller_computes;
use crate::engine::process::without_threads_by;
use crate::os::topo::tests::fixture::Tree;

/// Two nodes of eight CPUs with one cache each, of which these are on. As Linux does, it tells
/// nothing of those that are off.
fn switch_on(tree: &Tree, on: &str) {
    let on = set(on);
    let cpus = "devices/system/cpu";
    tree.write(&format!("{cpus}/online"), &on.to_string());
    for (node, all) in ["0-7", "8-15"].into_iter().enumerate() {
        let here = set(all).and(&on).to_string();
        tree.write(&format!("devices/system/node/node{node}/cpulist"), &here);
        for cpu in set(all).iter() {
            let cache = format!("{cpus}/cpu{cpu}/cache/index0");
            let siblings = format!("{cpus}/cpu{cpu}/topology/core_cpus_list");
            if on.contains(cpu) {
                tree.write(&siblings, &cpu.to_string());
                tree.write(&format!("{cache}/level"), "3");
                tree.write(&format!("{cache}/shared_cpu_list"), &here);
            } else {
                tree.remove_dir(&format!("{cpus}/cpu{cpu}"));
            }
        }
    }
}

fn machine(on: &str) -> (Tree, &'static Runtime) {
    let tree = Tree::from_text("");
    switch_on(&tree, on);
    let runtime = started(&tree, on);
    (tree, runtime)
}

/// A runtime without threads that was started on these CPUs.
fn started(tree: &Tree, allowed: &str) -> &'static Runtime {
    let params = Params::default();
    without_threads(Machine::below(tree.path(), &set("0-15"), set(allowed), None, &params))
}

/// These CPUs are on, and the process has them.
fn come(tree: &Tree, runtime: &'static Runtime, on: &str) {
    switch_on(tree, on);
    runtime.allow(&set(on));
}

fn strict_cache() -> Attrs {
    Attrs::new().affinity_strict(true).affinity_scope(Some(AffinityScope::Cache))
}

#[test]
fn cpus_that_come_first_while_it_runs_are_where_they_belong() {
    let (tree, runtime) = machine("0,2,4,6,8,10,12,14");
    let layout = runtime.layout(Kind::Unbound, &strict_cache());
    check_key(&layout, 0, "0,2,4,6", "0,2,4,6");
    come(&tree, runtime, "0-15");
    let layout = runtime.layout(Kind::Unbound, &strict_cache());
    for cpu in 0..8 {
        check_key(&layout, cpu, "0-7", "0-7");
        check_key(&layout, cpu + 8, "8-15", "8-15");
    }
    assert_eq!(runtime.spread(&layout), [(Some(0), 8), (Some(1), 8)]);
    let nodes: Vec<_> = runtime.managed_spread().into_iter().map(|(node, _)| node).collect();
    let expected: Vec<_> = (0..16).map(|cpu| Some(cpu / 8)).collect();
    assert_eq!(nodes, expected, "a managed queue's limit is split by all nodes");
}

#[test]
fn what_was_known_of_a_cpu_that_has_left_stays() {
    let (tree, runtime) = machine("0-3,8");
    // CPU 0, which led its cache, is off when CPU 4 tells of itself, and so is the whole other
    // node.
    come(&tree, runtime, "1-4");
    let layout = runtime.layout(Kind::Unbound, &strict_cache());
    check_key(&layout, 4, "1-4", "1-4");
    come(&tree, runtime, "0-4,8-9");
    let layout = runtime.layout(Kind::Unbound, &strict_cache());
    check_key(&layout, 0, "0-4", "0-4");
    check_key(&layout, 8, "8-9", "8-9");
    assert_eq!(runtime.spread(&layout), [(Some(0), 5), (Some(1), 2)]);
}

/// A queue that leads to a CPU of no known node would have the whole limit there.
#[test]
fn limits_are_made_anew_when_a_cpu_comes() {
    let (tree, runtime) = machine("0-7");
    let limits = Spec { max_active: 64, ..Spec::of(Kind::Unbound) }.limits();
    let mut nodes = crate::engine::tools::limit::NodeLimits::default();
    let mut shares = |runtime: &Runtime| {
        let spread = runtime.spread(&runtime.layout(Kind::Unbound, &strict_cache()));
        let memory = |_: Option<u32>| crate::engine::tools::limit::Memory::default();
        let _ = nodes.adjust(&limits, false, spread.clone());
        [Some(0), Some(1)]
            .map(|node| nodes.of(&limits, node, false, spread.clone(), memory).unwrap().max())
    };
    assert_eq!(shares(runtime)[0], 64);
    come(&tree, runtime, "0-15");
    assert_eq!(shares(runtime), [32, 32]);
}

#[test]
fn managed_queues_keep_off_isolated_cpus_unless_told() {
    let tree = Tree::from_text("");
    switch_on(&tree, "0-15");
    tree.write("devices/system/cpu/isolated", "2-3,9");
    let runtime = started(&tree, "0-15");
    assert_eq!(runtime.placement.now().managed, set("0-1,4-8,10-15"));
    for index in [2, 3, 9] {
        assert!(!runtime.placement.is_managed(index), "others' items go there");
        let stand_in = runtime.placement.managed_stand_in(index);
        assert!(![2, 3, 9].contains(&stand_in), "items of CPU {index} go to {stand_in}");
        assert_eq!(runtime.slot(Kind::Managed, Some(index as u32)), index, "it was asked for");
        assert_eq!(runtime.slot(Kind::Percpu, Some(index as u32)), index);
    }
    // The pool of one that was asked for helps nobody, and nobody counts on it.
    let spec = Spec::of(Kind::Managed);
    let pool = |slot| {
        let key = runtime.key_for(spec, spec.default_priority(), slot);
        runtime.pool_by_key(key).expect("a few pools").pool
    };
    assert!(!pool(2).may_help() && !pool(2).is_spare());
    assert!(pool(1).may_help() && pool(1).is_spare());
    for turn in 0..40 {
        let to = runtime.cpu_instead(pool(1), turn).expect("most are free");
        assert!(![2, 3, 9].contains(&to), "sent to CPU {to}");
    }
    // Nor is one that stands for its node.
    tree.write("devices/system/cpu/isolated", "8-9");
    runtime.allow(&set("0-15"));
    let of_node = |kind| runtime.cpu_of_node(kind, 1).expect("it has some");
    assert!((10..16).contains(&of_node(Kind::Managed)));
    assert!((8..16).contains(&of_node(Kind::Unbound)));
    // The administrator changes his mind.
    tree.write("devices/system/cpu/isolated", "4");
    runtime.allow(&set("0-15"));
    assert!(pool(2).may_help() && pool(2).is_spare());
    assert_eq!(runtime.placement.now().managed, set("0-3,5-15"));
    assert_eq!(runtime.placement.now().unbound, set("0-3,5-15"));
}

/// An isolated CPU may be used by a thread of the program, whose items go to another pod: nobody
/// computes on that pod's CPU.
#[test]
fn who_computes_elsewhere_marks_no_pod() {
    let here = sense::sched::current_cpu().expect("Linux tells");
    sense::sched::pin_current(&CpuSet::single(here)).expect("it is there");
    let [own, other] = [here, here + 1].map(CpuSet::single);
    for (cpus, is_marked) in [(&own, true), (&other, false)] {
        let all = cpus.or(&set("1000-1001"));
        let each = all.iter().map(|cpu| Pod { cpus: CpuSet::single(cpu), node: None }).collect();
        let pods = vec![Pod { cpus: all.clone(), node: Some(0) }];
        let machine = Machine::new(&all, None, pods, each);
        let runtime = without_threads_by(Detect::Sentinel, machine);
        let spec = Spec::of(Kind::Managed);
        let key = runtime.key_for(spec, spec.default_priority(), 0);
        let pool = runtime.pool_by_key(key).expect("a few pools").pool;
        let leaves = |_| caller_computes::other_cpu(pool, Length::Long).is_some();
        let has_left = (0..100).filter(|turn| leaves(*turn)).count() > 0;
        assert_eq!((has_left, pool.caller_computes()), (is_marked, is_marked), "{cpus}");
    }
}

#[test]
fn a_process_that_has_isolated_cpus_only_uses_them() {
    let tree = Tree::from_text("");
    switch_on(&tree, "0-15");
    tree.write("devices/system/cpu/isolated", "2-3");
    let runtime = started(&tree, "2-3");
    assert_eq!(runtime.placement.now().managed, set("2-3"));
    assert_eq!(runtime.slot(Kind::Managed, Some(2)), 2);
}
