//! The timers of delayed items, which the service keeps: arming and disarming them.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use cmwq_core::{FIRE_BATCH, Nanos, Timer, Wheel};

use crate::engine::queue::handle::{Handle, TimersHandle};
use crate::engine::queue::reaper::Errands;
use crate::engine::runtime::Runtime;
use crate::engine::service::Service;
use crate::engine::tools::timers::Armed;
use crate::engine::wq::Wq;
use crate::os::clock;
use crate::os::sync::{lock, without};

/// Out of line: the usual way compares, and does not choose between two values.
#[cold]
#[inline(never)]
fn latest() -> Nanos {
    Wheel::LATEST
}

/// When a timer is due that is armed now.
#[inline]
fn expiry(now: Nanos, delay: Duration) -> Nanos {
    const SECOND: Nanos = 1_000_000_000;
    // A process's clock counts from the machine's start: the sum is in range.
    if delay.as_secs() >= Wheel::LATEST / SECOND / 2 {
        return latest();
    }
    now + delay.as_secs() * SECOND + Nanos::from(delay.subsec_nanos())
}

impl Service {
    /// Arms a timer for an item that is going to `wq`, which is kept in being until then by
    /// `handle`. `false`: the queue is shut down. That is asked under the lock, which who shuts it
    /// down takes behind that: a timer that is armed all the same is found and discarded.
    ///
    /// # Safety
    /// As for [`Wheel::arm`](cmwq_core::Wheel::arm) and [`TimersHandle::add`], for a timer of a
    /// delayed item with that route.
    #[inline(always)]
    pub(crate) unsafe fn arm(
        &self,
        timer: NonNull<Timer>,
        delay: Duration,
        handle: TimersHandle,
        wq: &Wq,
    ) -> bool {
        let now = clock::now();
        let at = expiry(now, delay);
        let mut timers = lock(&self.timers);
        if !wq.closed().lets_arm() {
            return false;
        }
        // SAFETY: passed on to the caller.
        let armed = unsafe {
            handle.add();
            timers.arm(timer, at, now)
        };
        match armed {
            Armed::Prompt(deadline) => {
                drop(timers);
                // Whoever held the timers' lock second knows of the other: we of the plan, or the
                // service of the timer.
                self.plan.need_by(deadline);
            }
            Armed::Deferred => self.publish_deferred(&timers),
        }
        true
    }

    /// Disarms a timer, and calls `then` under the timers' lock; `None`: it was not armed.
    ///
    /// # Safety
    /// As for [`Wheel::cancel`](cmwq_core::Wheel::cancel).
    #[inline(always)]
    pub(crate) unsafe fn disarm<T>(
        &self,
        timer: NonNull<Timer>,
        then: impl FnOnce() -> T,
    ) -> Option<T> {
        let mut timers = lock(&self.timers);
        // SAFETY: passed on to the caller.
        if !unsafe { timers.cancel(timer) } {
            return None;
        }
        Some(then())
    }

    /// Disarms a timer that was armed in the process that this one is the child of, if it was.
    ///
    /// # Safety
    /// `timer` must be valid.
    pub(crate) unsafe fn forget_foreign(&self, timer: NonNull<Timer>) {
        // SAFETY: passed on to the caller.
        let _ = unsafe { lock(&self.timers).forget_foreign(timer) };
    }

    /// See [`Wheel::has_at`](cmwq_core::Wheel::has_at).
    pub(crate) fn has_timer_at(&self, timer: usize) -> bool {
        lock(&self.timers).has_at(timer)
    }

    /// See [`TimersHandle::sub`].
    ///
    /// # Safety
    /// As there, but for the lock.
    #[must_use]
    pub(crate) unsafe fn forget_timers(&self, wq: TimersHandle, count: u64) -> Option<Handle> {
        let _timers = (!without("forget_timers.lock")).then(|| lock(&self.timers));
        // SAFETY: under the lock; the rest is passed on to the caller.
        unsafe { wq.sub(count) }
    }

    /// Disarms all timers: their items go to their queues, which refuse them. Waits until what they
    /// captured is dropped, if there are workers for that before the deadline; but not for the end
    /// of a queue whose last handle is there.
    pub(crate) fn discard_timers(&self, runtime: &'static Runtime, deadline: Option<Instant>) {
        let (mut due, mut items, mut held) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let mut budget = FIRE_BATCH;
            let mut timers = lock(&self.timers);
            while let Some(timer) = timers.expire_some(Wheel::LATEST, &mut budget) {
                due.push(timer);
            }
            drop(timers);
            // SAFETY: armed timers are members of delayed items that own PENDING and are alive.
            unsafe { super::expired(self, &due, &mut items, &mut held) };
            if due.is_empty() && budget > 0 {
                break;
            }
            due.clear();
        }
        if held.is_empty() {
            return;
        }
        let errands = Errands::new();
        for held in held {
            // SAFETY: it came from `expired`.
            unsafe { held.let_go_later(runtime, Some(&errands)) };
        }
        errands.wait(deadline);
    }
}
