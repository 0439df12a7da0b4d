//! Delayed items: an item with a timer that queues it.

use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::time::Duration;

use cmwq_core::delayed::{Destination, going_together};
use cmwq_core::{Closed, Timer, WorkFn, WorkItem};

use crate::engine::item::queueing::By;
use crate::engine::queue::handle::{Handle, TimersHandle};
use crate::engine::queue::reaper::Errands;
use crate::engine::runtime::Runtime;
use crate::engine::runtime::claiming::{Claimed, claim};
use crate::engine::service::Service;
use crate::engine::wq::{Queueing, Wq};

mod arming;

/// `struct delayed_work`: the item first, so that its function may be given the item's address.
///
/// The layout is that of the C header, in which `timer`, `expires` and `refused` are members of the
/// structure's `timer`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct DelayedItem {
    pub(crate) item: WorkItem,
    timer: UnsafeCell<Timer>,
    /// When it expires, in jiffies: for readers in C. Written by the owner of PENDING.
    expires: UnsafeCell<u64>,
    /// What to do, if anything, with an item whose queue refuses it when its timer expires.
    refused: Option<Refused>,
    /// Where to queue when the timer expires. Written by the owner of PENDING before he arms the
    /// timer, read by the one after.
    route: UnsafeCell<Route>,
}

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
const _: () = {
    assert!(size_of::<DelayedItem>() == 96);
    assert!(offset_of!(DelayedItem, timer) == 32);
    assert!(offset_of!(DelayedItem, expires) == 64);
    assert!(offset_of!(DelayedItem, refused) == 72);
    assert!(offset_of!(DelayedItem, route) == 80);
    assert!(offset_of!(Route, wq) == 0 && offset_of!(Route, cpu) == 8);
};

/// Lets go of an item that will not run, and is told [why](Queueing::Refused). Called once, with
/// PENDING given up, by any thread. It does not unwind.
pub(crate) type Refused = unsafe fn(NonNull<DelayedItem>, Closed);

/// Where a delayed item is going whose timer was taken, and is counted until it has
/// [gone](DelayedItem::go): a queue that waits for its timers waits for it, too.
#[must_use]
#[derive(Debug)]
pub(crate) struct Target {
    wq: TimersHandle,
    cpu: Option<u32>,
}

/// As a [`Target`], while the timer is armed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    wq: Option<TimersHandle>,
    cpu: u32,
}

/// The CPU of a route that leaves it open. KERNEL: `WORK_CPU_UNBOUND`, which is `NR_CPUS` — same.
pub(crate) const CPU_UNBOUND: u32 = 8192;

impl Route {
    /// Of an item that was never armed.
    const NOWHERE: Self = Self { wq: None, cpu: 0 };

    fn parts(self) -> (TimersHandle, Option<u32>) {
        let wq = self.wq.expect("an armed timer leads somewhere");
        (wq, (self.cpu != CPU_UNBOUND).then_some(self.cpu))
    }
}

// SAFETY: `timer` is governed by the wheel's lock, `route` by ownership of PENDING.
unsafe impl Sync for DelayedItem {}
// SAFETY: as above.
unsafe impl Send for DelayedItem {}

impl DelayedItem {
    pub(crate) const TIMER_OFFSET: usize = offset_of!(Self, timer);

    pub(crate) fn new(func: WorkFn, refused: Refused) -> Self {
        Self::with_timer(Timer::new(), func, Some(refused))
    }

    /// Its timer never wakes an idle process.
    pub(crate) fn deferrable(func: WorkFn, refused: Refused) -> Self {
        Self::with_timer(Timer::deferrable(), func, Some(refused))
    }

    /// An item that nothing holds for the time until its run.
    pub(crate) fn uncounted(func: WorkFn, is_deferrable: bool) -> Self {
        let timer = if is_deferrable { Timer::deferrable() } else { Timer::new() };
        Self::with_timer(timer, func, None)
    }

    fn with_timer(timer: Timer, func: WorkFn, refused: Option<Refused>) -> Self {
        Self {
            item: WorkItem::new(func),
            timer: UnsafeCell::new(timer),
            expires: UnsafeCell::new(0),
            refused,
            route: UnsafeCell::new(Route::NOWHERE),
        }
    }

