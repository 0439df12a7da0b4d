//! What the kernel was seen to do, assertion by assertion, where no other module has it.
//!
//! `docs/conformance.md` says for every documented or observed behaviour which test holds it. Each
//! test here is a scene: nobody else uses its pools, so their order is that of the test alone, and
//! an item that computes for long is not taken for a CPU hog.

mod answers;
mod flushes;
mod order;
mod places;

use cmwq::{Builder, Workqueue};

use crate::support::scene::{Scene, Stage};
use crate::support::{Gate, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("conformance::cancelled_second", answers::cancelled_second),
    ("conformance::chained_timer", answers::chained_timer),
    ("conformance::bh_drain", answers::bh_drain),
    ("conformance::flushed_elsewhere", answers::flushed_elsewhere),
    ("conformance::cancelled_behind", answers::cancelled_behind),
    ("conformance::attrs_and_hotplug", answers::attrs_and_hotplug),
    ("conformance::bh_hotplug", answers::bh_hotplug),
    ("conformance::fifo_flushers", flushes::fifo_flushers),
    ("conformance::backward_flushers", flushes::backward_flushers),
    ("conformance::queued_by_an_item", flushes::queued_by_an_item),
    ("conformance::cancelled_meanwhile", flushes::cancelled_meanwhile),
    ("conformance::bh_cancel_sync", flushes::bh_cancel_sync),
    ("conformance::requeued_in_line", order::requeued_in_line),
    ("conformance::requeued_aside", order::requeued_aside),
    ("conformance::fairness", order::fairness),
    ("conformance::two_queues", order::two_queues),
    ("conformance::highpri", order::highpri),
    ("conformance::intensive_chain", order::intensive_chain),
    ("conformance::woken_during_a_burn", order::woken_during_a_burn),
    ("conformance::slot_of_a_second_instance", order::slot_of_a_second_instance),
    ("conformance::moved", places::moved),
    ("conformance::system_queues", places::system_queues),
    ("conformance::each_cpu", places::each_cpu),
    ("conformance::nodes", places::nodes),
    ("conformance::burst", places::burst),
    ("conformance::burners", places::burners),
    ("conformance::some_busy", places::some_busy),
    ("conformance::re_timed_later", places::re_timed_later),
];

fn play(scene: &'static str) {
    Stage::new(scene).params("cpu_intensive_thresh_us=0").play();
}

fn build(name: &str, kind: impl FnOnce(Builder) -> Builder) -> Workqueue {
    kind(Workqueue::builder(name)).build().unwrap()
}

fn cpu() -> u32 {
    sys::allowed_cpus()[0]
}

/// An item that has begun to wait for the gate.
fn gated(wq: &Workqueue, cpu: u32, gate: &Gate) -> cmwq::JoinHandle<()> {
    let (begun, gate) = (Gate::new(), gate.clone());
    let theirs = begun.clone();
    let item = wq.queue_on(cpu, move || {
        theirs.open();
        gate.pass();
    });
    begun.pass();
    item
}

/// An item that has begun to compute until the gate opens: nothing else of its pool starts.
fn computing(wq: &Workqueue, cpu: u32, gate: &Gate) -> cmwq::JoinHandle<()> {
    let (begun, gate) = (Gate::new(), gate.clone());
    let theirs = begun.clone();
    let item = wq.queue_on(cpu, move || {
        theirs.open();
        gate.spin();
    });
    begun.pass();
    item
}
