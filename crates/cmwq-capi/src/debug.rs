//! What is wrong with an item, said by name and without harm, as far as looking is cheap; and with
//! `CMWQ_DEBUG=objects` the lives of items: [`objects`].
//!
//! KERNEL: the warnings of `__queue_work` and `__flush_work`, and debugobjects — same cases, on
//! standard error.
//!
//! Why: docs/decisions/debug-objects-looked-up.md

mod objects;

pub(crate) use objects::{OBJECTS, Objects};

use std::ffi::{c_int, c_void};

use cmwq::raw::{self, WorkFn, WorkItem};

use crate::face::{is_there, say_null};
use crate::item::{func, has_foreign_entry, has_func, work};
use crate::queueing::c_functions;

/// Whether the function `here` was given an item that was initialised, as far as that shows: its
/// function is there. If not, that is said.
///
/// # Safety
/// `item` must be null or valid.
#[inline]
pub(crate) unsafe fn is_item(here: &str, item: *mut WorkItem, what: &str) -> bool {
    if !is_there(here, item, "work item") {
        return false;
    }
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
/// KERNEL: an item that is on a list is not queued, and its queuer told that it was — same.
///
/// # Safety
/// `item` must be valid.
#[inline]
pub(crate) unsafe fn may_be_queued(here: &str, item: *mut WorkItem) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        is_item(here, item, "queued")
            && (!objects::are_followed() || objects::may_be_queued(item))
            && (!has_foreign_entry(item) || may_be_linked(item))
    }
}

/// Whether an item may be queued without another look. `false`: [`may_be_queued`] finds out.
///
/// # Safety
/// `item` must be null or valid.
#[inline(always)]
pub(crate) unsafe fn is_ordinary(item: *mut WorkItem) -> bool {
    // SAFETY: the caller's promise.
    let is_idle = !item.is_null() && unsafe { has_func(item) && !has_foreign_entry(item) };
    is_idle && !objects::are_followed()
}

/// The item is on some list. That is as it should be while it is queued.
///
/// # Safety
/// `item` must be an item.
#[cold]
unsafe fn may_be_linked(item: *mut WorkItem) -> bool {
    // SAFETY: the caller's promise.
    let item = unsafe { work(item) };
    if !raw::claim(item) {
        return true;
    }
    // PENDING is ours: nobody else links it now, and whoever finds it pending is told so rightly if
    // it is about to be queued.
    // SAFETY: it is an item.
    let is_linked = unsafe { has_foreign_entry(std::ptr::from_ref(item).cast_mut()) };
    item.release(item.word());
    if is_linked {
        raw::say(format!(
            "work item {item:p} ({}) is queued while its entry is on a list of somebody else's: \
             it is not queued",
            raw::function_name(func(item))
        ));
    }
    !is_linked
}

/// What an item is besides: on a stack; one that waits for a grace period.
const ON_STACK: c_int = 1 << 0;
const RCU: c_int = 1 << 1;

/// What initialising begins with: the function. `None`: it is missing, or the item is; that is
/// said, and the memory holds no item then, which is said wherever it is used.
///
/// # Safety
/// `item` must be null or memory of the caller's.
pub(crate) unsafe fn begin_init<T>(
    here: &str,
    item: *mut T,
    func: Option<WorkFn>,
) -> Option<WorkFn> {
    if !is_there(here, item, "work item") {
        return None;
    }
    if func.is_none() {
        say_null(here, "function");
        // SAFETY: not null, and the caller's promise.
        unsafe { item.write_bytes(0, 1) };
    }
    func
}

#[inline]
fn follow(item: *mut WorkItem, is_on_stack: bool, is_rcu: bool) {
    if objects::are_followed() {
        objects::init(item, is_on_stack, is_rcu);
    }
}

fn leave_frame(item: usize) {
    if objects::are_followed() {
        objects::end(item, size_of::<WorkItem>(), "its stack frame is left");
    }
}

/// An item is about to be initialised.
#[inline]
pub(crate) fn init(item: *mut WorkItem, is_rcu: bool) {
    follow(item, false, is_rcu);
}

c_functions! {
    /// KERNEL: `__init_work` — same: the memory is about to become an item.
    fn __init_work(item: *mut WorkItem, onstack: c_int) {
        follow(item, onstack & ON_STACK != 0, onstack & RCU != 0);
    }

    /// KERNEL: `destroy_work_on_stack` — same: the frame that has the item is about to be left.
    fn destroy_work_on_stack(item: *mut WorkItem) {
        leave_frame(item.addr());
    }

    /// KERNEL: `destroy_delayed_work_on_stack` — same.
    fn destroy_delayed_work_on_stack(item: *mut raw::RawDelayed) {
        leave_frame(item.addr());
    }

    /// Memory is about to be freed. KERNEL: `debug_check_no_obj_freed` — same, as far as items go.
    fn cmwq_debug_check_no_obj_freed(address: *const c_void, size: usize) {
        if objects::are_followed() {
            objects::end(address.addr(), size, "it is freed");
        }
    }
}
