//! The armed timers: a wheel for timers that are reasons to wake up, and one for deferrable timers,
//! which are not.
//!
//! Deferrable timers expire when the service thread is awake anyway: for another timer, or because
//! a worker that is about to sleep [says so](Timers::deferred_at). The thread does not wake up for
//! them alone.
//!
//! Why: docs/decisions/deferrable-wheel.md

use std::ptr::NonNull;

use cmwq_core::{Nanos, Timer, Wheel};

use crate::engine::tools::plan::NEVER;

/// See the module header. Lock: timers.
#[derive(Debug)]
pub(crate) struct Timers {
    prompt: Wheel,
    /// Made with the first deferrable timer.
    deferrable: Option<Wheel>,
    tag: u32,
}

/// What follows from arming a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Armed {
    /// The wheel has to be looked at by this time.
    Prompt(Nanos),
    /// Nothing; [`Timers::deferred_at`] may have changed.
    Deferred,
}

impl Timers {
    /// No timers. `tag`: see [`Wheel::tagged`].
    pub(crate) fn new(now: Nanos, tag: u32) -> Self {
        Self { prompt: Wheel::tagged(now, tag), deferrable: None, tag }
    }

    /// Arms a timer.
    ///
    /// # Safety
    /// As for [`Wheel::arm`].
    #[inline(always)]
    pub(crate) unsafe fn arm(&mut self, timer: NonNull<Timer>, at: Nanos, now: Nanos) -> Armed {
        // SAFETY: valid by the caller's promise.
        if unsafe { timer.as_ref() }.is_deferrable() {
            // SAFETY: passed on to the caller.
            unsafe { self.arm_deferrable(timer, at, now) };
            return Armed::Deferred;
        }
        // SAFETY: passed on to the caller.
        Armed::Prompt(unsafe { self.prompt.arm(timer, at) })
    }

    /// # Safety
    /// As for [`Wheel::arm`].
    #[cold]
    unsafe fn arm_deferrable(&mut self, timer: NonNull<Timer>, at: Nanos, now: Nanos) {
        let tag = self.tag;
        let wheel = self.deferrable.get_or_insert_with(|| Wheel::tagged(now, tag));
        // SAFETY: passed on to the caller.
        unsafe { wheel.arm(timer, at) };
    }

    /// Disarms a timer; `false`: it was not armed.
    ///
    /// # Safety
    /// As for [`Wheel::cancel`].
    #[inline]
    pub(crate) unsafe fn cancel(&mut self, timer: NonNull<Timer>) -> bool {
        // SAFETY: valid by the caller's promise.
        let is_deferrable = unsafe { timer.as_ref() }.is_deferrable();
        let wheel = if is_deferrable { self.deferrable.as_mut() } else { Some(&mut self.prompt) };
        // SAFETY: passed on to the caller.
        wheel.is_some_and(|wheel| unsafe { wheel.cancel(timer) })
    }

    /// Whether another process's wheel has the timer, which is disarmed then.
    ///
    /// # Safety
    /// `timer` must be valid.
    pub(crate) unsafe fn forget_foreign(&self, timer: NonNull<Timer>) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { self.prompt.forget_foreign(timer) }
    }

    /// See [`Wheel::has_at`].
    pub(crate) fn has_at(&self, timer: usize) -> bool {
        self.prompt.has_at(timer)
            || self.deferrable.as_ref().is_some_and(|wheel| wheel.has_at(timer))
    }

    /// Takes the next timer that is due; see [`Wheel::expire_some`].
    pub(crate) fn expire_some(&mut self, now: Nanos, budget: &mut usize) -> Option<NonNull<Timer>> {
        let prompt = self.prompt.expire_some(now, budget);
        prompt.or_else(|| self.deferrable.as_mut()?.expire_some(now, budget))
    }

    /// When the thread has to be awake for timers.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.prompt.next_deadline()
    }

    /// When deferrable timers are due, for a thread that is awake anyway.
    pub(crate) fn deferred_at(&self) -> Nanos {
        self.deferrable.as_ref().and_then(Wheel::next_deadline).unwrap_or(NEVER)
    }
}

/// For timers by themselves.
#[cfg(not(cmwq_loom))]
impl Timers {
    /// Arms a timer that may be armed, which it is all along then.
    ///
    /// # Safety
    /// As for [`Wheel::arm_anew`].
    pub(crate) unsafe fn arm_anew(&mut self, timer: NonNull<Timer>, at: Nanos, now: Nanos) {
        let tag = self.tag;
        // SAFETY: valid by the caller's promise.
        let wheel = match unsafe { timer.as_ref() }.is_deferrable() {
            true => self.deferrable.get_or_insert_with(|| Wheel::tagged(now, tag)),
            false => &mut self.prompt,
        };
        // SAFETY: passed on to the caller.
        unsafe { wheel.arm_anew(timer, at) };
    }

    /// Whether a timer is armed.
    ///
    /// # Safety
    /// As for [`cancel`](Self::cancel).
    pub(crate) unsafe fn is_armed(&self, timer: NonNull<Timer>) -> bool {
        // SAFETY: passed on to the caller; which wheel makes no difference.
        unsafe { self.prompt.is_armed(timer) }
    }

    /// Whether no timer is armed.
    pub(crate) fn is_empty(&self) -> bool {
        self.prompt.is_empty() && self.deferrable.as_ref().is_none_or(Wheel::is_empty)
    }
}
