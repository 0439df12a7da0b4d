//! What a program may be told of its threads, its queues and their stalls.

use std::cell::Cell;
use std::ffi::CString;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::{Condvar, PoisonError};

use cmwq::raw;
use cmwq::watchdog::{self, Place, Stall};
use cmwq::{Config, ErrorKind};

use crate::fork::Lock;
use crate::queueing::c_functions;
use crate::settings::put;

type Hook = unsafe extern "C-unwind" fn(*mut c_void);

/// A function of the program's, with its data.
#[derive(Clone, Copy)]
struct Given<F>(F, *mut c_void);

// SAFETY: C says that any thread may call it with that.
unsafe impl<F: Send> Send for Given<F> {}
// SAFETY: as above.
unsafe impl<F: Sync> Sync for Given<F> {}

impl Given<Hook> {
    fn call(&self) {
        let &Self(hook, data) = self;
        // SAFETY: C says that it may be called so.
        raw::must_return(hook as usize, || unsafe { hook(data) });
    }
}

/// `struct cmwq_stall`.
#[repr(C)]
#[derive(Debug)]
pub struct StallOut {
    size: usize,
    report: *const c_char,
    duration_ms: c_ulonglong,
    kind: c_uint,
}

// As in the header, which asserts the same.
const _: () = assert!(size_of::<StallOut>() == 32);

type Handler = unsafe extern "C-unwind" fn(*const StallOut, *mut c_void);

impl Given<Handler> {
    fn call(&self, stall: &Stall) {
        let &Self(handler, data) = self;
        let report = CString::new(stall.to_string().replace('\0', " ")).unwrap_or_default();
        let told = StallOut {
            size: size_of::<StallOut>(),
            report: report.as_ptr(),
            duration_ms: c_ulonglong::try_from(stall.duration.as_millis()).unwrap_or(u64::MAX),
            kind: match stall.place {
                Place::Pool { .. } => 0,
                Place::Queue { .. } => 1,
                _ => 2,
            },
        };
        // SAFETY: C says that it may be called so; `told` stays until it has returned.
        raw::must_return(handler as usize, || unsafe { handler(&raw const told, data) });
    }
}

pub(crate) static TOLD: Lock<Told> = Lock::new(Told { handler: None, nr_calls: 0, call: None });
/// A call of the handler has ended.
static ENDED: Condvar = Condvar::new();

std::thread_local! {
    /// In which call of the handler the calling thread is.
    static INSIDE: Cell<Option<Call>> = const { Cell::new(None) };
}

/// Who is told of stalls. The library keeps only [`tell`], and whoever takes a handler back is to
/// know when it runs no more.
pub(crate) struct Told {
    handler: Option<Given<Handler>>,
    nr_calls: u64,
    call: Option<Call>,
}

/// One in progress: in which process, as [`raw::generation`] counts, since a child inherits none.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Call {
    generation: u32,
    nr: u64,
}

impl Told {
    fn begin(&mut self) -> Option<(Given<Handler>, Call)> {
        let handler = self.handler?;
        self.nr_calls += 1;
        let call = Call { generation: raw::generation(), nr: self.nr_calls };
        self.call = Some(call);
        Some((handler, call))
    }
}

/// By the watchdog, one call at a time.
fn tell(stall: &Stall) {
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            INSIDE.set(None);
            if let Some(mut told) = TOLD.lock() {
                told.call = None;
            }
            ENDED.notify_all();
        }
    }
    // It may have been taken back since the library was asked whom to tell.
    let Some((handler, call)) = TOLD.lock().and_then(|mut told| told.begin()) else {
        return raw::say(stall.to_string());
    };
    INSIDE.set(Some(call));
    let _inside = Inside;
    handler.call(stall);
}

/// Sets who is told, and waits until nobody else is any more.
fn set_told(handler: Option<Given<Handler>>) {
    let Some(mut told) = TOLD.lock() else { return };
    told.handler = handler;
    let is_of_others =
        |call: &Call| call.generation == raw::generation() && INSIDE.get() != Some(*call);
    let before = told.call.filter(is_of_others);
    while before.is_some() && told.call == before {
        told = ENDED.wait(told).unwrap_or_else(PoisonError::into_inner);
    }
}

c_functions! {
    /// Has each thread that runs functions call `start(data)` before the first and `exit(data)`
    /// after the last: 0, or `-EBUSY`: the library was used already, or was told.
    fn cmwq_set_thread_hooks(
        start: Option<Hook>, exit: Option<Hook>, data: *mut c_void
    ) -> c_int {
        let mut config = Config::builder();
        if let Some(start) = start.map(|hook| Given(hook, data)) {
            config = config.on_thread_start(move |_| start.call());
        }
        if let Some(exit) = exit.map(|hook| Given(hook, data)) {
            config = config.on_thread_stop(move |_| exit.call());
        }
        let Err(error) = config.install() else { return 0 };
        raw::say(format!("{HERE}: {error}"));
        if error.kind() == ErrorKind::Unavailable { -libc::EBUSY } else { -libc::EINVAL }
    }

    /// Has stalls told to `handler(stall, data)` in place of standard error; null: there again. The
    /// handler before runs no more then, unless it has called this.
    fn cmwq_set_watchdog_handler(handler: Option<Handler>, data: *mut c_void) {
        let handler = handler.map(|handler| Given(handler, data));
        // Of two calls at the same time, one with null, null wins: the library asks `tell` only
        // behind a handler that is set here.
        if handler.is_none() {
            watchdog::clear_handler();
        }
        set_told(handler);
        if handler.is_some() {
            watchdog::set_handler(tell);
        }
    }

    /// The statistics of queues and pools as text, as far as `size` bytes hold it; its length.
    fn cmwq_metrics(buf: *mut c_char, size: usize) -> usize {
        let text = raw::metrics_text();
        // SAFETY: passed on to the caller.
        unsafe { put(text.as_bytes(), buf, size) };
        text.len()
    }
}
