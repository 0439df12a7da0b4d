//! Reusable work items with pending-once semantics: the kernel's `work_struct` and `delayed_work`,
//! made safe.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::time::Duration;

use cmwq_core::WorkItem;

use crate::current;
use crate::delayed::DelayedItem;
use crate::panic;
use crate::runtime::Runtime;
use crate::sync::Arc;
use crate::worker::guarded;
use crate::wq::{self, Handle};

/// An item that can be queued again and again, without an allocation each time.
///
/// It is *pending* from the moment it is queued until its function is entered. Queueing a pending
/// item does nothing and says so; queueing one whose function is running makes it run once more
/// afterwards. Its function never runs twice at once, as long as it is queued on one queue.
///
/// Clones are the same item. What was written before [`queue_work`](crate::Workqueue::queue_work)
/// returned `true`, or `false` because it was pending, is visible to the run that follows.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let wq = cmwq::Workqueue::new("doc")?;
/// let count = Arc::new(AtomicU32::new(0));
/// let work = cmwq::Work::new({
///     let count = Arc::clone(&count);
///     move || { count.fetch_add(1, Ordering::Relaxed); }
/// });
/// assert!(wq.queue_work(&work), "this call queued it");
/// work.flush();
/// assert_eq!(count.load(Ordering::Relaxed), 1);
/// # Ok::<(), cmwq::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "work_struct")]
pub struct Work(Arc<Embedded<WorkItem>>);

/// An item with a timer. See [`Work`]; it is pending also while only its timer is armed.
#[derive(Clone)]
#[doc(alias = "delayed_work")]
pub struct DelayedWork(Arc<Embedded<DelayedItem>>);

/// `I` is a `WorkItem` or a `DelayedItem`; either begins with the work item.
#[repr(C)]
struct Embedded<I> {
    item: I,
    func: Box<dyn Fn() + Send + Sync>,
}

unsafe extern "C" fn run<I>(item: *mut WorkItem) {
    // SAFETY: queued with one strong reference, which this run takes over, through the pointer to
    // the whole.
    let work = unsafe { Arc::from_raw(item.cast_const().cast::<Embedded<I>>()) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(&work.func)) {
        guarded(move || panic::handle(&*payload));
    }
    // If it is the last reference, the user's closure is dropped here and must not unwind either.
    guarded(|| drop(work));
}

impl<I> Embedded<I> {
    /// A pointer with one strong reference for the run.
    fn lend(this: &Arc<Self>) -> NonNull<Self> {
        let raw = Arc::into_raw(Arc::clone(this)).cast_mut();
        // SAFETY: an `Arc` is not null.
        unsafe { NonNull::new_unchecked(raw) }
    }

    /// Takes back what `lend` gave.
    ///
    /// # Safety
    /// `raw` must come from `lend`, and no run may take it over.
    unsafe fn take_back(raw: NonNull<Self>) {
        // SAFETY: the caller's promise.
        drop(unsafe { Arc::from_raw(raw.as_ptr()) });
    }
}

fn runtime() -> Option<&'static Runtime> {
    Runtime::global().ok()
}

impl Work {
    /// An idle item. Panics of `func` go to the [panic handler](crate::set_panic_handler).
    #[must_use]
    #[doc(alias = "INIT_WORK")]
    pub fn new(func: impl Fn() + Send + Sync + 'static) -> Self {
        let item = WorkItem::new(run::<WorkItem>);
        Self(Arc::new(Embedded { item, func: Box::new(func) }))
    }

    /// Whether it is queued and its function not yet entered.
    #[must_use]
    #[doc(alias = "work_pending")]
    pub fn is_pending(&self) -> bool {
        self.0.item.is_pending()
    }

    /// Waits until the last queueing has finished; `false`: there was nothing to wait for.
    ///
    /// Called from a work function it counts as blocking at once. From the item's own function it
    /// would wait for itself: don't.
    #[doc(alias = "flush_work")]
    pub fn flush(&self) -> bool {
        runtime().is_some_and(|runtime| wq::flush_item(runtime, &self.0.item))
    }

