//! What a function may ask about itself, freezing, and running functions in other places.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ptr::{self, NonNull};

use cmwq::raw::{self, WorkFn, WorkItem};
use cmwq::system;

use crate::item::{ExecuteWork, pointer};
use crate::queueing::c_functions;

/// The item that the calling worker runs, or null.
#[unsafe(no_mangle)]
pub extern "C" fn current_work() -> *mut WorkItem {
    raw::current_work().map_or(ptr::null_mut(), NonNull::as_ptr)
}

/// Whether the caller is a rescuer.
#[unsafe(no_mangle)]
pub extern "C" fn current_is_workqueue_rescuer() -> bool {
    cmwq::current_is_rescuer()
}

/// Whether the caller runs an item of a `WQ_MEM_RECLAIM` queue.
#[unsafe(no_mangle)]
pub extern "C" fn current_is_workqueue_mem_reclaim() -> bool {
    cmwq::current_is_mem_reclaim()
}

/// Freezable queues start nothing more.
#[unsafe(no_mangle)]
pub extern "C" fn freeze_workqueues_begin() {
    cmwq::freeze();
}

/// Whether an item of a freezable queue is still active.
#[unsafe(no_mangle)]
pub extern "C" fn freeze_workqueues_busy() -> bool {
    cmwq::freeze_busy()
}

/// Freezable queues go on.
#[unsafe(no_mangle)]
pub extern "C" fn thaw_workqueues() {
    cmwq::thaw();
}

/// The calling worker is about to block; `cmwq_blocking_end` follows, by the same thread.
#[unsafe(no_mangle)]
pub extern "C" fn cmwq_blocking_begin() {
    raw::begin_blocking();
}

/// The second half of `cmwq_blocking_begin`.
#[unsafe(no_mangle)]
pub extern "C" fn cmwq_blocking_end() {
    raw::end_blocking();
}

/// The function given to `work_on_cpu`.
type CpuFn = unsafe extern "C" fn(*mut c_void) -> c_long;

/// What C passes to a function that runs elsewhere, while it waits.
struct Argument(*mut c_void);

// SAFETY: C says that it may be used by another thread, and waits for that.
unsafe impl Send for Argument {}

impl Argument {
    fn into_inner(self) -> *mut c_void {
        self.0
    }
}

c_functions! {
    /// Says what the running item is doing. Use `set_worker_desc`, which takes a format.
    fn cmwq_set_worker_desc(desc: *const c_char) {
        // SAFETY: passed on to the caller.
        cmwq::set_worker_desc(&unsafe { CStr::from_ptr(desc) }.to_string_lossy());
    }

    /// Runs a function on a CPU, and returns what it returned.
    fn work_on_cpu(cpu: c_int, func: CpuFn, arg: *mut c_void) -> c_long {
        let arg = Argument(arg);
        let cpu = usize::try_from(cpu).unwrap_or(usize::MAX);
        // SAFETY: passed on to the caller.
        cmwq::work_on_cpu(cpu, move || unsafe { func(arg.into_inner()) })
    }

    /// Runs a function once on every CPU, with an item of its own, and waits for all: 0.
    fn schedule_on_each_cpu(func: WorkFn) -> c_int {
        let cpus = raw::usable_cpus();
        let mut items: Vec<_> = cpus.iter().map(|_| WorkItem::new(func)).collect();
        let first = items.as_mut_ptr();
        for (index, &cpu) in cpus.iter().enumerate() {
            // SAFETY: there are as many items as CPUs; they stay until they were waited for.
            unsafe { raw::queue(system::percpu(), Some(cpu), pointer(first.add(index))) };
        }
        for index in 0..cpus.len() {
            // SAFETY: as above.
            let _ = raw::flush(unsafe { &*first.add(index) });
        }
        0
    }

    /// Runs a function now, with `ew`'s item: 0; or, in an item of a BH queue, later by a worker: 1.
    fn execute_in_process_context(func: WorkFn, ew: *mut ExecuteWork) -> c_int {
        let item = pointer(ew).cast::<WorkItem>();
        if !raw::in_bh() {
            // SAFETY: passed on to the caller.
            unsafe { func(item.as_ptr()) };
            return 0;
        }
        // SAFETY: passed on to the caller; nobody else has the item.
        unsafe {
            item.write(WorkItem::new(func));
            raw::queue(system::percpu(), None, item);
        }
        1
    }
}
