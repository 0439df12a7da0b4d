//! `call_rcu` and `kfree_rcu` of C programs.
//!
//! First the sections of [`rcu_read_lock`](crate::rcu_read_lock) are waited for, then, if the
//! program has a source of grace periods, that one: by its own `call_rcu`, which calls the function
//! in its own way.

use std::mem::transmute;
use std::ptr::NonNull;

use super::softirq;
use crate::api::rcu::source::{self, RcuFunc, RcuHead};
use crate::engine::process::callbacks::Callback;
use crate::engine::process::readers;
use crate::engine::process::{Process, watch_forks};

/// Calls `func(head)` after a grace period, from another context than the caller's.
///
/// KERNEL: `call_rcu` — same.
///
/// # Safety
/// `head` must be valid until the function is called with it, and the function fit to be called
/// with it, once, by any thread.
pub unsafe fn call_rcu(head: NonNull<RcuHead>, func: RcuFunc) {
    watch_forks();
    // SAFETY: the head is ours until the function is called.
    unsafe {
        head.as_ref().keep(func as *mut ());
        readers::wait_for_readers(head.cast(), call);
    }
}

/// Gives `object` to `free` after a grace period.
///
/// KERNEL: `kfree_rcu` — same.
///
/// # Safety
/// `object` must be of `malloc` and nobody's but the readers', and `head` a part of it.
pub unsafe fn free_rcu(head: NonNull<RcuHead>, object: NonNull<()>) {
    watch_forks();
    // SAFETY: the head is ours.
    unsafe {
        head.as_ref().keep(object.as_ptr());
        readers::wait_for_readers(head.cast(), free);
    }
}

/// Waits for all that was given to the two above before. Must not be called by their functions.
///
/// KERNEL: `rcu_barrier` — same.
pub fn rcu_barrier() {
    watch_forks();
    if readers::says_waits_for_itself() {
        return;
    }
    // First what is to be handed to the source, then the source.
    readers::barrier();
    source::barrier();
    if let Some(process) = Process::existing() {
        process.callbacks.flush(process.runtime);
    }
}

/// As [`RcuFunc`], by an ABI that admits that it may not return.
type Escaping = unsafe extern "C-unwind" fn(NonNull<()>);

/// The readers have gone.
///
/// # Safety
/// As `call_rcu` handed it over.
unsafe fn call(head: NonNull<()>) {
    // SAFETY: kept by `call_rcu`.
    let func = unsafe { head.cast::<RcuHead>().as_ref().kept() };
    if let Some(source) = source::given() {
        // SAFETY: as above; and the promise to `call_rcu`.
        return unsafe {
            source.call_rcu(head.as_ptr().cast(), transmute::<*mut (), RcuFunc>(func));
        };
    }
    // SAFETY: a function of this kind; the types differ in nothing but whether the caller is ready
    // for unwinding.
    give(Callback::Call(unsafe { transmute::<*mut (), Escaping>(func) }, head));
}

/// A head for a source, and what is to be freed.
#[repr(C)]
struct Freeing {
    head: RcuHead,
    object: NonNull<()>,
}

/// As `call`, of an object.
///
/// # Safety
/// As `free_rcu` handed it over.
unsafe fn free(head: NonNull<()>) {
    // SAFETY: kept by `free_rcu`, which was given no null.
    let object = unsafe { NonNull::new_unchecked(head.cast::<RcuHead>().as_ref().kept()) };
    let Some(source) = source::given() else { return give(Callback::Free(object)) };
    let freeing = Box::into_raw(Box::new(Freeing { head: RcuHead::new(), object }));
    // SAFETY: the head stays until `is_over` frees it.
    unsafe { source.call_rcu(freeing.cast(), is_over) };
}

/// The source's grace period is over.
unsafe extern "C" fn is_over(head: *mut RcuHead) {
    // SAFETY: `free` has made it, and nobody else has it.
    unsafe {
        let freeing = Box::from_raw(head.cast::<Freeing>());
        libc::free(freeing.object.as_ptr().cast());
    }
}

/// Leaves it to a BH item; does it here, if the process cannot have even one thread for that.
fn give(callback: Callback) {
    match (softirq::queue(), Process::existing()) {
        (Ok(wq), Some(process)) => process.callbacks.add(wq.handle(), callback),
        _ => callback.run(),
    }
}
