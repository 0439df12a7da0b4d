//! Delayed items: an item with a timer that queues it.

use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::time::Duration;

use cmwq_core::{Timer, WorkFn, WorkItem};

use crate::wq::Handle;

/// `struct delayed_work`: the item first, so that its function may be given the item's address.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct DelayedItem {
    pub(crate) item: WorkItem,
    timer: UnsafeCell<Timer>,
    /// Where to queue when the timer expires. Written and taken by the owner of PENDING.
    target: UnsafeCell<Option<Target>>,
}

#[derive(Debug)]
struct Target {
    wq: Handle,
    cpu: Option<u32>,
}

// SAFETY: `timer` is governed by the wheel's lock, `target` by ownership of PENDING.
unsafe impl Sync for DelayedItem {}
// SAFETY: as above.
unsafe impl Send for DelayedItem {}

impl DelayedItem {
    pub(crate) fn new(func: WorkFn) -> Self {
        Self {
            item: WorkItem::new(func),
            timer: UnsafeCell::new(Timer::new()),
            target: UnsafeCell::new(None),
        }
    }

    /// Queues the item on `wq` after `delay`; 0 queues at once, without the timer. `false`: it was
    /// pending.
    ///
    /// KERNEL: `queue_delayed_work_on` — same.
    ///
    /// # Safety
    /// `this` must be valid with the provenance of the object that holds it, and stay where it is
    /// until its function is entered, if the result is `true`.
    pub(crate) unsafe fn queue(
        this: NonNull<Self>,
        wq: &Handle,
        cpu: Option<u32>,
        delay: Duration,
    ) -> bool {
        let item = this.cast::<WorkItem>();
        // SAFETY: valid by the caller's promise.
        let delayed = unsafe { this.as_ref() };
        if delay.is_zero() {
            // SAFETY: passed on to the caller.
            return unsafe { wq.queue_item(cpu, item) };
        }
        let was = delayed.item.claim();
        if was.is_pending() {
            return false;
        }
        if was.disable_depth() != 0 {
            wq.release_item(&delayed.item, was);
            return false;
        }
        // SAFETY: we own PENDING, hence `target`.
        unsafe { *delayed.target.get() = Some(Target { wq: wq.clone(), cpu }) };
        let timer = Self::timer(this);
        // SAFETY: valid, not armed (we own PENDING), alive until it expires or is disarmed.
        unsafe { wq.wq().runtime.service.arm(timer, delay) };
        true
    }

    /// Takes the item back from its timer. `true`: it was armed, and is idle now.
    pub(crate) fn cancel_timer(&self, wq_hint: &crate::runtime::Runtime) -> bool {
        let timer = NonNull::from(&self.timer).cast::<Timer>();
        // SAFETY: valid; armed on the runtime's wheel if at all.
        if !unsafe { wq_hint.service.disarm(timer) } {
            return false;
        }
        // SAFETY: whoever disarms the timer owns PENDING.
        let target = unsafe { (*self.target.get()).take() };
        if let Some(target) = target {
            target.wq.release_item(&self.item, self.item.word());
        }
        true
    }

    fn timer(this: NonNull<Self>) -> NonNull<Timer> {
        // SAFETY: stays inside the object.
        unsafe { this.byte_add(offset_of!(Self, timer)).cast() }
    }
}

/// The timer of a delayed item expired: queues the item. KERNEL: `delayed_work_timer_fn` — same.
///
/// # Safety
/// `timer` must be a member of a valid [`DelayedItem`] that was armed, and was taken off the wheel
/// just now.
pub(crate) unsafe fn expired(timer: NonNull<Timer>) {
    // SAFETY: a member of a delayed item by the caller's promise.
    let this = unsafe { timer.byte_sub(offset_of!(DelayedItem, timer)).cast::<DelayedItem>() };
    // SAFETY: an expired timer's item is ours: it owns PENDING and so has `target`.
    let target = unsafe { (*this.as_ref().target.get()).take() };
    if let Some(Target { wq, cpu }) = target {
        // SAFETY: valid, and PENDING is owned.
        unsafe { wq.queue_claimed(cpu, this.cast()) };
        // The item may wait for another timer, and so for this thread.
        wq.drop_later();
    }
}
