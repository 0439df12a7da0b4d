//! NUMA nodes of this machine, and what `max_active` comes to on them.

use std::fs;

use super::sys;

/// How many of the CPUs of this process each node has; 1 node where the kernel has no notion of
/// them.
fn cpus_of_nodes() -> Vec<u32> {
    let allowed = sys::allowed_cpus();
    let count = |list: String| -> u32 {
        let list: cmwq::CpuSet = list.parse().expect("the kernel writes CPU lists");
        allowed.iter().filter(|cpu| list.contains(**cpu)).count() as u32
    };
    let lists = (0..1024).filter_map(|node| {
        fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist")).ok()
    });
    let nodes: Vec<u32> = lists.map(count).filter(|cpus| *cpus > 0).collect();
    if nodes.is_empty() { vec![allowed.len() as u32] } else { nodes }
}

/// How many items of an unbound or managed queue with this limit run at once if all CPUs queue
/// more: each node has a share of `max_active` as large as its share of the CPUs, rounded up, but
/// no less than `min_active`.
pub(crate) fn total_of(max_active: u32, min_active: u32) -> usize {
    let nodes = cpus_of_nodes();
    let all: u32 = nodes.iter().sum();
    let share = |here: &u32| (max_active * here).div_ceil(all).max(min_active).min(max_active);
    nodes.iter().map(share).sum::<u32>() as usize
}
