//! Calls of C functions with an argument, as items. Wherever items are shown they are known by the
//! C function, whose name the tools find as that of any work function.

use std::ffi::c_void;
use std::mem::transmute;
use std::time::Duration;

use cmwq_core::{WorkFn, WorkItem};

use super::must_return;
use crate::api::closure::{self, JoinHandle};
use crate::api::workqueue::Workqueue;
use crate::engine::item::delayed::DelayedItem;
use crate::engine::threads::invoke::{self, Way};

/// A C function with an argument.
pub type Func = unsafe extern "C-unwind" fn(*mut c_void);
/// A C function with an argument and an index.
pub type IndexedFunc = unsafe extern "C-unwind" fn(*mut c_void, usize);

/// A pointer of the program's, which says that any thread may have it.
struct Argument(*mut c_void);

// SAFETY: C says so.
unsafe impl Send for Argument {}

impl Argument {
    /// A call of `func` with it.
    fn given_to(self, func: Func) -> impl FnOnce() + Send + 'static {
        move || {
            // All of it, not the pointer alone, which is not to be sent.
            let Self(arg) = { self };
            // SAFETY: C says that the function may be called so.
            must_return(func as usize, || unsafe { func(arg) });
        }
    }

    /// A call of `func` with it and an index.
    fn given_with(self, index: usize, func: IndexedFunc) -> impl FnOnce() + Send + 'static {
        move || {
            let Self(arg) = { self };
            // SAFETY: C says that the function may be called so.
            must_return(func as usize, || unsafe { func(arg, index) });
        }
    }
}

/// As which function an item is known. It is not called as what it seems here.
fn known(func: *const ()) -> WorkFn {
    // SAFETY: it comes from a function, and any pointer to one is a value of any type of them.
    unsafe { transmute::<*const (), WorkFn>(func) }
}

/// Queues `func(arg)`. `None`: the queue is closed, or being drained.
///
/// # Safety
/// The function must be fit to be called so, once, by any thread.
pub unsafe fn queue_call(wq: &Workqueue, func: Func, arg: *mut c_void) -> Option<JoinHandle<()>> {
    // SAFETY: the way of these closures alone.
    unsafe { queue(wq, Argument(arg).given_to(func), func as *const (), Way::Call) }
}

/// As [`queue_call`], for `func(arg, index)`.
///
/// # Safety
/// As there.
pub unsafe fn queue_indexed_call(
    wq: &Workqueue,
    func: IndexedFunc,
    arg: *mut c_void,
    index: usize,
) -> Option<JoinHandle<()>> {
    let call = Argument(arg).given_with(index, func);
    // SAFETY: the way of these closures alone.
    unsafe { queue(wq, call, func as *const (), Way::IndexedCall) }
}

/// As [`queue_call`], when `delay` has passed.
///
/// # Safety
/// As there.
pub unsafe fn queue_call_delayed(
    wq: &Workqueue,
    func: Func,
    arg: *mut c_void,
    delay: Duration,
) -> Option<JoinHandle<()>> {
    // SAFETY: the way of these closures alone.
    unsafe { queue_later(wq, Argument(arg).given_to(func), func as *const (), delay) }
}

/// Whether the caller is the call itself, which would wait for its own end.
#[must_use]
pub fn is_inside_of<T>(call: &JoinHandle<T>) -> bool {
    call.is_running_here()
}

/// # Safety
/// `way` must be that of `F`, and of no other closure.
unsafe fn queue<F>(wq: &Workqueue, call: F, func: *const (), way: Way) -> Option<JoinHandle<()>>
where
    F: FnOnce() + Send + 'static,
{
    if !wq.handle().lets_in() {
        return None;
    }
    let (mut item, handle) = closure::make::<F, WorkItem, F, ()>(call);
    // SAFETY: a fresh item of a closure, which stays where it is until its run; and the caller's
    // promise.
    let was_refused = unsafe {
        invoke::know_as(item.as_mut(), known(func), way);
        closure::was_refused::<WorkItem, F, ()>(item, wq.handle().queue_item(None, item))
    };
    // The queue may have been closed just now.
    (!was_refused).then_some(handle)
}

/// As [`queue`], on the way of delayed calls.
///
/// # Safety
/// As there.
unsafe fn queue_later<F>(
    wq: &Workqueue,
    call: F,
    func: *const (),
    delay: Duration,
) -> Option<JoinHandle<()>>
where
    F: FnOnce() + Send + 'static,
{
    // Refused now rather than when its time has come, when nobody could be told.
    if !wq.handle().lets_in() {
        return None;
    }
    let (mut item, handle) = closure::make::<F, DelayedItem, F, ()>(call);
    // SAFETY: as in `queue`.
    let was_refused = unsafe {
        invoke::know_as(&mut item.as_mut().item, known(func), Way::DelayedCall);
        let queueing = closure::arm(item, wq.handle(), None, delay);
        closure::was_refused::<DelayedItem, F, ()>(item, queueing)
    };
    (!was_refused).then_some(handle)
}
