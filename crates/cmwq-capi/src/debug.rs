//! What is wrong with an item, said by name. With `CMWQ_DEBUG=objects`, the lives of items are followed: see
//! [`init`].

use cmwq::raw::{self, WorkItem};

use crate::item::has_func;

/// Whether the item was initialised, as far as that shows: its function is there.
///
/// # Safety
/// `item` must be valid.
#[inline]
pub(crate) unsafe fn is_item(item: *mut WorkItem, what: &str) -> bool {
    // SAFETY: the caller's promise.
    let is_item = unsafe { has_func(item) };
    if !is_item {
        say_not_initialised(item, what);
    }
    is_item
}

#[cold]
fn say_not_initialised(item: *mut WorkItem, what: &str) {
    raw::say(format!("work item {item:p} is {what} and was never initialised: nothing is done"));
}

/// Whether an item may be queued. What is wrong with it is said, and nothing is done then.
///
/// # Safety
/// `item` must be valid.
#[inline]
pub(crate) unsafe fn may_be_queued(item: *mut WorkItem) -> bool {
    // SAFETY: the caller's promise.
    unsafe { is_item(item, "queued") }
}

/// An item is about to be initialised.
pub(crate) fn init(_item: *mut WorkItem, _is_on_stack: bool) {}

/// KERNEL: `__init_work` — same: the item's memory is about to become an item.
#[unsafe(no_mangle)]
pub extern "C" fn __init_work(item: *mut WorkItem, onstack: std::ffi::c_int) {
    init(item, onstack != 0);
}

/// KERNEL: `destroy_work_on_stack` — same: the frame that has the item is about to be left.
#[unsafe(no_mangle)]
pub extern "C" fn destroy_work_on_stack(_item: *mut WorkItem) {}

/// KERNEL: `destroy_delayed_work_on_stack` — same.
#[unsafe(no_mangle)]
pub extern "C" fn destroy_delayed_work_on_stack(_item: *mut cmwq::raw::RawDelayed) {}
