//! Waiting: for items, for queues.

use std::ffi::c_uint;

use cmwq::raw::{self, Any, RawDelayed, WorkItem};

use crate::debug::is_item;
use crate::handle::{Queue, workqueue_struct};
use crate::item::{delayed, pointer, work};
use crate::queueing::c_functions;

const BUSY_PENDING: c_uint = 1 << 0;
const BUSY_RUNNING: c_uint = 1 << 1;

c_functions! {
    /// Waits until an item's last queueing has finished: `true`, there was something to wait for.
    fn flush_work(item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { is_item(HERE, item, "flushed") && raw::flush(work(item)) }
    }

    /// As `flush_work`, after queueing the item at once if its timer is armed.
    fn flush_delayed_work(item: *mut RawDelayed) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { is_item(HERE, item.cast(), "flushed") && raw::flush_delayed(pointer(item)) }
    }

    /// Cancels an item and waits for a run in progress: `true`, it was pending.
    fn cancel_work_sync(item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { is_item(HERE, item, "cancelled") && raw::cancel_sync(Any::Work(work(item))) }
    }

    /// As `cancel_work_sync`, and its timer.
    fn cancel_delayed_work_sync(item: *mut RawDelayed) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
 is_item(HERE, item.cast(), "cancelled")
 && raw::cancel_sync(Any::Delayed(delayed(item)))
 }
    }

    /// As `disable_work`, and waits for a run in progress.
    fn disable_work_sync(item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { is_item(HERE, item, "disabled") && raw::disable_sync(Any::Work(work(item))) }
    }

    /// As `disable_work_sync`, and its timer.
    fn disable_delayed_work_sync(item: *mut RawDelayed) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
 is_item(HERE, item.cast(), "disabled")
 && raw::disable_sync(Any::Delayed(delayed(item)))
 }
    }

    /// Waits until everything that was queued before has finished.
    fn __flush_workqueue(wq: *mut workqueue_struct) {
        // SAFETY: passed on to the caller.
        if let Some(wq) = unsafe { Queue::of(HERE, wq) } {
            wq.flush();
        }
    }

    /// Waits until the queue is empty, and lets only its own items queue meanwhile.
    fn drain_workqueue(wq: *mut workqueue_struct) {
        // SAFETY: passed on to the caller.
        if let Some(wq) = unsafe { Queue::of(HERE, wq) } {
            wq.drain();
        }
    }

    /// Whether an item is pending (1), running (2) or both.
    fn work_busy(item: *mut WorkItem) -> c_uint {
        // SAFETY: passed on to the caller.
        let (pending, running) =
            unsafe {
if is_item(HERE, item, "asked about") {
raw::busy(work(item))
} else {
(false, false)
}
};
        (if pending { BUSY_PENDING } else { 0 }) | (if running { BUSY_RUNNING } else { 0 })
    }
}

c_functions! {
    /// Says that a system-wide queue is flushed, which waits for whatever anybody queued there.
    fn __warn_flushing_systemwide_wq() {
        raw::say("a system-wide workqueue is flushed; use a queue of your own".to_owned());
    }
}
