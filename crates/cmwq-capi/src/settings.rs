//! What libcmwq has beyond the kernel: counters, parameters by name, the end.

use std::ffi::{c_char, c_int, c_uint};
use std::mem::offset_of;
use std::ptr;
use std::time::Duration;

use cmwq::raw;
use cmwq::{ErrorKind, Stats};

use crate::face;
use crate::handle::{Queue, workqueue_struct};
use crate::queueing::c_functions;

/// `struct cmwq_stats`.
#[repr(C)]
#[derive(Debug)]
pub struct StatsOut {
    started: u64,
    completed: u64,
    cpu_time_us: u64,
    cpu_intensive: u64,
    cm_wakeup: u64,
    repatriated: u64,
    mayday: u64,
    rescued: u64,
    cancelled: u64,
}

// As in the header, which asserts the same.
const _: () = {
    assert!(size_of::<StatsOut>() == 72 && offset_of!(StatsOut, started) == 0);
    assert!(offset_of!(StatsOut, cpu_time_us) == 16 && offset_of!(StatsOut, cancelled) == 64);
};

impl StatsOut {
    fn new(stats: &Stats) -> Self {
        Self {
            started: stats.started,
            completed: stats.completed,
            cpu_time_us: u64::try_from(stats.cpu_time.as_micros()).unwrap_or(u64::MAX),
            cpu_intensive: stats.cpu_intensive,
            cm_wakeup: stats.cm_wakeup,
            repatriated: stats.repatriated,
            mayday: stats.mayday,
            rescued: stats.rescued,
            cancelled: stats.cancelled,
        }
    }
}

c_functions! {
    /// Writes the first `size` bytes of a queue's counters; how many bytes there are, or 0: there
    /// is no such queue.
    fn cmwq_workqueue_stats(
        wq: *mut workqueue_struct, stats: *mut StatsOut, size: usize
    ) -> usize {
        // SAFETY: passed on to the caller.
        let Some(wq) = (unsafe { Queue::of(HERE, wq) }) else { return 0 };
        let known = StatsOut::new(&wq.stats());
        let len = size_of::<StatsOut>();
        if stats.is_null() {
            return len;
        }
        // SAFETY: passed on to the caller: `size` bytes may be written.
        unsafe {
            ptr::write_bytes(stats.cast::<u8>(), 0, size);
            ptr::copy_nonoverlapping((&raw const known).cast::<u8>(), stats.cast(), size.min(len));
        }
        len
    }

    /// Sets a parameter: 0, `-EINVAL` or `-EBUSY`.
    fn cmwq_param_set(name: *const c_char, value: *const c_char) -> c_int {
        // SAFETY: passed on to the caller.
        let (name, value) = unsafe { (face::string(HERE, name), face::string(HERE, value)) };
        let (Some(name), Some(value)) = (name, value) else { return -libc::EINVAL };
        let Err(error) = cmwq::set_param(&name, &value) else { return 0 };
        raw::say(error.to_string());
        if error.kind() == ErrorKind::Unavailable { -libc::EBUSY } else { -libc::EINVAL }
    }

    /// A parameter's text, as far as `size` bytes hold it; its whole length, or `-EINVAL`.
    fn cmwq_param_get(name: *const c_char, buf: *mut c_char, size: usize) -> c_int {
        // SAFETY: passed on to the caller.
        let Some(name) = (unsafe { face::string(HERE, name) }) else { return -libc::EINVAL };
        let Some(text) = cmwq::param(&name) else { return -libc::EINVAL };
        // SAFETY: passed on to the caller.
        unsafe { put(text.as_bytes(), buf, size) };
        c_int::try_from(text.len()).unwrap_or(c_int::MAX)
    }
}

/// Writes as much of `text` as `size` bytes hold, and a null.
///
/// # Safety
/// `size` bytes may be written, or `buf` is null.
pub(crate) unsafe fn put(text: &[u8], buf: *mut c_char, size: usize) {
    let Some(room) = size.checked_sub(1).filter(|_| !buf.is_null()) else { return };
    let len = text.len().min(room);
    // SAFETY: the caller's promise.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), buf.cast(), len);
        buf.add(len).write(0);
    }
}

c_functions! {
    /// Ends the library in this process: 0 or `-EBUSY`.
    fn cmwq_shutdown(timeout_ms: c_uint) -> c_int {
        let Err(error) = cmwq::shutdown(Duration::from_millis(timeout_ms.into())) else { return 0 };
        raw::say(error.to_string());
        -libc::EBUSY
    }
}
