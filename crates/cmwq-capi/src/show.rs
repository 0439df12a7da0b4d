//! What queues and workers are doing, on standard error or in a buffer.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use cmwq::raw;

use crate::handle::{Queue, workqueue_struct};
use crate::queueing::c_functions;
use crate::settings::put;

/// `struct task_struct *`: what `cmwq_task` made of a thread's id, or whatever else for the calling
/// thread.
type Task = *mut c_void;

/// LIMIT: no thread of Linux has a larger id (`PID_MAX_LIMIT`).
const MAX_TID: usize = 4 << 20;

fn tid(task: Task) -> c_int {
    match task.addr() {
        tid if (1..=MAX_TID).contains(&tid) => tid as c_int,
        // SAFETY: always safe to call.
        _ => unsafe { libc::gettid() },
    }
}

c_functions! {
    /// A thread, for the functions that ask about one: 0 stands for the calling one.
    fn cmwq_task(tid: c_int) -> Task {
        // SAFETY: always safe to call.
        let tid = if tid > 0 { tid } else { unsafe { libc::gettid() } };
        ptr::without_provenance_mut(tid.unsigned_abs() as usize)
    }

    /// Writes what all queues and pools are doing to standard error.
    fn show_all_workqueues() {
        cmwq::show_all_workqueues();
    }

    /// Writes what keeps `freeze_workqueues_busy` true to standard error.
    fn show_freezable_workqueues() {
        cmwq::show_freezable_workqueues();
    }
}

c_functions! {
    /// Writes what a queue is doing to standard error.
    fn show_one_workqueue(wq: *mut workqueue_struct) {
        // SAFETY: passed on to the caller.
        if let Some(wq) = unsafe { Queue::of(HERE, wq) } {
            cmwq::show_one_workqueue(&wq);
        }
    }

    /// Writes what a thread runs to standard error, behind `log_lvl`, if it is a worker that runs
    /// an item.
    fn print_worker_info(log_lvl: *const c_char, task: Task) {
        let Some(info) = raw::worker_info(tid(task)) else { return };
        let prefix = if log_lvl.is_null() {
            String::new()
        } else {
            // SAFETY: passed on to the caller.
            unsafe { CStr::from_ptr(log_lvl) }.to_string_lossy().into_owned()
        };
        // The kernel's levels are two bytes that are not for people.
        let prefix = prefix.strip_prefix('\u{1}').map_or(prefix.as_str(), |level| {
            level.strip_prefix(|_| true).unwrap_or_default()
        });
        raw::print(&format!("{prefix}{info}\n"));
    }

    /// The name of a worker's thread in full, `kworker/0:1+queue`, as far as `size` bytes hold it;
    /// for another thread its own.
    fn wq_worker_comm(buf: *mut c_char, size: usize, task: Task) {
        let tid = tid(task);
        // Any bytes: a name may be cut within a character.
        let own = || std::fs::read(format!("/proc/self/task/{tid}/comm"));
        let name = raw::worker_comm(tid).map(String::into_bytes).or_else(|| own().ok());
        let name = name.unwrap_or_default();
        // SAFETY: passed on to the caller: there are `size` bytes.
        unsafe { put(name.strip_suffix(b"\n").unwrap_or(&name), buf, size) };
    }

    /// The function that a worker ran last, or null.
    fn wq_worker_last_func(task: Task) -> *const c_void {
        raw::last_func(tid(task)).map_or(ptr::null(), ptr::without_provenance)
    }
}