    /// Takes it off its queue: `true`, it was pending and will not run. Does not wait for a run in
    /// progress.
    #[doc(alias = "cancel_work")]
    pub fn cancel(&self) -> bool {
        let cancelled = runtime().is_some_and(|runtime| wq::cancel_item(runtime, &self.0.item));
        if cancelled {
            // SAFETY: the item is off its queue, so the reference lent for its run is ours.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.0)) };
        }
        cancelled
    }

    pub(crate) fn queue_on(&self, wq: &Handle, cpu: Option<u32>) -> bool {
        if self.is_pending() {
            // Owning no reference for a run that is not ours is cheaper; the claim makes our stores
            // visible.
            if self.0.item.claim().is_pending() {
                return false;
            }
            let lent = Embedded::lend(&self.0);
            // SAFETY: valid; PENDING was won just now; the lent reference keeps it until its run.
            unsafe { wq.queue_claimed(cpu, lent.cast()) };
            return true;
        }
        let lent = Embedded::lend(&self.0);
        // SAFETY: valid; the lent reference keeps it until its run.
        let queued = unsafe { wq.queue_item(cpu, lent.cast()) };
        if !queued {
            // SAFETY: not queued by this call, so no run takes this reference over.
            unsafe { Embedded::take_back(lent) };
        }
        queued
    }
}

impl DelayedWork {
    /// An idle item.
    #[must_use]
    #[doc(alias = "INIT_DELAYED_WORK")]
    pub fn new(func: impl Fn() + Send + Sync + 'static) -> Self {
        let item = DelayedItem::new(run::<DelayedItem>);
        Self(Arc::new(Embedded { item, func: Box::new(func) }))
    }

    /// Whether its timer is armed, or it is queued and its function not yet entered.
    #[must_use]
    #[doc(alias = "delayed_work_pending")]
    pub fn is_pending(&self) -> bool {
        self.0.item.item.is_pending()
    }

    /// Waits until the last queueing has finished; an armed timer is not waited for.
    #[doc(alias = "flush_work")]
    pub fn flush(&self) -> bool {
        runtime().is_some_and(|runtime| wq::flush_item(runtime, &self.0.item.item))
    }

    /// Disarms its timer or takes it off its queue: `true`, it was pending and will not run.
    #[doc(alias = "cancel_delayed_work")]
    pub fn cancel(&self) -> bool {
        let Some(runtime) = runtime() else { return false };
        let cancelled =
            self.0.item.cancel_timer(runtime) || wq::cancel_item(runtime, &self.0.item.item);
        if cancelled {
            // SAFETY: neither armed nor queued any more, so the reference lent for its run is ours.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.0)) };
        }
        cancelled
    }

    pub(crate) fn queue_on(&self, wq: &Handle, cpu: Option<u32>, delay: Duration) -> bool {
        let lent = Embedded::lend(&self.0);
        // SAFETY: valid; the lent reference keeps it until its run.
        let queued = unsafe { DelayedItem::queue(lent.cast(), wq, cpu, delay) };
        if !queued {
            // SAFETY: not queued by this call, so no run takes this reference over.
            unsafe { Embedded::take_back(lent) };
        }
        queued
    }
}

/// Identifies an item; see [`current_work`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WorkId(usize);

/// The item that the calling thread is running, if it is a worker running one. KERNEL:
/// `current_work` — same.
///
/// ```
/// let wq = cmwq::Workqueue::new("doc")?;
/// assert_eq!(cmwq::current_work(), None);
/// assert!(wq.queue(|| cmwq::current_work().is_some()).join().unwrap());
/// # Ok::<(), cmwq::Error>(())
/// ```
#[must_use]
pub fn current_work() -> Option<WorkId> {
    current::current_item().map(|item| WorkId(item.addr()))
}

impl Work {
    /// To compare with [`current_work`].
    #[must_use]
    pub fn id(&self) -> WorkId {
        WorkId(std::ptr::from_ref(&self.0.item).addr())
    }
}

impl DelayedWork {
    /// To compare with [`current_work`].
    #[must_use]
    pub fn id(&self) -> WorkId {
        WorkId(std::ptr::from_ref(&self.0.item.item).addr())
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.0.item.word()).finish()
    }
}

impl fmt::Debug for DelayedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DelayedWork").field(&self.0.item.item.word()).finish()
    }
}
