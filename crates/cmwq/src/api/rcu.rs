//! Items that are queued when an RCU grace period is over: the kernel's `rcu_work`, made safe.
//!
//! [`source`] says when a grace period is over,
//! [`readers`](crate::engine::process::readers) knows this crate's own read-side
//! sections.
//!
//! KERNEL: `queue_rcu_work`, `flush_rcu_work` — same, with grace periods of the program's choice.

#[cfg(feature = "liburcu")]
mod liburcu;
pub(crate) mod source;

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use cmwq_core::{Closed, WorkFn, WorkItem};

use crate::api::work::{Embedded, WorkId, describe};
use crate::engine::item::flush::{self, Busy, Found, Purpose};
use crate::engine::item::queueing::By;
use crate::engine::process::readers::{self, RcuReadGuard};
use crate::engine::process::{self, watch_forks};
use crate::engine::queue::handle::Handle;
use crate::engine::runtime::Runtime;
use crate::engine::runtime::claiming::{Claimed, claim};
use crate::engine::wq::Queueing;
use crate::os::generation;
use crate::os::notice::{self, Notice};
use crate::os::panic::guarded;
use crate::os::sync::Arc;
use crate::os::sync::plain::{AtomicPtr, Ordering};

pub(crate) use crate::engine::process::readers::synchronize;
pub use source::{GracePeriods, RcuFunc, RcuHead, set_grace_periods};

/// An item whose function runs after an RCU grace period: not before every read-side section that
/// was in progress when it was queued has ended. For taking down, in a context that may block, what
/// readers may still be looking at.
///
/// It is *pending* from the moment it is queued, through the grace period, until its function is
/// entered. It cannot be cancelled, disabled or delayed. Clones are the same item.
///
/// If the item is refused (its queue is drained, closed or shut down), a worker drops what the
/// closure captured. After [`shutdown`](crate::shutdown) there are no workers: the thread that ends
/// the last read-side section drops it, so its `Drop` must not wait for another `RcuWork`.
///
/// Which sections are waited for: those of [`rcu_read_lock`](crate::rcu_read_lock), always, and
/// those that the program's [source of grace periods](set_grace_periods) knows.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let wq = cmwq::Workqueue::new("reclaim")?;
/// let freed = Arc::new(AtomicBool::new(false));
/// let free = cmwq::RcuWork::new({
///     let freed = Arc::clone(&freed);
///     move || freed.store(true, Ordering::Relaxed)
/// });
/// let reader = cmwq::rcu_read_lock();
/// assert!(wq.queue_rcu_work(&free));
/// assert!(free.is_pending(), "a reader is inside");
/// assert!(!wq.queue_rcu_work(&free), "pending already");
/// drop(reader);
/// free.flush();
/// assert!(freed.load(Ordering::Relaxed));
/// # Ok::<(), cmwq::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "rcu_work")]
pub struct RcuWork(Arc<Embedded<RcuItem>>);

/// Begins a read-side section: no [`RcuWork`](crate::RcuWork) that is queued before the returned
/// guard is dropped runs before that. Sections nest. Never waits, but for a lock that is
/// held for some nanoseconds by whoever enters or leaves; the end of a section may queue
/// the items that waited for it. A guard that is never dropped makes all later `RcuWork` wait for
/// ever.
///
/// KERNEL: `rcu_read_lock`, `rcu_read_unlock` — differs: a lock instead of nothing at all, and a
/// section may block.
///
/// ```
/// let section = cmwq::rcu_read_lock();
/// // What is unlinked from now on is still there.
/// drop(section);
/// ```
#[doc(alias = "rcu_read_unlock")]
pub fn rcu_read_lock() -> RcuReadGuard {
    // A child waits for no reader of its parent's, also of one that has used nothing else.
    watch_forks();
    readers::enter()
}

/// `struct rcu_work`: the item first, so that its function may be given the item's address.
#[repr(C)]
pub(crate) struct RcuItem {
    item: WorkItem,
    /// The source's, during a grace period.
    head: UnsafeCell<RcuHead>,
    /// Where it goes afterwards, and what keeps that queue in being: a handle, from the begin of a
    /// grace period to its end. Of the owner of PENDING; in a child others see whether it is there.
    wq: AtomicPtr<()>,
    /// What to do, if anything, with an item whose queue refuses it then.
    refused: Option<Refused>,
}

