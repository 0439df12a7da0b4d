//! Queues as the kernel's old constructors made them, for code that is brought over. New code names
//! what it needs with [`Workqueue::builder`].
//!
//! All three have a rescuer and run one item at a time (per CPU, the first). Items of a *legacy*
//! queue may wait for queues without a rescuer.

use crate::api::workqueue::Workqueue;
use crate::os::error::Error;

/// A per-CPU queue with a rescuer; one item at a time on each CPU.
///
/// KERNEL: `create_workqueue` — same.
///
/// # Errors
/// As for [`Builder::build`](crate::Builder::build).
///
/// ```
/// let wq = cmwq::legacy::create_workqueue("old")?;
/// assert_eq!(wq.max_active(), 1);
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn create_workqueue(name: &str) -> Result<Workqueue, Error> {
    Workqueue::builder(name).legacy().mem_reclaim().percpu().max_active(1).build()
}

/// An unbound queue with a rescuer that stops while the process is [frozen](crate::freeze); one
/// item at a time. Not [ordered](crate::Builder::ordered): the order is not promised once
/// attributes or limits change.
///
/// KERNEL: `create_freezable_workqueue` — same.
///
/// # Errors
/// As for [`Builder::build`](crate::Builder::build).
pub fn create_freezable_workqueue(name: &str) -> Result<Workqueue, Error> {
    Workqueue::builder(name).legacy().freezable().mem_reclaim().unbound().max_active(1).build()
}

/// An ordered queue with a rescuer.
///
/// KERNEL: `create_singlethread_workqueue` — same.
///
/// # Errors
/// As for [`Builder::build`](crate::Builder::build).
pub fn create_singlethread_workqueue(name: &str) -> Result<Workqueue, Error> {
    Workqueue::builder(name).legacy().mem_reclaim().ordered().build()
}
