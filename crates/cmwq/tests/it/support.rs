//! What the tests share.

pub(crate) mod cpuset;
pub(crate) mod load;
pub(crate) mod nodes;
pub(crate) mod procfs;
pub(crate) mod scene;
pub(crate) mod stall;
pub(crate) mod sys;
pub(crate) mod wait;

use cmwq::{JoinHandle, Workqueue};

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

/// Occupies an ordered queue until the gate opens.
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
