//! What the header has inline, as symbols: for other languages than C.

use std::ffi::{c_int, c_ulong};

use cmwq::raw::{self, RawDelayed, WorkFn, WorkItem};

use crate::debug;
use crate::handle::workqueue_struct;
use crate::item::pointer;
use crate::queueing::{
    c_functions, mod_delayed_work_on, queue_delayed_work_on, queue_work, queue_work_on,
};
use crate::system::percpu;

const ANY_CPU: c_int = raw::CPU_UNBOUND as c_int;

c_functions! {
    /// Makes an idle item of any memory; `INIT_WORK` in C.
    fn cmwq_init_work(item: *mut WorkItem, func: Option<WorkFn>) {
        // SAFETY: passed on to the caller, who has the memory to itself.
        let Some(func) = (unsafe { debug::begin_init(HERE, item, func) }) else { return };
        debug::init(item, false);
        // SAFETY: the caller has the memory to itself.
        unsafe { pointer(item).write(WorkItem::new(func)) };
    }

    /// As `cmwq_init_work`, with a timer; `INIT_DELAYED_WORK` or `INIT_DEFERRABLE_WORK` in C.
    fn cmwq_init_delayed_work(item: *mut RawDelayed, func: Option<WorkFn>, is_deferrable: bool) {
        // SAFETY: passed on to the caller, who has the memory to itself.
        let Some(func) = (unsafe { debug::begin_init(HERE, item, func) }) else { return };
        debug::init(item.cast(), false);
        // SAFETY: the caller has the memory to itself.
        unsafe { pointer(item).write(RawDelayed::new(func, is_deferrable)) };
    }

    /// `queue_delayed_work_on` from the CPU that calls.
    fn queue_delayed_work(
        wq: *mut workqueue_struct, item: *mut RawDelayed, ticks: c_ulong
    ) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { queue_delayed_work_on(ANY_CPU, wq, item, ticks) }
    }

    /// `mod_delayed_work_on` from the CPU that calls.
    fn mod_delayed_work(
        wq: *mut workqueue_struct, item: *mut RawDelayed, ticks: c_ulong
    ) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { mod_delayed_work_on(ANY_CPU, wq, item, ticks) }
    }

    /// `queue_work` on `system_percpu_wq`.
    fn schedule_work(item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { queue_work(percpu(), item) }
    }

    /// `queue_work_on` on `system_percpu_wq`.
    fn schedule_work_on(cpu: c_int, item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { queue_work_on(cpu, percpu(), item) }
    }

    /// `queue_delayed_work` on `system_percpu_wq`.
    fn schedule_delayed_work(item: *mut RawDelayed, ticks: c_ulong) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { queue_delayed_work_on(ANY_CPU, percpu(), item, ticks) }
    }

    /// `queue_delayed_work_on` on `system_percpu_wq`.
    fn schedule_delayed_work_on(cpu: c_int, item: *mut RawDelayed, ticks: c_ulong) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { queue_delayed_work_on(cpu, percpu(), item, ticks) }
    }
}
