//! Starting threads, in a forked child too.
//!
//! Rust's library keeps a list of its threads under a lock that each of them takes when it begins
//! and when it ends. If a thread of the parent holds it at the moment of a fork, nobody gives it
//! back in the child, and every thread that Rust's library starts there waits for ever before it
//! comes to anything of ours. So the threads of a child are the C library's alone, which looks
//! after its own locks when it forks. What they lack: a word before the end if their stack
//! overflows, and a name in the messages of panics. Threads that the program itself starts there by
//! `std::thread` may still wait so.

use crate::os::sync::plain::{Receiver, channel};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::ffi::CString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

/// As Rust's library has it.
const DEFAULT_STACK: usize = 2 << 20;
/// Thread-locals that need more than this have no room in any stack that somebody asks for.
const LARGEST_STACK: usize = 64 << 20;

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// The process was forked, and is the child.
pub(crate) fn begin_anew() {
    // ORDERING: no pairing: a child has one thread.
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// A thread that can be waited for; dropped, it is left alone.
#[derive(Debug)]
pub(crate) enum Handle<T> {
    Known(JoinHandle<T>),
    /// What it returned is sent here.
    Plain(Receiver<T>),
}

impl<T> Handle<T> {
    /// Waits until it has done its part.
    ///
    /// # Errors
    /// If it has panicked.
    pub(crate) fn join(self) -> io::Result<T> {
        let value = match self {
            Self::Known(thread) => {
                let _uncancelled = Uncancelled::begin();
                thread.join().ok()
            }
            Self::Plain(sent) => sent.recv().ok(),
        };
        value.ok_or_else(|| io::Error::other("the thread has panicked"))
    }
}

/// Until it is dropped, who cancels this thread waits. To wait for another thread is a cancellation
/// point, and Rust's library does not unwind there: the process would end without a word.
struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    fn begin() -> Self {
        let mut before = 0;
        // SAFETY: `before` is writable.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Self { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: what it was before; nobody asks what it is now.
        unsafe { pthread_setcancelstate(self.before, ptr::null_mut()) };
    }
}

/// The same number in all C libraries of Linux that know it.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

// The crate `libc` has neither.
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Starts a thread. `stack`: its size in bytes, if not the usual one.
///
/// # Errors
/// If the system has none to give.
pub(crate) fn start<T: Send + 'static>(
    name: &str,
    stack: Option<usize>,
    main: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Handle<T>> {
    // ORDERING: no pairing: written while there was one thread.
    if !IS_CHILD.load(Ordering::Relaxed) {
        let builder = stack.map_or_else(Builder::new, |stack| Builder::new().stack_size(stack));
        return builder.name(name.to_owned()).spawn(main).map(Handle::Known);
    }
    let (send, sent) = channel();
    // Who does not want to know has dropped the other end.
    let part = move || drop(send.send(main()));
    start_plain(name, stack.unwrap_or(DEFAULT_STACK), Box::new(part))?;
    Ok(Handle::Plain(sent))
}

/// Has a thread of its own do something, and waits for it.
///
/// # Errors
/// If there is no thread to be had, or it has panicked.
pub(crate) fn ask<T: Send + 'static>(
    name: &str,
    part: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    start(name, None, part)?.join()
}

/// What a plain thread begins with.
struct Part {
    name: CString,
    main: Box<dyn FnOnce() + Send>,
}

fn start_plain(name: &str, stack: usize, main: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    let part = Box::into_raw(Box::new(Part { name: CString::new(name)?, main }));
    let created = create(stack, part.cast());
    if created.is_err() {
        // SAFETY: just made, and no thread has it.
        drop(unsafe { Box::from_raw(part) });
    }
    created
}

/// The C library takes the program's thread-locals out of the stack, and refuses one that is too
/// small for them (`EINVAL`). Rust's library knows how large they are; here a larger one is tried.
fn create(mut stack: usize, part: *mut c_void) -> io::Result<()> {
    loop {
        match try_to_create(stack, part) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && stack < LARGEST_STACK => {
                stack = 2 * stack.max(libc::PTHREAD_STACK_MIN);
            }
            created => return created,
        }
    }
}

fn try_to_create(stack: usize, part: *mut c_void) -> io::Result<()> {
    let check = |rc| if rc == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(rc)) };
    let stack = stack.max(libc::PTHREAD_STACK_MIN).next_multiple_of(1 << 16);
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: writable.
    check(unsafe { libc::pthread_attr_init(attr.as_mut_ptr()) })?;
    let attr = attr.as_mut_ptr();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    let detached = libc::PTHREAD_CREATE_DETACHED;
    // SAFETY: `attr` is initialised, `thread` writable; `begin` gets the part that is its.
    let created = unsafe {
        check(libc::pthread_attr_setstacksize(attr, stack))
            .and_then(|()| check(libc::pthread_attr_setdetachstate(attr, detached)))
            .and_then(|()| check(libc::pthread_create(thread.as_mut_ptr(), attr, begin, part)))
    };
    // SAFETY: initialised above, and not used any more.
    unsafe { libc::pthread_attr_destroy(attr) };
    created
}

extern "C" fn begin(part: *mut c_void) -> *mut c_void {
    // SAFETY: made by `start_plain` for this thread.
    let part = unsafe { Box::from_raw(part.cast::<Part>()) };
    // SAFETY: a string that ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, part.name.as_ptr()) };
    // Its message has been printed; the thread ends, as one of Rust's library does.
    drop(catch_unwind(AssertUnwindSafe(part.main)));
    ptr::null_mut()
}
