//! Counters of a pwq that change with each item, in memory that others may read without the pool's
//! lock.
//!
//! A driver that shows its state gives each pwq a [`PwqCounts`] of its own, in memory that readers
//! see, so nothing is copied item by item. No decision reads these counters.

use alloc::boxed::Box;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::sync::{Ordering, RoughTotal};

/// See the module header. Written under the pool's lock.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PwqCounts {
    // ORDERING (all accesses): no pairing: counters.
    /// Items whose function was entered.
    started: RoughTotal,
    /// Items whose function returned.
    completed: RoughTotal,
    /// Items admitted and not finished: a copy of `nr_active`.
    active: RoughTotal,
}

impl PwqCounts {
    /// How many 64-bit words it is made of: started, completed, active.
    pub const WORDS: usize = 3;

    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    pub(crate) fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn count_started(&self) {
        add(&self.started, 1);
    }

    #[inline]
    pub(crate) fn count_completed(&self) {
        add(&self.completed, 1);
    }

    /// Counts `count` more items as started and as completed.
    #[inline]
    pub(crate) fn count_batch(&self, count: u32) {
        for total in [&self.started, &self.completed] {
            add(total, count.into());
        }
    }

    #[inline]
    pub(crate) fn set_active(&self, nr_active: u32) {
        self.active.store(nr_active.into(), Ordering::Relaxed);
    }
}

/// There is one writer at a time.
#[inline]
fn add(count: &RoughTotal, more: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// Where a pwq's counters are: in memory of its own, or in a place that it was given.
#[derive(Debug)]
pub(crate) struct CountsAt {
    at: NonNull<PwqCounts>,
    is_own: bool,
}

// SAFETY: it owns its counters, or they are shared and live for ever; either way they are atomics.
unsafe impl Send for CountsAt {}
// SAFETY: as above.
unsafe impl Sync for CountsAt {}

impl CountsAt {
    /// In memory of its own. Allocates.
    pub(crate) fn own() -> Self {
        Self { at: NonNull::from(Box::leak(Box::default())), is_own: true }
    }

    /// At `at`, with what was counted so far.
    pub(crate) fn shown(&self, at: &'static PwqCounts, nr_active: u32) -> Self {
        at.started.store(self.started(), Ordering::Relaxed);
        at.completed.store(self.completed(), Ordering::Relaxed);
        at.set_active(nr_active);
        Self { at: NonNull::from(at), is_own: false }
    }
}

impl Deref for CountsAt {
    type Target = PwqCounts;

    #[inline]
    fn deref(&self) -> &PwqCounts {
        // SAFETY: the counters are its own until it is dropped, or live for ever.
        unsafe { self.at.as_ref() }
    }
}

impl Drop for CountsAt {
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: made by `own`, and not shared.
            drop(unsafe { Box::from_raw(self.at.as_ptr()) });
        }
    }
}
