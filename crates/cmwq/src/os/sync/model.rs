//! What stands in for the system under a model checker.
//!
//! A futex is a lock and a condition variable, as the kernel's hash bucket is. There is no time: a
//! sleep that has an end may end as soon as others had their turn, and then that much time has
//! passed (see `clock`).

use std::cell::RefCell;
use std::io;
use std::time::Duration;

#[cfg(cmwq_loom)]
use ::loom as checker;
#[cfg(cmwq_shuttle)]
use ::shuttle as checker;

use super::Ordering;
use super::order::weakened;
use crate::os::clock;

use checker::sync::Condvar;
pub(crate) use checker::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub(crate) use checker::sync::{Mutex, MutexGuard};
use checker::thread;
pub(crate) use checker::thread::yield_now;

// Loom's has no constant initialisers, and no loom model has workers.
#[cfg(cmwq_shuttle)]
pub(crate) use shuttle::thread_local;
#[cfg(cmwq_loom)]
pub(crate) use std::thread_local;

/// Poison says that one of our own assertions fired.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// As [`lock`], unless somebody else has it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock().ok()
}

/// A word that one can sleep on.
#[derive(Debug)]
pub(crate) struct Futex {
    pub(crate) word: AtomicU32,
    bucket: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value), bucket: Mutex::new(()), sleepers: Condvar::new() }
    }

    /// Sleeps while the word is `expected`, until woken, for as long as `timeout`, or less: it may
    /// wake for no reason.
    pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) {
        let bucket = lock(&self.bucket);
        // ORDERING: no pairing: the bucket's lock orders it with `wake`, as in the kernel.
        if self.word.load(Ordering::Relaxed) != expected {
            return;
        }
        if let Some(timeout) = timeout {
            drop(bucket);
            sleep(timeout);
            return;
        }
        drop(self.sleepers.wait(bucket));
    }

    /// Wakes up to `n` sleepers.
    pub(crate) fn wake(&self, n: u32) {
        drop(lock(&self.bucket));
        // A mutation test loses some wake-ups.
        if weakened() == Some("futex.wake") && choose(7) == 0 {
            return;
        }
        if n == 1 {
            self.sleepers.notify_one();
        } else {
            self.sleepers.notify_all();
        }
    }
}

/// Others have their turn, and time passes.
pub(crate) fn sleep(time: Duration) {
    thread::yield_now();
    clock::pass(time);
}

/// Starts a thread. An execution is over when all its threads have ended; one that sleeps for ever
/// is a failure.
pub(crate) fn spawn(
    name: &str,
    _stack: usize,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<Joining> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(main)?;
    SPAWNED.with_borrow_mut(|spawned| spawned.push(thread));
    Ok(Joining)
}

/// Nobody waits for one thread: [`join_all`].
#[derive(Debug)]
pub(crate) struct Joining;

impl Joining {
    pub(crate) fn join(self) -> Result<(), ()> {
        Ok(())
    }
}

std::thread_local! {
    /// The threads of this execution: all of them are one thread of the system.
    static SPAWNED: RefCell<Vec<thread::JoinHandle<()>>> = const { RefCell::new(Vec::new()) };
}

/// Forgets the threads of an execution before, which may have failed.
#[cfg(test)]
pub(crate) fn restart() {
    SPAWNED.take();
}

/// Waits until nothing is left of the threads.
#[cfg(test)]
pub(crate) fn join_all() {
    while let Some(thread) = SPAWNED.with_borrow_mut(Vec::pop) {
        thread.join().expect("a thread of the runtime does not panic");
    }
}

/// Any number below `n`, to be explored like a choice between threads.
#[cfg(cmwq_shuttle)]
pub(crate) fn choose(n: usize) -> usize {
    use shuttle::rand::Rng;
    shuttle::rand::thread_rng().gen_range(0..n)
}

/// Loom explores no choices but its own.
#[cfg(cmwq_loom)]
pub(crate) fn choose(_n: usize) -> usize {
    0
}
