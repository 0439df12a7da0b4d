//! What the tests share.

pub(crate) mod cpus;
pub(crate) mod cpuset;
pub(crate) mod load;
pub(crate) mod nodes;
pub(crate) mod procfs;
pub(crate) mod sanitizer;
pub(crate) mod scene;
pub(crate) mod stall;
pub(crate) mod sys;
pub(crate) mod wait;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cmwq::{JoinHandle, Work, Workqueue};

pub(crate) use load::Peak;
pub(crate) use wait::{Gate, eventually, joined, undisturbed, within};

/// A managed queue.
pub(crate) fn managed(name: &str) -> Workqueue {
    Workqueue::new(name).unwrap()
}

/// A per-CPU queue.
pub(crate) fn percpu(name: &str) -> Workqueue {
    Workqueue::builder(name).percpu().build().unwrap()
}

/// An unbound queue.
pub(crate) fn unbound(name: &str) -> Workqueue {
    Workqueue::builder(name).unbound().build().unwrap()
}

/// A queue of each kind that runs items concurrently.
pub(crate) fn every_kind(name: &str) -> [Workqueue; 3] {
    [managed(name), percpu(name), unbound(name)]
}

/// An item that counts its runs, and waits in the first for `gate`.
pub(crate) fn gated_work(entered: &Gate, gate: &Gate) -> (Work, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let work = Work::new({
        let (entered, gate, runs) = (entered.clone(), gate.clone(), Arc::clone(&runs));
        move || {
            entered.open();
            gate.pass();
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    (work, runs)
}

/// So many items at a gate.
pub(crate) fn at_gate(
    wq: &Workqueue,
    count: usize,
    gate: &Gate,
    peak: &Arc<Peak>,
) -> Vec<JoinHandle<()>> {
    let item = |_| {
        let (gate, peak) = (gate.clone(), Arc::clone(peak));
        wq.queue(move || {
            let _inside = peak.enter();
            gate.pass();
        })
    };
    (0..count).map(item).collect()
}

/// Occupies a queue that runs one item at a time until the gate opens.
pub(crate) fn occupy(wq: &Workqueue, gate: &Gate) -> JoinHandle<()> {
    let (begun, gate) = (Gate::new(), gate.clone());
    let first = wq.queue({
        let begun = begun.clone();
        move || {
            begun.open();
            gate.pass();
        }
    });
    begun.pass();
    first
}