    /// Queues the item on `wq` after `delay`; 0 queues at once, without the timer. It is a part of
    /// its caller: a call would be a tenth of what arming costs.
    ///
    /// KERNEL: `queue_delayed_work_on` — same.
    ///
    /// # Safety
    /// `this` must be valid with the provenance of the object that holds it, and stay where it is
    /// until its function is entered, if the result is `Queued`.
    #[inline(always)]
    pub(crate) unsafe fn queue(
        this: NonNull<Self>,
        wq: &Handle,
        cpu: Option<u32>,
        delay: Duration,
    ) -> Queueing {
        let item = this.cast::<WorkItem>();
        // SAFETY: valid by the caller's promise.
        let delayed = unsafe { this.as_ref() };
        // As `is_zero`, by one comparison.
        if delay.as_secs() | u64::from(delay.subsec_nanos()) == 0 {
            // SAFETY: passed on to the caller.
            return unsafe { wq.queue_item(cpu, item) };
        }
        if claim(&delayed.item, || wq.runtime) == Claimed::Not {
            return Queueing::Not;
        }
        // SAFETY: PENDING is ours now; the rest is passed on to the caller.
        unsafe { Self::arm_won(this, wq, cpu, delay) }
    }

    /// As [`queue`](Self::queue), for whoever owns PENDING.
    ///
    /// KERNEL: `__queue_delayed_work`, after `clear_pending_if_disabled` — same.
    ///
    /// # Safety
    /// As for [`queue`](Self::queue).
    #[inline(always)]
    pub(crate) unsafe fn queue_unless_disabled(
        this: NonNull<Self>,
        wq: &Handle,
        cpu: Option<u32>,
        delay: Duration,
    ) -> Queueing {
        if delay.is_zero() {
            // SAFETY: passed on to the caller.
            return unsafe { wq.queue_unless_disabled(cpu, this.cast()) };
        }
        // SAFETY: passed on to the caller.
        unsafe { Self::arm_won(this, wq, cpu, delay) }
    }

    /// As [`queue_unless_disabled`](Self::queue_unless_disabled), where there is a delay.
    ///
    /// # Safety
    /// As for [`queue`](Self::queue).
    #[inline(always)]
    unsafe fn arm_won(
        this: NonNull<Self>,
        wq: &Handle,
        cpu: Option<u32>,
        delay: Duration,
    ) -> Queueing {
        // SAFETY: valid by the caller's promise.
        let delayed = unsafe { this.as_ref() };
        let (handle, wq): (_, &Wq) = (wq.for_timer(), wq);
        if delayed.item.word().is_disabled() {
            // SAFETY: passed on to the caller.
            return unsafe { wq.queue_unless_disabled(cpu, this.cast()) };
        }
        let route = Route { wq: Some(handle), cpu: cpu.unwrap_or(CPU_UNBOUND) };
        // SAFETY: we own PENDING, hence `route`.
        unsafe { *delayed.route.get() = route };
        let timer = Self::timer(this);
        // SAFETY: valid, not armed (we own PENDING), alive until it expires or is disarmed.
        if unsafe { wq.runtime.service.arm(timer, delay, handle, wq) } {
            Queueing::Queued
        } else {
            Queueing::Refused(wq.refuse(&delayed.item))
        }
    }

    /// In a forked child, for an item that was taken over from the parent: its timer, which the
    /// parent may have armed, looks unarmed, in C, too. Arming does not need that.
    #[cold]
    pub(crate) fn leave_parents_timer(&self, runtime: &Runtime) {
        // SAFETY: valid.
        unsafe { runtime.service.forget_foreign(self.own_timer()) };
    }

    /// Records, for readers in C, when the timer will expire.
    ///
    /// # Safety
    /// Caller owns PENDING.
    pub(crate) unsafe fn record_expires(&self, jiffies: u64) {
        // SAFETY: the caller's promise.
        unsafe { *self.expires.get() = jiffies };
    }

    /// Takes the item back from its timer, if that is armed: the caller owns PENDING then.
    pub(crate) fn take_timer(&self, runtime: &Runtime) -> Option<Target> {
        let target = || {
            let (wq, cpu) = self.route().parts();
            Target { wq, cpu }
        };
        // SAFETY: valid; armed on the runtime's wheel if at all.
        unsafe { runtime.service.disarm(self.own_timer(), target) }
    }

    /// As [`take_timer`](Self::take_timer), for an item that is not going to that queue.
    #[inline(always)]
    pub(crate) fn cancel_timer(&self, runtime: &Runtime) -> bool {
        // SAFETY: under the lock, and counted until now.
        let last = || unsafe { self.route().parts().0.sub(1) };
        // SAFETY: valid; armed on the runtime's wheel if at all.
        let Some(last) = (unsafe { runtime.service.disarm(self.own_timer(), last) }) else {
            return false;
        };
        // It may be the queue's last handle, and this the item that its end would wait for.
        last.into_iter().for_each(Handle::drop_later);
        true
    }

