//! Grace periods of liburcu's flavour "memb", if the library is there: it is loaded at run time, so
//! that building needs nothing. A program that uses it gets the copy that it uses itself.

use std::ffi::CStr;
use std::mem::transmute;
use std::ptr::NonNull;

use super::source::{GracePeriods, RcuFunc, RcuHead};

const LIBRARY: &CStr = c"liburcu-memb.so.8";

/// The library's functions. It is never unloaded.
#[derive(Debug)]
pub(super) struct Liburcu {
    call_rcu: unsafe extern "C" fn(*mut RcuHead, RcuFunc),
    barrier: unsafe extern "C" fn(),
}

/// Loads the library.
///
/// # Errors
/// Why it could not be, in the loader's words.
pub(super) fn load() -> Result<Liburcu, String> {
    // SAFETY: the name is a string; the library's initialisation has no demands.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
    let library = NonNull::new(library).ok_or_else(last_error)?;
    let symbol = |name: &CStr| {
        // SAFETY: an open library, and a string.
        let symbol = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) };
        NonNull::new(symbol).ok_or_else(last_error)
    };
    let (call_rcu, barrier) = (symbol(c"urcu_memb_call_rcu")?, symbol(c"urcu_memb_barrier")?);
    // SAFETY: the functions' types in <urcu/call-rcu.h> for this soname; `struct rcu_head` is two
    // words there.
    Ok(unsafe {
        Liburcu {
            call_rcu: transmute::<NonNull<_>, unsafe extern "C" fn(*mut RcuHead, RcuFunc)>(
                call_rcu,
            ),
            barrier: transmute::<NonNull<_>, unsafe extern "C" fn()>(barrier),
        }
    })
}

fn last_error() -> String {
    // SAFETY: no demands; the string is the calling thread's until its next call of the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return format!("{} lacks a function", LIBRARY.to_string_lossy());
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

// SAFETY: what <urcu/call-rcu.h> promises of the two functions.
unsafe impl GracePeriods for Liburcu {
    unsafe fn call_rcu(&self, head: *mut RcuHead, func: RcuFunc) {
        // SAFETY: passed on to the caller.
        unsafe { (self.call_rcu)(head, func) };
    }

    fn rcu_barrier(&self) {
        // SAFETY: no demands, outside of read-side sections, where whoever flushes must be.
        unsafe { (self.barrier)() };
    }
}
