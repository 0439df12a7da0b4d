//! What a pool knows of its CPUs from the start; and its lock.

use std::ptr::NonNull;

use cmwq_core::{LockFor, WorkItem};

use super::*;
use crate::engine::process::{on_one_cpu, without_threads};
use crate::engine::runtime::Machine;
use crate::engine::wq::cpu_pwq::CpuPwq;
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

unsafe extern "C" fn nothing(_: *mut WorkItem) {}

/// An item is in the inbox, for which an idle worker is to be woken.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is forgotten")]
fn a_lock_is_not_just_dropped_where_somebody_is_to_be_woken() {
    let runtime = on_one_cpu();
    runtime.set_fault_no_threads(true);
    let wq = runtime.new_wq("forgotten", Spec::of(Kind::Percpu)).expect("it is not shut down");
    let &CpuPwq { pool, pwq } = wq.cpu_pwq(Some(0));
    let mut guard = pool.lock(LockFor::Counts);
    let id = guard.core.worker_new();
    let _ = guard.core.worker_created(id, None, 0);
    drop(guard);
    let item: &WorkItem = Box::leak(Box::new(WorkItem::new(nothing)));
    assert!(item.claim_for(item.word(), pool.id));
    pool.inbox.saturate();
    // SAFETY: it was claimed for this pool, and lives for ever.
    assert!(unsafe { pool.inbox.push(NonNull::from(item), pwq) });
    drop(pool.lock(LockFor::Find));
}
