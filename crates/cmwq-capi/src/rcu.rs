//! `struct rcu_work *`, and the readers and grace periods of the process.

use std::ffi::{c_int, c_void};

use cmwq::raw::{self, GracePeriods, RawRcu, RcuFunc, RcuHead, WorkFn};

use crate::handle::workqueue_struct;
use crate::item::pointer;
use crate::queueing::{begin, c_functions};
use crate::{debug, face};

// As in the header, which asserts the same.
const _: () = assert!(size_of::<RawRcu>() == 64 && align_of::<RawRcu>() == 8);

c_functions! {
    /// Makes an idle item of any memory; `INIT_RCU_WORK` in C.
    fn cmwq_init_rcu_work(item: *mut RawRcu, func: Option<WorkFn>) {
        // SAFETY: passed on to the caller, who has the memory to itself.
        let Some(func) = (unsafe { debug::begin_init(HERE, item, func) }) else { return };
        debug::init(item.cast(), true);
        // SAFETY: the caller has the memory to itself.
        unsafe { pointer(item).write(RawRcu::new(func)) };
    }

    /// Queues an item after a grace period: `true`, this call did; `false`, it was pending.
    fn queue_rcu_work(wq: *mut workqueue_struct, item: *mut RawRcu) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
            match begin(HERE, wq, item.cast()) {
                Ok(queue) => raw::queue_rcu(&queue, pointer(item)),
                Err(answer) => answer,
            }
        }
    }

    /// Waits for an item's grace period and its run: `true`, there was something to wait for.
    fn flush_rcu_work(item: *mut RawRcu) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { debug::is_item(HERE, item.cast(), "flushed") && raw::flush_rcu(pointer(item)) }
    }
}

c_functions! {
    /// Begins a read-side section of the calling thread; `rcu_read_lock` in C.
    fn cmwq_rcu_read_lock() {
        raw::rcu_read_lock();
    }

    /// Ends the thread's innermost section.
    fn cmwq_rcu_read_unlock() {
        raw::rcu_read_unlock();
    }

    /// Waits for all sections that are open now.
    fn cmwq_synchronize_rcu() {
        raw::synchronize_rcu();
    }
}

c_functions! {
    /// Calls `func(head)` after a grace period, from a BH item; `call_rcu` in C.
    fn cmwq_call_rcu(head: *mut RcuHead, func: Option<RcuFunc>) {
        let Some(func) = func else { return face::say_null(HERE, "function") };
        if face::is_there(HERE, head, "head") {
            // SAFETY: passed on to the caller.
            unsafe { raw::call_rcu(pointer(head), func) };
        }
    }

    /// Gives `object` to `free` after a grace period; `kfree_rcu` in C.
    fn cmwq_free_rcu(head: *mut RcuHead, object: *mut c_void) {
        if face::is_there(HERE, head, "head") && face::is_there(HERE, object, "object") {
            // SAFETY: passed on to the caller.
            unsafe { raw::free_rcu(pointer(head), pointer(object).cast()) };
        }
    }
}

c_functions! {
    /// Waits for all functions of `call_rcu`.
    fn cmwq_rcu_barrier() {
        raw::rcu_barrier();
    }
}

/// Calls a function with the head when a grace period is over.
type CallRcu = unsafe extern "C" fn(*mut RcuHead, RcuFunc);
type RcuBarrier = unsafe extern "C" fn();

/// The program's own source of grace periods.
struct Source {
    call_rcu: CallRcu,
    rcu_barrier: RcuBarrier,
}

// SAFETY: C promises what the trait asks for.
unsafe impl GracePeriods for Source {
    unsafe fn call_rcu(&self, head: *mut RcuHead, func: RcuFunc) {
        // SAFETY: passed on to the caller.
        unsafe { (self.call_rcu)(head, func) }
    }

    fn rcu_barrier(&self) {
        // SAFETY: C's function takes nothing.
        unsafe { (self.rcu_barrier)() }
    }
}

c_functions! {
    /// Makes the program say when grace periods are over: 0, or `-EBUSY`, somebody does already.
    fn cmwq_set_rcu(call_rcu: Option<CallRcu>, rcu_barrier: Option<RcuBarrier>) -> c_int {
        let (Some(call_rcu), Some(rcu_barrier)) = (call_rcu, rcu_barrier) else {
            face::say_null(HERE, "function");
            return -libc::EINVAL;
        };
        let source = Box::into_raw(Box::new(Source { call_rcu, rcu_barrier }));
        // SAFETY: just made, and not freed if it is set.
        match raw::set_grace_periods(unsafe { &*source }) {
            Ok(()) => 0,
            Err(error) => {
                // SAFETY: it was not set, so nobody else has it.
                drop(unsafe { Box::from_raw(source) });
                raw::say(error.to_string());
                -libc::EBUSY
            }
        }
    }
}
