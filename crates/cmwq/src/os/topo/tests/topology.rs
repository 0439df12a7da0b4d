use std::path::Path;

use super::fixture::Tree;
use crate::os::topo::{
    CpuSet, SYS_ROOT, Topology, allowed_cpus, isolated_cpus, online_cpus, possible_cpus,
};

fn set(list: &str) -> CpuSet {
    list.parse().expect("a CPU list")
}

/// Checks what a CPU shares: (core, cache, node), each named by its lowest CPU or number.
#[track_caller]
fn check_cpu(topology: &Topology, id: u32, shares: (u32, u32, Option<u32>)) {
    let cpu = topology.cpu(id).expect("the CPU was read");
    assert_eq!((cpu.core, cpu.llc, cpu.node), shares, "CPU {id}");
}

#[test]
fn desktop_with_four_caches() {
    let tree = Tree::fixture("sys-desktop-12c24t-4llc");
    let topology = Topology::read(tree.path(), &online_cpus(tree.path()).unwrap());
    assert_eq!(topology.cpus().len(), 24);
    check_cpu(&topology, 0, (0, 0, Some(0)));
    check_cpu(&topology, 2, (2, 0, Some(0)));
    check_cpu(&topology, 3, (3, 3, Some(0)));
    check_cpu(&topology, 14, (2, 0, Some(0)));
    check_cpu(&topology, 23, (11, 9, Some(0)));
    assert!(topology.cpus().iter().all(|cpu| cpu.capacity.is_none()));
}

#[test]
fn server_with_two_nodes_and_old_file_names() {
    let tree = Tree::fixture("sys-server-2s16c32t");
    assert_eq!(possible_cpus(tree.path()), Some(set("0-31")));
    assert_eq!(isolated_cpus(tree.path()), set("15,31"));
    let topology = Topology::read(tree.path(), &set("0-31"));
    check_cpu(&topology, 7, (7, 0, Some(0)));
    check_cpu(&topology, 8, (8, 8, Some(1)));
    check_cpu(&topology, 23, (7, 0, Some(0)));
    check_cpu(&topology, 24, (8, 8, Some(1)));
}

#[test]
fn cpus_that_are_not_allowed_are_never_mentioned() {
    let tree = Tree::fixture("sys-desktop-12c24t-4llc");
    let topology = Topology::read(tree.path(), &set("1,12-14,23"));
    let ids: Vec<_> = topology.cpus().iter().map(|cpu| cpu.id).collect();
    assert_eq!(ids, [1, 12, 13, 14, 23]);
    check_cpu(&topology, 12, (12, 1, Some(0)));
    check_cpu(&topology, 13, (1, 1, Some(0)));
    check_cpu(&topology, 14, (14, 1, Some(0)));
    check_cpu(&topology, 23, (23, 23, Some(0)));
    assert_eq!(topology.cpu(0), None);
}

#[test]
fn cores_of_two_kinds() {
    let tree = Tree::fixture("sys-biglittle-4-4");
    let topology = Topology::read(tree.path(), &set("0-7"));
    check_cpu(&topology, 3, (3, 0, Some(0)));
    check_cpu(&topology, 5, (5, 4, Some(0)));
    let capacities: Vec<_> = topology.cpus().iter().map(|cpu| cpu.capacity.unwrap()).collect();
    assert_eq!(capacities, [446, 446, 446, 446, 1024, 1024, 1024, 1024]);
}

#[test]
fn virtual_machine_of_one_cpu_without_cache_directories() {
    let tree = Tree::fixture("sys-vm-1cpu");
    let topology = Topology::read(tree.path(), &online_cpus(tree.path()).unwrap());
    assert_eq!(topology.cpus().len(), 1);
    check_cpu(&topology, 0, (0, 0, Some(0)));
    assert!(isolated_cpus(tree.path()).is_empty());
}

#[test]
fn without_any_file_all_cpus_share_one_cache_and_one_node() {
    let nowhere = Path::new("/nonexistent");
    let topology = Topology::read(nowhere, &set("2,5-6"));
    check_cpu(&topology, 2, (2, 2, Some(0)));
    check_cpu(&topology, 5, (5, 2, Some(0)));
    check_cpu(&topology, 6, (6, 2, Some(0)));
    assert_eq!((online_cpus(nowhere), possible_cpus(nowhere)), (None, None));
    assert!(isolated_cpus(nowhere).is_empty());
    assert_eq!(Topology::read(nowhere, &CpuSet::new()).cpus(), []);
}

