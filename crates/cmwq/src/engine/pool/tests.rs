//! What a pool knows of its CPUs from the start.

use super::*;
use crate::engine::process::{on_one_cpu, without_threads};
use crate::engine::runtime::Machine;
use crate::engine::wq::{Kind, Spec};
use crate::os::topo::Pod;

/// The CPU of the first managed pool, if it has only one for ever.
fn lone_cpu(runtime: &'static Runtime) -> Option<u32> {
    runtime.set_fault_no_threads(true);
    let spec = Spec::of(Kind::Managed);
    let key = runtime.key_for(spec, spec.default_priority(), 0);
    runtime.pool_by_key(key).expect("a few pools").pool.lone_cpu
}

#[test]
fn the_only_managed_pod_has_one_cpu_for_ever_where_there_can_be_no_other() {
    assert_eq!(lone_cpu(on_one_cpu()), Some(0));
    let two: CpuSet = (0..2).collect();
    let pods = |pods: &[&str]| -> Vec<Pod> {
        let pod = |cpus: &&str| Pod { cpus: cpus.parse().expect("a CPU list"), node: None };
        pods.iter().map(pod).collect()
    };
    let on_two = |managed| without_threads(Machine::new(&two, None, pods(&["0-1"]), managed));
    assert_eq!(lone_cpu(on_two(pods(&["0", "1"]))), Some(0));
    let whole = on_two(pods(&["0-1"]));
    whole.allow(&CpuSet::single(0));
    assert_eq!(lone_cpu(whole), None, "the other CPU may come back");
}