// As in the C header.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
const _: () = {
    assert!(size_of::<RcuItem>() == 64);
    assert!(offset_of!(RcuItem, head) == 32);
    assert!(offset_of!(RcuItem, wq) == 48);
    assert!(offset_of!(RcuItem, refused) == 56);
};

impl fmt::Debug for RcuItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RcuItem").field(&self.item.word()).finish()
    }
}

/// Lets go of an item that will not run. Called once, with PENDING given up.
type Refused = unsafe fn(NonNull<RcuItem>, Closed);

// SAFETY: `head` and `wq` are governed by ownership of PENDING, which goes through the grace period
// to whoever ends it.
unsafe impl Sync for RcuItem {}
// SAFETY: as above.
unsafe impl Send for RcuItem {}

impl RcuItem {
    /// An item that nothing holds for the time until its run.
    pub(crate) fn uncounted(func: WorkFn) -> Self {
        Self::with(func, None)
    }

    fn with(func: WorkFn, refused: Option<Refused>) -> Self {
        Self {
            item: WorkItem::new(func),
            head: UnsafeCell::new(RcuHead::new()),
            wq: AtomicPtr::new(ptr::null_mut()),
            refused,
        }
    }

    /// Queues the item on `wq` after a grace period. Never `Refused`: whether the queue lets it in
    /// is seen when the grace period is over.
    ///
    /// # Safety
    /// `this` must be valid with the provenance of the object that holds it, and stay where it is
    /// until its function is entered, if the result is `Queued`.
    pub(crate) unsafe fn queue(this: NonNull<Self>, wq: &Handle) -> Queueing {
        // SAFETY: valid by the caller's promise.
        let rcu = unsafe { this.as_ref() };
        if rcu.is_left_to_source(wq) || claim(&rcu.item, || wq.runtime) == Claimed::Not {
            return Queueing::Not;
        }
        let word = rcu.item.word();
        if word.disable_depth() != 0 {
            rcu.item.release(word);
            notice::once(Notice::RcuDisabled, || {
                "an rcu_work that was disabled is not queued: it cannot be disabled or cancelled"
                    .to_owned()
            });
            return Queueing::Not;
        }
        // Of a grace period that began before a fork.
        rcu.swap_wq(Some(wq.clone())).into_iter().for_each(Handle::drop_later);
        // SAFETY: PENDING is ours; the rest is passed on to the caller.
        unsafe { source::call(this) };
        Queueing::Queued
    }

    /// Whether the program's source may have the head, since before this process was forked: an
    /// item in a grace period is claimed only when the source has given it back.
    fn is_left_to_source(&self, wq: &Handle) -> bool {
        if !generation::is_child() {
            return false;
        }
        let word = self.item.word();
        // ORDERING: no pairing: it is as the fork left it, unless another thread has claimed the
        // item, and then this one does not.
        let is_in_grace_period = !self.wq.load(Ordering::Relaxed).is_null();
        is_in_grace_period && wq.runtime.is_inherited(word) && source::given().is_some()
    }

    /// By the owner of PENDING.
    fn swap_wq(&self, wq: Option<Handle>) -> Option<Handle> {
        let new = wq.map_or(ptr::null_mut(), |wq| wq.into_raw().as_ptr());
        // ORDERING: no pairing: PENDING is handed on with orderings of its own.
        let old = NonNull::new(self.wq.swap(new, Ordering::Relaxed));
        // SAFETY: from `into_raw`, and taken out once.
        old.map(|old| unsafe { Handle::from_raw(old) })
    }

