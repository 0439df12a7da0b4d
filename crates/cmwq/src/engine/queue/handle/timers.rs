//! The timers of delayed items keep their queue in being.
//!
//! Arming and cancelling a timer take the timers' lock anyway, so under it the armed timers of a
//! queue are counted by plain arithmetic, and all of them together hold one reference. One atomic
//! operation for each would be a seventh of what arming costs.
//!
//! Why: docs/decisions/timers-share-a-reference.md

use std::ptr::NonNull;

use cmwq_core::Closed;

use super::{Handle, Owner};
use crate::engine::wq::Wq;
use crate::os::sync::{Arc, Ordering, lock};

/// A [`Handle`] whose one reference all armed timers of the queue share. Valid while the timer is
/// counted.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimersHandle(NonNull<Owner>);

impl Handle {
    /// As a pointer, which keeps its reference until [`from_raw`](Self::from_raw).
    pub(crate) fn into_raw(self) -> NonNull<()> {
        // SAFETY: an `Arc` is not null.
        unsafe { NonNull::new_unchecked(Arc::into_raw(self.0).cast_mut().cast()) }
    }

    /// # Safety
    /// `raw` must come from [`into_raw`](Self::into_raw), and its reference be taken over once.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Arc::from_raw(raw.as_ptr().cast_const().cast()) })
    }

    /// For a timer that is going to be armed and [counted](TimersHandle::add).
    pub(crate) fn for_timer(&self) -> TimersHandle {
        let owner = Arc::as_ptr(&self.0).cast_mut();
        // SAFETY: an `Arc` is not null.
        TimersHandle(unsafe { NonNull::new_unchecked(owner) })
    }

    /// Closes the queue but for the items of the timers that are armed; no others are from now on.
    /// Whether there are any: the queue ends behind them then, and who drops their handle
    /// [sees to it](Handle::drop_later). `wq`: the queue of this process.
    pub(super) fn leave_to_timers(&self, wq: &Wq) -> bool {
        // Who counts the last one later sees under the lock that he is to end the queue, and who
        // is about to arm one, that he may not.
        let _timers = lock(&wq.runtime.service.timers);
        wq.close(Closed::BEHIND_TIMERS);
        let is_left = self.0.nr_timers.load(Ordering::Relaxed) != 0;
        self.0.is_left_to_timers.store(is_left, Ordering::Relaxed);
        is_left
    }

    /// Whether no timer is armed any more for a queue that was left to them: the caller, alone, has
    /// to end it. `wq`: the queue of this process.
    pub(super) fn takes_over_from_timers(&self, wq: &Wq) -> bool {
        let _timers = lock(&wq.runtime.service.timers);
        let is_left = self.0.nr_timers.load(Ordering::Relaxed) != 0;
        !is_left && self.0.is_left_to_timers.swap(false, Ordering::Relaxed)
    }

    /// How many timers are armed.
    #[cfg(any(all(test, cmwq_loom), feature = "explore"))]
    pub(crate) fn nr_timers(&self) -> u64 {
        self.0.nr_timers.load(Ordering::Relaxed)
    }

    /// How many references there are, that of the timers included.
    #[cfg(all(test, cmwq_loom))]
    pub(crate) fn nr_references(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl Owner {
    /// In a child whose queue is about to be published, with which it may arm timers: the parent's
    /// never expire here, so their reference is given back.
    pub(super) fn leave_parents_timers(this: &Arc<Self>) {
        // ORDERING: no pairing: who arms a timer finds the queue first.
        if this.nr_timers.swap(0, Ordering::Relaxed) != 0 {
            // SAFETY: it comes from an `Arc`, and the timers had one reference, beside the
            // caller's.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(this)) };
        }
    }
}

impl TimersHandle {
    /// One more timer is armed.
    ///
    /// # Safety
    /// Caller holds the timers' lock, and a handle of the queue or a counted timer.
    pub(crate) unsafe fn add(self) {
        // SAFETY: kept in being by the caller.
        let nr_timers = unsafe { &self.0.as_ref().nr_timers };
        // ORDERING (here and below): no pairing: only under the timers' lock.
        let before = nr_timers.load(Ordering::Relaxed);
        // Before it is counted: a child that is forked in between has a reference too many, and
        // none too few.
        if before == 0 {
            // SAFETY: it comes from an `Arc`, of which the caller has a reference.
            unsafe { Arc::increment_strong_count(self.0.as_ptr()) };
        }
        nr_timers.store(before + 1, Ordering::Relaxed);
    }

    /// `count` timers have expired or were cancelled. `Some`: none is left; the handle is to be
    /// dropped without the lock.
    ///
    /// # Safety
    /// Caller holds the timers' lock; that many were added and not taken away yet.
    #[must_use]
    pub(crate) unsafe fn sub(self, count: u64) -> Option<Handle> {
        // SAFETY: kept in being by what is counted.
        let nr_timers = unsafe { &self.0.as_ref().nr_timers };
        let left = nr_timers.load(Ordering::Relaxed) - count;
        nr_timers.store(left, Ordering::Relaxed);
        // SAFETY: the reference that the first one took.
        (left == 0).then(|| Handle(unsafe { Arc::from_raw(self.0.as_ptr()) }))
    }

    /// The queue.
    ///
    /// # Safety
    /// The timer must be counted until the reference is last used.
    pub(crate) unsafe fn wq<'a>(self) -> &'a Wq {
        // SAFETY: the caller's promise.
        let owner = unsafe { self.0.as_ref() };
        let successor = || &**owner.known_successor().expect("who arms a timer has the queue");
        if owner.is_own() { &owner.wq } else { successor() }
    }
}
