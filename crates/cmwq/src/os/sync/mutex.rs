//! A mutual exclusion that knows no poison, for the locks of the hot paths: 14 instructions less
//! than the standard library's for each hold.
//!
//! The word of the lock is [`FREE`], [`HELD`], or [`AWAITED`]: held, and others may sleep. Who has
//! slept takes it as `AWAITED`, since it cannot know whether it was the only one.
//!
//! Why: docs/decisions/barriers-are-passed.md

use std::hint;

use super::{Futex, Ordering, acquire, release};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// So often one who finds the lock held looks again before it sleeps: most holds are shorter than a
/// system call. A model has no time that could pass.
const SPINS: u32 = if cfg!(cmwq_loom) { 0 } else { 100 };

/// The lock alone, with nothing in it.
pub(crate) struct RawMutex {
    futex: Futex,
}

impl RawMutex {
    pub(crate) fn new() -> Self {
        Self { futex: Futex::new(FREE) }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[inline(always)]
    pub(crate) fn try_lock(&self) -> bool {
        // ORDERING: Acquire pairs with the Release of `unlock`.
        self.futex
            .word
            .compare_exchange(FREE, HELD, acquire("mutex_lock"), Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        if self.spin() == FREE && self.try_lock() {
            return;
        }
        // ORDERING: Acquire pairs with the Release of `unlock`.
        while self.futex.word.swap(AWAITED, acquire("mutex_sleep")) != FREE {
            self.futex.wait(AWAITED, None);
            self.spin();
        }
    }

    /// Looks until the lock is free, or somebody sleeps for it, or it takes too long. What it saw
    /// last.
    fn spin(&self) -> u32 {
        // ORDERING: no pairing: a hint.
        let look = || self.futex.word.load(Ordering::Relaxed);
        let mut spins = 0;
        while spins < SPINS && look() == HELD {
            hint::spin_loop();
            spins += 1;
        }
        look()
    }

    /// By who has it.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        // ORDERING: Release pairs with the Acquire of who locks next.
        if self.futex.word.swap(FREE, release("mutex_unlock")) == AWAITED {
            self.wake();
        }
    }

    /// As the standard library's does, it may come when the lock is gone: others may have had it,
    /// and freed it. No memory is touched, and sleepers of any word may wake for nothing.
    #[cold]
    #[inline(never)]
    fn wake(&self) {
        self.futex.wake(1);
    }
}

pub(crate) use with_value::{Mutex, MutexGuard};

mod with_value {
    use std::cell::UnsafeCell;
    use std::fmt;
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};

    use super::RawMutex;

    /// A value that one thread at a time may touch.
    pub(crate) struct Mutex<T> {
        raw: RawMutex,
        value: UnsafeCell<T>,
    }

    // SAFETY: the lock lets one thread at a time have the value.
    unsafe impl<T: Send> Sync for Mutex<T> {}

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self { raw: RawMutex::new(), value: UnsafeCell::new(value) }
        }

        #[inline(always)]
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.raw.lock();
            MutexGuard { mutex: self, by_thread: PhantomData }
        }

        /// `None`: somebody else has it.
        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            // Made only with the lock: one that is dropped gives the lock back, whoever has it.
            self.raw.try_lock().then(|| MutexGuard { mutex: self, by_thread: PhantomData })
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.try_lock() {
                Some(value) => f.debug_tuple("Mutex").field(&*value).finish(),
                None => f.write_str("Mutex(held)"),
            }
        }
    }

    /// Has the lock, until it is dropped, by the thread that took it.
    pub(crate) struct MutexGuard<'a, T> {
        mutex: &'a Mutex<T>,
        by_thread: PhantomData<*const ()>,
    }

    // SAFETY: it lets others read what it guards, and nothing else.
    unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        #[inline(always)]
        fn deref(&self) -> &T {
            // SAFETY: this guard has the lock.
            unsafe { &*self.mutex.value.get() }
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        #[inline(always)]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: this guard has the lock, and is borrowed for writing.
            unsafe { &mut *self.mutex.value.get() }
        }
    }

    impl<T> Drop for MutexGuard<'_, T> {
        #[inline(always)]
        fn drop(&mut self) {
            self.mutex.raw.unlock();
        }
    }
}

#[cfg(test)]
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod tests {
    use super::Mutex;

    #[test]
    fn who_does_not_get_it_leaves_it_to_who_has_it() {
        let mutex = Mutex::new(7);
        let held = mutex.lock();
        for _ in 0..2 {
            let got = mutex.try_lock();
            // A guard that nobody ought to have would give the lock back.
            assert!(got.map(std::mem::forget).is_none());
        }
        assert_eq!(format!("{mutex:?}"), "Mutex(held)");
        drop(held);
        assert_eq!(format!("{mutex:?}"), "Mutex(7)");
        assert_eq!(mutex.try_lock().map(|value| *value), Some(7));
        assert!(mutex.try_lock().is_some(), "it was given back");
    }
}
