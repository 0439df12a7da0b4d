//! What the tests share.

pub(crate) mod cpuset;
pub(crate) mod load;
pub(crate) mod nodes;
pub(crate) mod procfs;
pub(crate) mod scene;
pub(crate) mod stall;
pub(crate) mod sys;
pub(crate) mod wait;

use cmwq::Workqueue;

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
