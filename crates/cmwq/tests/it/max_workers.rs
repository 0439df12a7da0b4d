//! A limit of how many workers the process has.

use std::sync::Arc;

use cmwq::{AffinityScope, Config, Workqueue};

use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, Peak, at_gate, eventually, joined, occupy, percpu, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("max_workers::sleepers", sleepers),
    ("max_workers::rescued", rescued),
    ("max_workers::yielded", yielded),
    ("max_workers::flushed", flushed),
];

const MAX: usize = 6;

/// A queue with one pool.
pub(crate) fn one_pool(name: &str) -> cmwq::Builder {
    Workqueue::builder(name).unbound().affinity_scope(AffinityScope::System)
}

fn is_told() -> bool {
    cmwq::notices().iter().any(|text| text.contains("max_workers"))
}

#[test]
fn sleepers_have_no_more_workers_than_there_may_be() {
    Stage::new("max_workers::sleepers").play();
}

fn sleepers() {
    Config::builder().max_workers(MAX as u32).install().unwrap();
    assert_eq!(cmwq::param("max_workers").unwrap(), MAX.to_string());
    let queues = ["one", "two", "three"].map(|name| one_pool(name).build().unwrap());
    let (gate, peak) = (Gate::new(), Arc::new(Peak::new()));
    let _opened = Opened(&gate);
    let handles: Vec<_> = queues.iter().flat_map(|wq| at_gate(wq, 40, &gate, &peak)).collect();
    eventually("all workers sleep", || peak.now() == MAX);
    eventually("it is told", is_told);
    assert_eq!(queues.iter().map(|wq| wq.stats().queued).sum::<u64>(), 120 - MAX as u64);
    gate.open();
    handles.into_iter().for_each(joined);
    assert_eq!(peak.most(), MAX);
    joined(percpu("other").queue(|| ()));
}

#[test]
fn rescuers_go_on_where_there_may_be_no_more_workers() {
    Stage::new("max_workers::rescued").params("max_workers=3").play();
}

fn rescued() {
    let (sleeping, rescued) =
        (one_pool("sleeping").build().unwrap(), one_pool("rescued").mem_reclaim().build().unwrap());
    let (gate, peak) = (Gate::new(), Arc::new(Peak::new()));
    let _opened = Opened(&gate);
    let handles = at_gate(&sleeping, 10, &gate, &peak);
    eventually("all workers sleep", || peak.now() == 3);
    // What the sleepers wait for, in a way.
    let opener = rescued.queue({
        let gate = gate.clone();
        move || {
            gate.open();
            cmwq::current_is_rescuer()
        }
    });
    assert!(joined(opener), "nobody else could run it");
    handles.into_iter().for_each(joined);
    assert_eq!(joined(sleeping.queue(|| 1)), 1);
}

#[test]
fn pools_yield_idle_workers_to_others() {
    Stage::new("max_workers::yielded").params("max_workers=4").play();
}

fn yielded() {
    let (first, second) = (one_pool("first").build().unwrap(), percpu("second"));
    let (gate, peak) = (Gate::new(), Arc::new(Peak::new()));
    let opened = Opened(&gate);
    let handles = at_gate(&first, 4, &gate, &peak);
    eventually("all workers sleep", || peak.now() == 4);
    drop(opened);
    handles.into_iter().for_each(joined);
    // All of them are idle now, for minutes.
    let (gate, peak) = (Gate::new(), Arc::new(Peak::new()));
    let _opened = Opened(&gate);
    let cpu = sys::allowed_cpus()[0];
    let handles: Vec<_> = (0..3)
        .map(|_| {
            let (gate, peak) = (gate.clone(), Arc::clone(&peak));
            second.queue_on(cpu, move || {
                let _inside = peak.enter();
                gate.pass();
            })
        })
        .collect();
    eventually("the other pool has three", || peak.now() == 3);
    assert_eq!(joined(first.queue(|| 1)), 1, "and this one still has its own");
    gate.open();
    handles.into_iter().for_each(joined);
}

#[test]
fn flushes_that_are_awaited_take_no_workers_from_items() {
    Stage::new("max_workers::flushed").params("max_workers=4").play();
}

fn flushed() {
    let wq = one_pool("flushed").build().unwrap();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let waits = occupy(&wq, &gate);
    // More than there may be workers. Of some, as of the first, nobody wants to hear any more.
    let flushes: Vec<_> = (0..50).map(|_| wq.flush_async()).skip(1).step_by(2).collect();
    assert!(flushes.iter().all(|flush| !flush.is_over()));
    let opener = wq.queue({
        let gate = gate.clone();
        move || gate.open()
    });
    joined(opener);
    joined(waits);
    flushes.into_iter().for_each(|flush| flush.wait_timeout(PATIENCE).unwrap());
}
