//! The real thing: the standard library and the system.

use std::io;
use std::time::Duration;

use crate::os::sense::futex;
use crate::os::sense::thread;

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub(crate) use std::thread::{sleep, yield_now};
pub(crate) use std::thread_local;

pub(crate) use super::mutex::{Mutex, MutexGuard};

#[inline(always)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// As [`lock`], unless somebody else has it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock()
}

/// A word that one can sleep on.
#[derive(Debug)]
pub(crate) struct Futex {
    pub(crate) word: AtomicU32,
}

impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value) }
    }

    /// Sleeps while the word is `expected`, until woken, for as long as `timeout`, or less: it may
    /// wake for no reason.
    pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) {
        let _ = futex::wait(&self.word, expected, timeout);
    }

    /// Wakes up to `n` sleepers.
    pub(crate) fn wake(&self, n: u32) {
        futex::wake(&self.word, n);
    }
}

/// What waits for the end of a thread, which has left the system then, but in a forked child may be
/// about to. Dropped, it detaches it.
pub(crate) type Joining = thread::Handle<()>;

/// Starts a thread.
pub(crate) fn spawn(
    name: &str,
    stack: usize,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<Joining> {
    thread::start(name, Some(stack), main)
}
