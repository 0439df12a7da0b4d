//! What queues share and what they do not: a pool by queues with the same pod, a pwq by nobody.

use std::sync::{Arc, Mutex};

use cmwq::{AffinityScope, Work, Workqueue};

use crate::support::{Gate, eventually, joined, sys};

/// All CPUs in one pod.
fn everywhere(name: &str, max_active: u32) -> Workqueue {
    let builder = Workqueue::builder(name).unbound().affinity_scope(AffinityScope::System);
    builder.max_active(max_active).build().expect("a queue")
}

/// Items for the CPUs of one pod, behind the limit: each CPU has its turn, and in each the first
/// comes first.
///
/// KERNEL: `node_activate_pending_pwq` — same.
#[test]
fn behind_the_limit_each_cpu_has_its_turn() {
    let cpus = sys::allowed_cpus();
    let [one, other] = match cpus[..] {
        [one, other, ..] => [one, other],
        _ => return,
    };
    let wq = everywhere("turns", 1);
    let (gate, order) = (Gate::new(), Arc::new(Mutex::new(Vec::new())));
    let holder = gate.clone();
    let mut handles = vec![wq.queue_on(one, move || holder.pass())];
    for (number, cpu) in [one, one, other, other].into_iter().enumerate() {
        let order = Arc::clone(&order);
        handles.push(wq.queue_on(cpu, move || order.lock().unwrap().push(number)));
    }
    gate.open();
    handles.into_iter().for_each(joined);
    assert_eq!(*order.lock().unwrap(), [0, 2, 1, 3]);
}

/// An item that a pool runs for an unbound queue, queued on an ordered one with the same pod: it
/// waits, since one pool serves both.
///
/// KERNEL: `wqattrs_equal` — same: what kind of queue it is does not tell pools apart.
#[test]
fn an_ordered_queue_has_the_workers_of_an_unbound_one() {
    let unbound = everywhere("wide", 0);
    let ordered = Workqueue::builder("in order").ordered().build().expect("a queue");
    let (gate, runs) = (Gate::new(), Arc::new(Mutex::new(0)));
    let work = Work::new({
        let (gate, runs) = (gate.clone(), Arc::clone(&runs));
        move || {
            *runs.lock().unwrap() += 1;
            gate.pass();
        }
    });
    assert!(unbound.queue_work(&work));
    eventually("the item runs", || *runs.lock().unwrap() == 1);
    assert!(ordered.queue_work(&work));
    let busy = work.busy();
    assert!(busy.running && busy.pending, "{busy:?}");
    gate.open();
    work.flush();
    assert_eq!(*runs.lock().unwrap(), 2);
}