    /// The grace period is over: queues the item, but for one that the parent of this forked
    /// process had queued, and whose source goes on here. KERNEL: `rcu_work_rcufn` — same.
    ///
    /// # Safety
    /// As for [`queue`](Self::queue), by the owner of PENDING.
    unsafe fn go(this: NonNull<()>) {
        let this = this.cast::<Self>();
        // SAFETY: valid until it is queued or let go of.
        let rcu = unsafe { this.as_ref() };
        let refused = rcu.refused;
        let wq = rcu.swap_wq(None).expect("an item in a grace period leads somewhere");
        let queueing = if process::is_pending(&rcu.item) {
            // SAFETY: valid, and PENDING is owned.
            unsafe { wq.queue_claimed(By::Caller, None, this.cast()) }
        } else {
            rcu.item.release(rcu.item.word());
            // No queue has refused it.
            Queueing::Refused(Closed::NOT)
        };
        if let (Queueing::Refused(why), Some(refused)) = (queueing, refused) {
            // SAFETY: it will not run on behalf of this grace period.
            unsafe { wq.runtime.let_go_later(this, refused, why, None) };
        }
        // Whoever ended the grace period has more to do than to wait for the queue's end, or for
        // whatever the drop of what the item captured waits for.
        wq.drop_later();
    }

    fn head(this: NonNull<Self>) -> NonNull<RcuHead> {
        // SAFETY: stays inside the object.
        unsafe { this.byte_add(offset_of!(Self, head)).cast() }
    }

    /// # Safety
    /// `head` must come from [`head`](Self::head).
    unsafe fn of_head(head: NonNull<RcuHead>) -> NonNull<Self> {
        // SAFETY: the caller's promise.
        unsafe { head.byte_sub(offset_of!(Self, head)).cast() }
    }
}

/// The queue refused the item when the grace period was over.
///
/// # Safety
/// As [`Refused`] says.
unsafe fn refused(item: NonNull<RcuItem>, _: Closed) {
    let lent = item.cast::<Embedded<RcuItem>>();
    // SAFETY: it was queued with one strong reference, which nobody else takes over.
    guarded(|| unsafe { Embedded::take_back(lent) });
}

/// KERNEL: `flush_rcu_work` — as [`RcuWork::flush`] says.
pub(crate) fn flush_rcu(runtime: &'static Runtime, item: &WorkItem) -> bool {
    if !process::is_pending(item) {
        return flush::flush_item(runtime, item, Purpose::Flush);
    }
    if readers::says_waits_for_itself() {
        return false;
    }
    // The thread that queues it may not have told the source yet.
    flush::flush_until_done(runtime, item, source::barrier) != Found::Itself
}

impl RcuWork {
    /// An idle item. Panics of `func` go to the [panic handler](crate::set_panic_handler).
    #[must_use]
    #[doc(alias = "INIT_RCU_WORK")]
    pub fn new(func: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Embedded::make(|run| RcuItem::with(run, Some(refused)), func))
    }

    fn item(&self) -> &WorkItem {
        &self.0.item.item
    }

    /// Whether its grace period has not ended, or it is queued and its function not yet entered.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        process::is_pending(self.item())
    }

    /// If it is pending, waits for the grace period and for the run, and returns `true`; also if
    /// another thread is just about to queue it. Else waits for a run in progress; `false`: there
    /// was nothing to wait for.
    ///
    /// Called from a work function it counts as blocking at once. Called inside of
    /// [`rcu_read_lock`](crate::rcu_read_lock), or from the item's own function, it would wait for
    /// itself: that is reported, and `false` returned. Inside of another read-side section it never
    /// returns.
    ///
    /// KERNEL: `flush_rcu_work` — same, but that a wait for oneself is reported and not begun.
    #[doc(alias = "flush_rcu_work")]
    pub fn flush(&self) -> bool {
        Runtime::existing().is_some_and(|runtime| flush_rcu(runtime, self.item()))
    }

    /// Whether it is pending and whether it is running, as of now.
    ///
    /// KERNEL: `work_busy` — same: it looks only where the item was last queued.
    #[must_use]
    pub fn busy(&self) -> Busy {
        let busy = |runtime| flush::busy(runtime, self.item());
        Runtime::existing().map(busy).unwrap_or_default()
    }

    /// To compare with [`current_work`](crate::current_work).
    #[must_use]
    pub fn id(&self) -> WorkId {
        WorkId::of(self.item())
    }

    pub(crate) fn queue_on(&self, wq: &Handle) -> bool {
        let lent = Embedded::lend(&self.0);
        // SAFETY: valid; the lent reference keeps it until its run.
        unsafe { Embedded::keep_or_take_back(lent, RcuItem::queue(lent.cast(), wq)) }
    }
}

impl fmt::Debug for RcuWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "RcuWork", self.item())
    }
}
