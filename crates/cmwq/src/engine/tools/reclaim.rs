//! Whether the calling thread is a rescuer, and of which queue.

use std::cell::Cell;

use cmwq_core::WqKey;

crate::os::sync::thread_local! {
    static RESCUES: Cell<Option<WqKey>> = const { Cell::new(None) };
}

/// Makes the calling thread the rescuer of `wq`, for good.
pub(crate) fn enter_rescuer(wq: WqKey) {
    RESCUES.with(|rescues| rescues.set(Some(wq)));
}

/// In a forked child: the calling thread is no rescuer any more.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) fn leave_rescuer() {
    RESCUES.with(|rescues| rescues.set(None));
}

/// The queue whose rescuer the calling thread is.
pub(crate) fn rescued_wq() -> Option<WqKey> {
    // A thread whose thread-locals are gone runs no items any more.
    RESCUES.try_with(Cell::get).unwrap_or(None)
}

/// Whether the calling thread is the rescuer of a [`mem_reclaim`](crate::Builder::mem_reclaim)
/// queue: no worker was available for the item that it runs. While it runs that item, no other item
/// of the queue is rescued, on any CPU, so a function may want to do only what is necessary. Never
/// blocks.
///
/// KERNEL: `current_is_workqueue_rescuer` — same.
///
/// ```
/// let wq = cmwq::Workqueue::builder("writeback").mem_reclaim().build()?;
/// // There are threads here, so a worker runs it.
/// assert!(!wq.queue(cmwq::current_is_rescuer).join().unwrap());
/// # Ok::<(), cmwq::Error>(())
/// ```
#[must_use]
#[doc(alias = "current_is_workqueue_rescuer")]
pub fn current_is_rescuer() -> bool {
    rescued_wq().is_some()
}