#[test]
fn unknown_caches_do_not_reach_across_nodes() {
    let tree = Tree::from_text("");
    tree.write("devices/system/node/node0/cpulist", "0-1");
    tree.write("devices/system/node/node1/cpulist", "2-3");
    tree.write("devices/system/node/has_cpu", "0-1");
    let topology = Topology::read(tree.path(), &set("0-4"));
    check_cpu(&topology, 1, (1, 0, Some(0)));
    check_cpu(&topology, 3, (3, 2, Some(1)));
    // No node claims CPU 4.
    check_cpu(&topology, 4, (4, 4, None));
}

#[test]
fn the_highest_level_is_taken_from_wherever_it_stands() {
    let tree = Tree::from_text("");
    for (index, level, sharing) in [(0, 3, "0-1"), (1, 1, "0"), (2, 2, "0")] {
        tree.write(
            &format!("devices/system/cpu/cpu0/cache/index{index}/level"),
            &level.to_string(),
        );
        tree.write(&format!("devices/system/cpu/cpu0/cache/index{index}/shared_cpu_list"), sharing);
    }
    tree.write("devices/system/cpu/cpu1/cache/index0/level", "3");
    tree.write("devices/system/cpu/cpu1/cache/index0/shared_cpu_list", "0-1");
    check_cpu(&Topology::read(tree.path(), &set("0-1")), 1, (1, 0, Some(0)));
}

#[test]
fn files_that_contradict_each_other_or_hold_nonsense_do_no_harm() {
    let tree = Tree::fixture("sys-desktop-12c24t-4llc");
    // CPU 1 claims to be a sibling of CPU 0 only, in a cache of its own; CPU 0 does not know about
    // it.
    tree.write("devices/system/cpu/cpu1/topology/core_cpus_list", "0");
    tree.write("devices/system/cpu/cpu1/cache/index3/shared_cpu_list", "1");
    tree.write("devices/system/cpu/cpu2/topology/core_cpus_list", "nonsense");
    tree.write("devices/system/cpu/cpu3/cache/index3/shared_cpu_list", "-");
    tree.write("devices/system/cpu/cpu4/cache/index3/shared_cpu_list", "9000");
    tree.remove("devices/system/cpu/cpu5/topology/core_cpus_list");
    tree.write("devices/system/node/node0/cpulist", "0-x");
    let topology = Topology::read(tree.path(), &set("0-23"));
    check_cpu(&topology, 1, (0, 0, Some(0)));
    check_cpu(&topology, 13, (0, 0, Some(0)));
    check_cpu(&topology, 2, (2, 0, Some(0)));
    for cpu in topology.cpus() {
        let leads = |id| topology.cpu(id).is_some_and(|c: &crate::os::topo::Cpu| c.core == c.id);
        assert!(leads(cpu.core) && leads(cpu.llc), "{cpu:?}");
        assert_eq!(topology.cpu(cpu.llc).unwrap().llc, cpu.llc, "{cpu:?}");
        assert_eq!(topology.cpu(cpu.core).unwrap().llc, cpu.llc, "{cpu:?}");
    }
}

#[test]
fn this_machine_can_be_read() {
    let allowed = allowed_cpus();
    let topology = Topology::read(Path::new(SYS_ROOT), &allowed);
    assert!(topology.cpus().iter().map(|cpu| cpu.id).eq(&allowed));
    for cpu in topology.cpus() {
        assert!(cpu.core <= cpu.id && allowed.contains(cpu.core), "{cpu:?}");
        assert!(cpu.llc <= cpu.id && allowed.contains(cpu.llc), "{cpu:?}");
    }
}

/// Reading all CPUs and leaving some out gives what reading only the others gives.
#[test]
fn a_part_of_a_machine_is_as_if_it_were_read_alone() {
    for (fixture, all, parts) in [
        ("sys-desktop-12c24t-4llc", "0-23", ["1-2,13-23", "14,5,17", "0"]),
        ("sys-server-2s16c32t", "0-31", ["8-15", "17-20,9,25", "31"]),
        ("sys-biglittle-4-4", "0-7", ["4-7", "0,5", "3"]),
        ("sys-vm-1cpu", "0", ["0", "0", "0"]),
    ] {
        let tree = Tree::fixture(fixture);
        let whole = Topology::read(tree.path(), &set(all));
        assert_eq!(whole.within(&set(all)), whole, "{fixture}");
        for part in parts {
            let alone = Topology::read(tree.path(), &set(part));
            assert_eq!(whole.within(&set(part)), alone, "{fixture}: {part}");
        }
    }
}

#[test]
fn cpus_of_two_nodes_have_no_common_one() {
    let tree = Tree::fixture("sys-server-2s16c32t");
    let topology = Topology::read(tree.path(), &set("0-31"));
    assert_eq!(topology.node_of(&set("0-7,16")), Some(0));
    assert_eq!(topology.node_of(&set("8,31")), Some(1));
    assert_eq!(topology.node_of(&set("7-8")), None);
    assert_eq!(topology.node_of(&CpuSet::new()), None);
}