    /// Of a timer that the caller has just taken off the wheel, and with it PENDING.
    fn route(&self) -> Route {
        // SAFETY: whoever took the timer off owns PENDING.
        unsafe { *self.route.get() }
    }

    fn own_timer(&self) -> NonNull<Timer> {
        NonNull::from(&self.timer).cast()
    }

    /// Its time has come: queues the item where it was to go. The queue may be draining by now.
    ///
    /// # Safety
    /// As for [`queue`](Self::queue), by the owner of PENDING.
    pub(crate) unsafe fn go(this: NonNull<Self>, target: Target) {
        let Target { wq: handle, cpu } = target;
        // SAFETY: the timer is still counted, until the end of this function.
        let wq = unsafe { handle.wq() };
        let service = &wq.runtime.service;
        // SAFETY: valid until it is queued.
        let refused = unsafe { this.as_ref() }.refused;
        // SAFETY: valid, and PENDING is owned.
        let queueing = unsafe { wq.queue_claimed(By::Timer, cpu, this.cast()) };
        if let (Queueing::Refused(why), Some(refused)) = (queueing, refused) {
            // SAFETY: it will not run on behalf of this timer.
            unsafe { refused(this, why) };
        }
        // SAFETY: it was counted.
        let last = unsafe { service.forget_timers(handle, 1) };
        // It may be the queue's last handle, and the caller one of its items.
        last.into_iter().for_each(Handle::drop_later);
    }

    fn timer(this: NonNull<Self>) -> NonNull<Timer> {
        // SAFETY: stays inside the object.
        unsafe { this.byte_add(offset_of!(Self, timer)).cast() }
    }
}

/// An item that its queue has refused when its timer expired.
pub(crate) struct Held {
    item: NonNull<DelayedItem>,
    let_go: Refused,
    why: Closed,
}

impl Held {
    /// Drops what is the user's, by no matter which thread. `errands` are over when that is done.
    ///
    /// # Safety
    /// The item must have come from [`expired`].
    pub(crate) unsafe fn let_go_later(self, runtime: &'static Runtime, errands: Option<&Errands>) {
        let Self { item, let_go, why } = self;
        // SAFETY: each item comes once, with what lets go of it.
        unsafe { runtime.let_go_later(item, let_go, why, errands) };
    }
}

/// Timers of delayed items expired: queues the items, in this order. KERNEL:
/// `delayed_work_timer_fn` — same, for several at once.
///
/// `items` is only scratch space. To `held` come those that their queues refuse and somebody holds.
/// The caller [lets go](Held::let_go_later) of them when nothing is left between the wheel and a
/// queue, on no matter which one: what they captured may cancel it, and would wait for the caller.
///
/// # Safety
/// Each timer must be a member of a valid [`DelayedItem`] that was armed, and was taken off the
/// service's wheel just now.
pub(crate) unsafe fn expired(
    service: &Service,
    timers: &[NonNull<Timer>],
    items: &mut Vec<NonNull<WorkItem>>,
    held: &mut Vec<Held>,
) {
    let item_of = |timer: &NonNull<Timer>| {
        // SAFETY: a member of a delayed item by the caller's promise.
        unsafe { timer.byte_sub(offset_of!(DelayedItem, timer)).cast::<DelayedItem>() }
    };
    let goes = |timer: &NonNull<Timer>| {
        // SAFETY: valid until it is queued; an expired timer's item is ours.
        let delayed = unsafe { item_of(timer).as_ref() };
        let (queue, cpu) = delayed.route().parts();
        // Of a refused item that nothing holds nothing may be read any more.
        Destination { queue, cpu, is_held: delayed.refused.is_some() }
    };
    for run in going_together(timers, goes) {
        let Destination { queue: wq, cpu, is_held } = goes(&run[0]);
        items.clear();
        items.extend(run.iter().map(|timer| item_of(timer).cast::<WorkItem>()));
        let refused = |item: NonNull<WorkItem>, why: Closed| {
            if is_held {
                let this = item.cast::<DelayedItem>();
                // SAFETY: it will not run on behalf of this timer, and is valid until it is let go.
                let refused = unsafe { this.as_ref() }.refused;
                held.extend(refused.map(|let_go| Held { item: this, let_go, why }));
            }
        };
        // SAFETY: the timers are still counted; the items are valid, and PENDING is owned.
        unsafe { wq.wq().queue_expired(cpu, items, refused) };
        // SAFETY: so many were counted.
        let last = unsafe { service.forget_timers(wq, run.len() as u64) };
        // The item may wait for another timer, and so for this thread.
        last.into_iter().for_each(Handle::drop_later);
    }
}
