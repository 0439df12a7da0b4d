//! The only module that names `std::sync`, loom or shuttle.
//!
//! Everything else of the driver takes its locks, atomics, threads and futexes from here, so the same code
//! runs on threads, under loom (parking and publishing) and under shuttle (whole protocols).

#[cfg(not(any(loom, shuttle)))]
mod imp {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use std::sync::{Mutex, MutexGuard};
}
#[cfg(loom)]
mod imp {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}
#[cfg(shuttle)]
mod imp {
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    };
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
}

pub(crate) use imp::*;
pub(crate) use std::sync::atomic::Ordering;
pub(crate) use std::sync::{Arc, Mutex as PlainMutex, OnceLock};

use std::time::Duration;

/// Locks, whatever a panicking holder left behind: no user code runs under any lock of this crate, so a
/// poisoned one only says that one of our own assertions fired.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The names of this crate's ordering sites; see `cmwq_core::ORDERING_SITES` for the idea.
#[cfg(any(loom, test))]
pub(crate) const ORDERING_SITES: &[&str] = &["unpark", "park_take", "publish", "published"];

/// `then`, unless the mutation test weakens the site to `Relaxed`.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn ordering(_site: &'static str, then: Ordering) -> Ordering {
    then
}

#[cfg(loom)]
pub(crate) fn ordering(site: &'static str, then: Ordering) -> Ordering {
    debug_assert!(ORDERING_SITES.contains(&site));
    match std::env::var("CMWQ_WEAKEN") {
        Ok(weak) if weak == site => Ordering::Relaxed,
        _ => then,
    }
}

/// A futex: a word one can sleep on. Under a model checker a lock and a condition variable stand in for the
/// kernel's hash bucket, which is what the real thing is too.
#[derive(Debug)]
pub(crate) struct Futex {
    pub(crate) word: AtomicU32,
    #[cfg(any(loom, shuttle))]
    bucket: model::Bucket,
}

impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            #[cfg(any(loom, shuttle))]
            bucket: model::Bucket::default(),
        }
    }

    /// Sleeps while the word is `expected`; may wake for no reason. `false`: the time was up.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) -> bool {
        use crate::sense::futex::{WaitResult, wait};
        !matches!(wait(&self.word, expected, timeout), WaitResult::TimedOut)
    }

    /// Wakes up to `n` sleepers.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn wake(&self, n: u32) {
        crate::sense::futex::wake(&self.word, n);
    }

    #[cfg(any(loom, shuttle))]
    pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) -> bool {
        self.bucket.wait(&self.word, expected, timeout)
    }

    #[cfg(any(loom, shuttle))]
    pub(crate) fn wake(&self, _n: u32) {
        self.bucket.wake();
    }
}

#[cfg(any(loom, shuttle))]
mod model {
    use super::{AtomicU32, Duration, Mutex, Ordering, lock};
    #[cfg(loom)]
    use loom::sync::Condvar;
    #[cfg(shuttle)]
    use shuttle::sync::Condvar;

    #[derive(Debug, Default)]
    pub(super) struct Bucket {
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    impl Bucket {
        pub(super) fn wait(
            &self,
            word: &AtomicU32,
            expected: u32,
            timeout: Option<Duration>,
        ) -> bool {
            let guard = lock(&self.lock);
            if word.load(Ordering::Relaxed) != expected {
                return true;
            }
            if timeout.is_some() {
                // A model has no time: a timed wait is one that may end at once.
                drop(guard);
                super::yield_now();
                return false;
            }
            drop(self.sleepers.wait(guard));
            true
        }

        pub(super) fn wake(&self) {
            drop(lock(&self.lock));
            self.sleepers.notify_all();
        }
    }
}

#[cfg(loom)]
fn yield_now() {
    loom::thread::yield_now();
}
#[cfg(shuttle)]
fn yield_now() {
    shuttle::thread::yield_now();
}

/// Starts a detached thread.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn spawn(
    name: &str,
    stack: usize,
    main: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(main).map(drop)
}

#[cfg(any(loom, shuttle))]
#[expect(clippy::unnecessary_wraps, reason = "same signature as the real one")]
pub(crate) fn spawn(
    _name: &str,
    _stack: usize,
    main: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    #[cfg(loom)]
    drop(loom::thread::spawn(main));
    #[cfg(shuttle)]
    drop(shuttle::thread::spawn(main));
    Ok(())
}
