//! Staying loaded: threads run this code for as long as the process lives, so the shared object
//! that it is in, a plugin perhaps, must not be unloaded with its last `dlclose`. The C library may
//! keep it for reasons of its own (destructors of thread-local data); that is not to be relied on.

use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Pins the shared object that contains this function. What is linked into the program itself stays
/// anyway.
pub(crate) fn stay() {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let here = stay as *const () as *const c_void;
    // SAFETY: `info` is writable; zeroes are a value of it.
    let (found, info) = unsafe { (libc::dladdr(here, info.as_mut_ptr()), info.assume_init()) };
    if found == 0 || info.dli_fname.is_null() {
        return;
    }
    // SAFETY: a name that the loader gave; nothing is loaded that is not. The handle is kept.
    unsafe {
        libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE)
    };
}
