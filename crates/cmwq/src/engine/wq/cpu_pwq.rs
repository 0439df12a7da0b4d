//! A queue's pwqs: a slot per CPU or pod, with a pointer that can be replaced, as the kernel's
//! `wq->cpu_pwq`.
//!
//! A thread that has read a slot may go on with the old pwq while the slot is replaced: what a slot
//! led to lives as long as the queue, and the pwq says under its pool's lock whether it still takes
//! items.

use std::fmt;
use std::ptr::NonNull;

use cmwq_core::{PwqId, PwqRef};

use crate::engine::pool::Pool;
use crate::os::published::Pointer;

/// A queue's pwq in one pool.
#[derive(Clone, Copy)]
pub(crate) struct CpuPwq {
    pub(crate) pool: &'static Pool,
    pub(crate) pwq: PwqId,
}

impl CpuPwq {
    pub(crate) fn at(&self) -> PwqRef {
        PwqRef { pool: self.pool.id, pwq: self.pwq }
    }
}

/// Where a pwq is found: empty until the first item needs it.
pub(crate) struct Slot<T = CpuPwq> {
    way: Pointer<T>,
}

impl<T> Slot<T> {
    pub(crate) fn empty() -> Self {
        Self { way: Pointer::nowhere() }
    }

    /// The pwq, if there is one yet.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: null, or of a store that outlives the slot's borrow, by the promise to `set`.
        unsafe { self.way.get().as_ref() }
    }

    /// Sets or replaces the pwq. By one thread at a time.
    ///
    /// # Safety
    /// `way` must come from a [`Store`] that lives as long as this slot is used.
    pub(crate) unsafe fn set(&self, way: NonNull<T>) {
        self.way.set(way.as_ptr());
    }
}

/// All pwqs that a queue's slots ever had. Lock: WQ.
pub(crate) struct Store<T = CpuPwq>(Vec<NonNull<T>>);

// SAFETY: it owns what it points at, and hands out shared access only.
unsafe impl<T: Send + Sync> Send for Store<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Store<T> {}

impl<T> Store<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Keeps `thing` in memory of its own.
    pub(crate) fn keep(&mut self, thing: T) -> NonNull<T> {
        let kept = NonNull::from(Box::leak(Box::new(thing)));
        self.0.push(kept);
        kept
    }

    fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<NonNull<T>> {
        // SAFETY: made by `keep`, dropped with `self`.
        self.0.iter().copied().find(|thing| is_it(unsafe { thing.as_ref() }))
    }
}

impl Store<CpuPwq> {
    /// The pwq, kept once however often it is asked for: changing back and forth takes no memory.
    pub(crate) fn keep_once(&mut self, cpu_pwq: CpuPwq) -> NonNull<CpuPwq> {
        self.find(|known| known.at() == cpu_pwq.at()).unwrap_or_else(|| self.keep(cpu_pwq))
    }
}

impl<T> Drop for Store<T> {
    fn drop(&mut self) {
        for thing in self.0.drain(..) {
            // SAFETY: made by `keep` from a box, and no slot is used any more.
            drop(unsafe { Box::from_raw(thing.as_ptr()) });
        }
    }
}

impl fmt::Debug for CpuPwq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at().fmt(f)
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.get().is_some()).finish()
    }
}

impl<T> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.0.len()).finish()
    }
}
