//! `struct work_struct *` and `struct delayed_work *`.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use cmwq::raw::{self, RawDelayed, WorkFn, WorkItem, WorkWord};

// As in the header, which asserts the same.
const _: () = {
    assert!(size_of::<WorkItem>() == 32 && size_of::<RawDelayed>() == 96);
    assert!(size_of::<ExecuteWork>() == 32 && align_of::<RawDelayed>() == 8);
    assert!(WorkWord::INIT.bits() == 0x7fff_ffff << 21);
    assert!(offset_of!(Layout, func) == 24);
};

/// `struct execute_work`.
#[repr(C)]
#[derive(Debug)]
pub struct ExecuteWork {
    pub(crate) work: WorkItem,
}

/// What a work item looks like before it is one: its function may be missing.
#[repr(C)]
struct Layout {
    _data: u64,
    entry: [usize; 2],
    func: Option<WorkFn>,
}

/// The item behind a pointer from C.
///
/// # Safety
/// `work` must be an initialised item, for as long as the result is used.
pub(crate) unsafe fn work<'a>(work: *mut WorkItem) -> &'a WorkItem {
    // SAFETY: the caller's promise.
    unsafe { pointer(work).as_ref() }
}

/// As [`work`], for an item with a timer.
///
/// # Safety
/// As for `work`.
pub(crate) unsafe fn delayed<'a>(work: *mut RawDelayed) -> &'a RawDelayed {
    // SAFETY: the caller's promise.
    unsafe { pointer(work).as_ref() }
}

/// A pointer that the function has found not to be null.
pub(crate) fn pointer<T>(item: *mut T) -> NonNull<T> {
    debug_assert!(!item.is_null(), "looked at before");
    // SAFETY: every function asks `is_item`, `may_be_queued` or `is_there` first.
    unsafe { NonNull::new_unchecked(item) }
}

/// The address of an item's function.
pub(crate) fn func(item: &WorkItem) -> usize {
    item.func() as *const () as usize
}

/// Whether the item's entry is linked to anything but itself, as of now. True while it is queued.
///
/// # Safety
/// `item` must be valid.
#[inline]
pub(crate) unsafe fn has_foreign_entry(item: *mut WorkItem) -> bool {
    // SAFETY: the caller's promise; a pool may be writing it.
    let next = unsafe {
        let entry = &raw mut (*item.cast::<Layout>()).entry;
        (AtomicUsize::from_ptr(entry.cast()).load(Ordering::Relaxed), entry.addr())
    };
    next.0 != 0 && next.0 != next.1
}

/// Whether the item is as a declaration or an initialisation leaves it, but for being disabled.
///
/// # Safety
/// `item` must be valid.
pub(crate) unsafe fn is_fresh(item: *mut WorkItem) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let entry = &raw const (*item.cast::<Layout>()).entry;
        raw::was_never_queued(work(item)) && *entry == [entry.addr(); 2]
    }
}

/// Whether the item was initialised: who waits for one that was not waits for nothing.
///
/// # Safety
/// `item` must be valid.
pub(crate) unsafe fn has_func(item: *mut WorkItem) -> bool {
    // SAFETY: the caller's promise; any bits are valid for this type.
    unsafe { (*item.cast::<Layout>()).func.is_some() }
}
