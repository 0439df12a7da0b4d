//! What all functions of the C library have in common: they answer what cannot be done, and
//! nothing of Rust's leaves them.
//!
//! A null pointer, or a queue that cannot be made because no thread can be had, is logged in one
//! line that begins with the function's name, and nothing is done; the answer is the one that the
//! interface has for "no". What unwinds all the same is a bug of the library's, a function of the
//! program's that does not return, or the end of a thread that was cancelled: one line, and the
//! end.

use std::ffi::c_int;
use std::fmt::Display;

use cmwq::Error;
use cmwq::raw;

use crate::handle;

/// Ends the process when it is dropped; forgotten where the function returns.
pub(crate) struct Face(pub(crate) &'static str);

impl Drop for Face {
    #[cold]
    fn drop(&mut self) {
        let what = if std::thread::panicking() {
            "the library panicked, which is a bug of it (see above)"
        } else {
            "a function of the program's ended its thread or let an exception out, or the thread \
             was cancelled"
        };
        raw::die(&format!("{}: {what}; the process ends", self.0));
    }
}

/// Says that an argument of the function `here` is null.
#[cold]
pub(crate) fn say_null(here: &str, what: &str) {
    let article = if what.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    raw::say(format!("{here}: a null pointer in place of {article} {what}: nothing is done"));
}

/// Says why the function `here` cannot do it.
#[cold]
pub(crate) fn say_refused(here: &str, why: impl Display) {
    raw::say(format!("{here}: {why}: nothing is done"));
}

/// The same, of a queue that cannot be made; the answer.
#[cold]
pub(crate) fn refuse(here: &str, why: &Error) -> c_int {
    handle::cannot_be_made(here, why).errno()
}

/// Whether the pointer is not null. If it is, that is said.
#[inline]
pub(crate) fn is_there<T>(here: &str, pointer: *const T, what: &str) -> bool {
    if pointer.is_null() {
        say_null(here, what);
    }
    !pointer.is_null()
}

/// The string behind a pointer, or `None`, which is said.
///
/// # Safety
/// It must be null, or a string for as long as the result is used.
pub(crate) unsafe fn string<'a>(
    here: &str,
    text: *const std::ffi::c_char,
) -> Option<std::borrow::Cow<'a, str>> {
    // SAFETY: not null, and the caller's promise.
    is_there(here, text, "string")
        .then(|| unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy())
}
