//! What the kernel's core calls of its workqueues. A process has nobody to call these; they are
//! here for code that brings the caller along, and do what there is to do.

use std::ffi::{c_int, c_uint, c_void};

use cmwq::raw;

use crate::face;
use crate::queueing::c_functions;

c_functions! {
    /// Nothing: the exported queues are usable from the first instruction on.
    fn workqueue_init_early() {}

    /// Starts the library's service thread, which the first use of a queue would.
    fn workqueue_init() {
        if let Err(error) = raw::start() {
            face::say_refused(HERE, error);
        }
    }

    /// Nothing: the machine is read at the start.
    fn workqueue_init_topology() {}

    /// Nothing: a CPU's pool is made when it is needed.
    fn workqueue_prepare_cpu(_cpu: c_uint) -> c_int {
        0
    }

    /// Looks which CPUs there are now.
    fn workqueue_online_cpu(_cpu: c_uint) -> c_int {
        rescan()
    }

    /// Looks which CPUs there are now.
    fn workqueue_offline_cpu(_cpu: c_uint) -> c_int {
        rescan()
    }
}

fn rescan() -> c_int {
    match cmwq::rescan_cpus() {
        Ok(()) => 0,
        Err(_) => -libc::ENOMEM,
    }
}

c_functions! {
    /// Nothing: BH items are run by threads, which are woken by what queues them.
    fn workqueue_softirq_action(_highpri: bool) {}

    /// Nothing: the thread of a CPU that has gone runs on another.
    fn workqueue_softirq_dead(_cpu: c_uint) {}

    /// Excuses what stands still on a CPU, or with -1 what belongs to none.
    fn wq_watchdog_touch(cpu: c_int) {
        raw::touch_watchdog(cpu);
    }

    /// The calling worker is about to block; the task is not looked at.
    fn wq_worker_sleeping(_task: *mut c_void) {
        raw::begin_blocking();
    }

    /// The calling worker is back.
    fn wq_worker_running(_task: *mut c_void) {
        raw::end_blocking();
    }

    /// Nothing: a thread of the library looks for hogs.
    fn wq_worker_tick(_task: *mut c_void) {}
}
