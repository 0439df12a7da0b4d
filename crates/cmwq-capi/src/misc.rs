//! What a function may ask about itself, freezing, and running functions in other places.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr::{self, NonNull};

use cmwq::raw::{self, WorkFn, WorkItem, system};

use crate::item::{ExecuteWork, pointer, work};
use crate::queueing::c_functions;
use crate::{debug, face};

c_functions! {
    /// The item that the calling worker runs, or null.
    fn current_work() -> *mut WorkItem {
        raw::current_work().map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    /// The function of the item that the calling thread runs, or null.
    fn cmwq_current_func() -> *const c_void {
        ptr::with_exposed_provenance(raw::current_func())
    }

    /// Whether the caller is a rescuer.
    fn current_is_workqueue_rescuer() -> bool {
        cmwq::current_is_rescuer()
    }

    /// Whether the caller runs an item of a `WQ_MEM_RECLAIM` queue.
    fn current_is_workqueue_mem_reclaim() -> bool {
        cmwq::current_is_mem_reclaim()
    }

    /// Freezable queues start nothing more.
    fn freeze_workqueues_begin() {
        cmwq::freeze();
    }

    /// Whether an item of a freezable queue is still active.
    fn freeze_workqueues_busy() -> bool {
        cmwq::freeze_busy()
    }

    /// Freezable queues go on.
    fn thaw_workqueues() {
        cmwq::thaw();
    }

    /// The calling worker is about to block; `cmwq_blocking_end` follows, by the same thread.
    fn cmwq_blocking_begin() {
        raw::begin_blocking();
    }

    /// The second half of `cmwq_blocking_begin`.
    fn cmwq_blocking_end() {
        raw::end_blocking();
    }
}

/// The function given to `work_on_cpu`.
type CpuFn = unsafe extern "C-unwind" fn(*mut c_void) -> c_long;

/// A call that a worker makes for whoever waits for it.
#[repr(C)]
struct Call {
    work: WorkItem,
    func: CpuFn,
    arg: *mut c_void,
    /// `None`: it was not made.
    answer: Option<c_long>,
}

/// The item's function.
unsafe extern "C" fn make_call(item: *mut WorkItem) {
    let call = item.cast::<Call>();
    // SAFETY: a call begins with its item, and stays until it was waited for. What C wants called
    // with the argument, it says, may be called so.
    unsafe {
        let (func, arg) = ((*call).func, (*call).arg);
        (*call).answer = Some(raw::must_return(func as usize, || func(arg)));
    }
}

c_functions! {
    /// Says what the running item is doing. Use `set_worker_desc`, which takes a format.
    fn cmwq_set_worker_desc(desc: *const c_char) {
        // SAFETY: passed on to the caller.
        if let Some(desc) = unsafe { face::string(HERE, desc) } {
            cmwq::set_worker_desc(&desc);
        }
    }

    /// Runs a function on a CPU, and returns what it returned; `-EINVAL` without one, `-ENOMEM`
    /// without threads, `-ENODEV` if the library was shut down.
    fn work_on_cpu(cpu: c_int, func: Option<CpuFn>, arg: *mut c_void) -> c_long {
        let Some(func) = func else {
            face::say_null(HERE, "function");
            return (-libc::EINVAL).into();
        };
        let wq = match system::percpu() {
            Ok(wq) => wq,
            Err(error) => return face::refuse(HERE, &error).into(),
        };
        let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
        let mut call = Call { work: WorkItem::new(make_call), func, arg, answer: None };
        let call = &raw mut call;
        // SAFETY: it stays until it was waited for.
        unsafe {
            raw::queue(wq, Some(cpu), pointer(call.cast()));
            let _ = raw::flush(work(call.cast()));
            // A library that is shut down has dropped the item, and said so; or a queue that is
            // drained.
            (*call).answer.unwrap_or((-libc::ENODEV).into())
        }
    }

    /// As `work_on_cpu`, but `-ENODEV`, and nothing is called, if the process may not use the CPU.
    fn work_on_cpu_safe(cpu: c_int, func: Option<CpuFn>, arg: *mut c_void) -> c_long {
        if let Err(error) = system::percpu() {
            return face::refuse(HERE, &error).into();
        }
        match u32::try_from(cpu).is_ok_and(|cpu| raw::usable_cpus().contains(&cpu)) {
            // SAFETY: passed on to the caller.
            true => unsafe { work_on_cpu(cpu, func, arg) },
            false => (-libc::ENODEV).into(),
        }
    }

    /// Runs a function once on every CPU, with an item of its own, and waits for all: 0; `-EINVAL`
    /// without a function, `-ENOMEM` without threads, `-ENODEV` if some are not run, since the
    /// library is shut down.
    fn schedule_on_each_cpu(func: Option<WorkFn>) -> c_int {
        let Some(func) = func else {
            face::say_null(HERE, "function");
            return -libc::EINVAL;
        };
        let wq = match system::percpu() {
            Ok(wq) => wq,
            Err(error) => return face::refuse(HERE, &error),
        };
        let cpus = raw::usable_cpus();
        let mut items: Vec<_> = cpus.iter().map(|_| WorkItem::new(func)).collect();
        let first = items.as_mut_ptr();
        let mut are_called = true;
        for (index, &cpu) in cpus.iter().enumerate() {
            // SAFETY: there are as many items as CPUs; they stay until they were waited for.
            let item = unsafe { pointer(first.add(index)) };
            // SAFETY: as above.
            are_called &= unsafe { raw::queue_unless_refused(wq, Some(cpu), item) };
        }
        for index in 0..cpus.len() {
            // SAFETY: as above.
            let _ = unsafe { raw::flush(&*first.add(index)) };
        }
        if are_called { 0 } else { -libc::ENODEV }
    }

    /// Runs a function now, with `ew`'s item: 0; or, in an item of a BH queue, later by a worker:
    /// 1. `-EINVAL` without one of them.
    fn execute_in_process_context(func: Option<WorkFn>, ew: *mut ExecuteWork) -> c_int {
        let is_there = face::is_there(HERE, ew, "work item");
        let Some(func) = func.filter(|_| is_there) else {
            if is_there {
                face::say_null(HERE, "function");
            }
            return -libc::EINVAL;
        };
        let item = pointer(ew).cast::<WorkItem>();
        if !raw::in_bh() {
            // SAFETY: passed on to the caller.
            unsafe { raw::call(func, item) };
            return 0;
        }
        let wq = match system::percpu() {
            Ok(wq) => wq,
            Err(error) => return face::refuse(HERE, &error),
        };
        debug::init(item.as_ptr(), false);
        // SAFETY: passed on to the caller; nobody else has the item.
        unsafe {
            item.write(WorkItem::new(func));
            raw::queue(wq, None, item);
        }
        1
    }
}
