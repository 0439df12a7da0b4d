//! Reusable work items with pending-once semantics: the kernel's `work_struct` and `delayed_work`,
//! made safe.

use std::fmt;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::time::Duration;

use cmwq_core::{Closed, WorkFn, WorkItem};

use crate::api::closure::Origin;
use crate::api::unstarted;
use crate::engine::item::delayed::DelayedItem;
use crate::engine::item::flush::{self, Busy};
use crate::engine::item::grab::{self, Enabled, Target};
use crate::engine::process;
use crate::engine::queue::handle::Handle;
use crate::engine::runtime::Runtime;
use crate::engine::threads::current;
use crate::engine::wq::Queueing;
use crate::os::generation;
use crate::os::panic;
use crate::os::panic::{drop_guarded_in_line, guarded};
use crate::os::sync::{Arc, Weak};
use crate::record::symbol::{self, closures};

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

/// A [`Work`] that this does not keep alive: for functions that know their own item; see
/// [`Work::new_cyclic`].
#[derive(Clone)]
pub struct WeakWork(Weak<Embedded<WorkItem>>);

impl WeakWork {
    /// The item. `None`: it was dropped; an item that is pending or running was not.
    #[must_use]
    pub fn upgrade(&self) -> Option<Work> {
        self.0.upgrade().map(Work)
    }
}

/// A [`DelayedWork`] that this does not keep alive; see [`Work::new_cyclic`].
#[derive(Clone)]
pub struct WeakDelayedWork(Weak<Embedded<DelayedItem>>);

impl WeakDelayedWork {
    /// The item. `None`: it was dropped; an item that is pending or running was not.
    #[must_use]
    pub fn upgrade(&self) -> Option<DelayedWork> {
        self.0.upgrade().map(DelayedWork)
    }
}

/// `I` is a `WorkItem`, a `DelayedItem` or an `RcuItem`; each begins with the work item.
#[repr(C)]
pub(crate) struct Embedded<I> {
    pub(crate) item: I,
    func: Box<dyn Fn() + Send + Sync>,
}

// What the function panics in, the library catches: nobody sees it half done by way of the item.
impl<I> UnwindSafe for Embedded<I> {}
impl<I> RefUnwindSafe for Embedded<I> {}

/// The function of an item whose closure is an `F`: each has its own, by which it is known to
/// whoever looks on, under the name of `N`: the closure, or the one inside of it that the user has
/// written.
///
/// # Safety
/// `item` must come from [`Embedded::lend`], whose reference this run takes over, of one made by
/// [`Embedded::make`] with an `F`.
unsafe extern "C" fn run<N, I, F: Fn() + Send + Sync + 'static>(item: *mut WorkItem) {
    closures::tell!(run::<N, I, F>, N);
    // SAFETY: queued with one strong reference, which this run takes over, through the pointer to
    // the whole.
    let work = unsafe { Arc::from_raw(item.cast_const().cast::<Embedded<I>>()) };
    // SAFETY: by the caller's promise it is an `F`.
    let func = unsafe { &*(&raw const *work.func).cast::<F>() };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(func)) {
        guarded(move || panic::handle(&*payload, || Origin::Here.describe()));
    }
    // If it is the last reference, the user's closure is dropped here and must not unwind either.
    // In its place, since the memory is kept until user code is through with: an item of the same
    // function that is made there would be taken for this one, and wait for its end.
    drop_guarded_in_line(work);
}

impl<I> Embedded<I> {
    /// An idle item, which `item` makes with the function it is given, and its closure.
    pub(crate) fn make<F>(item: impl FnOnce(WorkFn) -> I, func: F) -> Arc<Self>
    where
        F: Fn() + Send + Sync + 'static,
    {
        Arc::new(Self { item: item(run::<F, I, F>), func: Box::new(func) })
    }

    /// As [`make`](Self::make), with a closure that knows the item, under the name of `N`.
    fn make_cyclic<N, F>(
        item: impl FnOnce(WorkFn) -> I,
        func: impl FnOnce(&Weak<Self>) -> F,
    ) -> Arc<Self>
    where
        F: Fn() + Send + Sync + 'static,
    {
        Arc::new_cyclic(|me| Self { item: item(run::<N, I, F>), func: Box::new(func(me)) })
    }

    /// A pointer with one strong reference for the run.
    pub(crate) fn lend(this: &Arc<Self>) -> NonNull<Self> {
        let raw = Arc::into_raw(Arc::clone(this)).cast_mut();
        // SAFETY: an `Arc` is not null.
        unsafe { NonNull::new_unchecked(raw) }
    }

    /// The item, without a reference of its own, but as good as one: with the provenance of all
    /// that the `Arc` holds, since the engine hands on what it is given to the run, which frees it.
    fn pointer(this: &Arc<Self>) -> NonNull<Self> {
        // SAFETY: an `Arc` is not null.
        unsafe { NonNull::new_unchecked(Arc::as_ptr(this).cast_mut()) }
    }

    /// Takes back what `lend` gave.
    ///
    /// # Safety
    /// `raw` must come from `lend`, and no run may take it over.
    pub(crate) unsafe fn take_back(raw: NonNull<Self>) {
        // SAFETY: the caller's promise.
        drop(unsafe { Arc::from_raw(raw.as_ptr()) });
    }
}

impl<I> Embedded<I> {
    /// Lets go of the reference lent for a run that will not happen.
    fn forget_run(this: &Arc<Self>, was_pending: bool) -> bool {
        if was_pending {
            // SAFETY: whoever took the item from its queue or timer owns what was lent for its run.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(this)) };
        }
        was_pending
    }

    fn forget_enabled(this: &Arc<Self>, enabled: Enabled) -> bool {
        Self::forget_run(this, enabled.was_pending);
        enabled.is_enabled
    }

    /// Whether queueing was done by this call, or is dropped as the kernel drops it; takes back
    /// what was lent if there will be no run.
    ///
    /// # Safety
    /// `lent` must come from [`lend`](Self::lend) and have been offered for the queueing.
    pub(crate) unsafe fn keep_or_take_back(lent: NonNull<Self>, queueing: Queueing) -> bool {
        if queueing != Queueing::Queued {
            // SAFETY: not queued by this call, so no run takes this reference over.
            unsafe { Self::take_back(lent) };
        }
        queueing != Queueing::Not
    }
}

/// A queue refused the item when its timer expired.
///
/// # Safety
/// As [`Refused`](crate::engine::item::delayed::Refused) says.
unsafe fn refused(item: NonNull<DelayedItem>, _: Closed) {
    let lent = item.cast::<Embedded<DelayedItem>>();
    // SAFETY: its timer was armed with one strong reference, which nobody else takes over.
    guarded(|| unsafe { Embedded::take_back(lent) });
}

/// The same methods for both kinds of items.
macro_rules! embedded_item {
    ($name:ident, $target:ident, |$self:ident| $item:expr, $work:expr) => {
        impl $name {
            /// Takes it off its queue, and disarms its timer if it has one: `true`, it was pending
            /// and will not run. Does not wait for a run in progress.
            ///
            /// KERNEL: `cancel_work`, `cancel_delayed_work` — same.
            #[doc(alias = "cancel_work")]
            #[doc(alias = "cancel_delayed_work")]
            pub fn cancel(&self) -> bool {
                let $self = self;
                let by = |r| grab::cancel(r, Target::$target($item));
                let taken = unstarted::runtime_of($work).is_some_and(by);
                Embedded::forget_run(&self.0, taken)
            }

            /// As [`cancel`](Self::cancel), and waits for a run in progress, without a time limit:
            /// afterwards the item is idle. `true`: it was *pending*; whether it was running is not
            /// told. While this waits, nobody can queue the item, the item itself included; so one
            /// that queues itself again and again comes to an end.
            /// Called from a work function it counts as blocking at once; from the item's own, it
            /// does not wait for that run, which is reported.
            ///
            /// KERNEL: `cancel_work_sync`, `cancel_delayed_work_sync` — same.
            #[doc(alias = "cancel_work_sync")]
            #[doc(alias = "cancel_delayed_work_sync")]
            pub fn cancel_sync(&self) -> bool {
                let $self = self;
                let Some(runtime) = unstarted::runtime_of($work) else { return false };
                let cancelled = grab::cancel_sync(runtime, Target::$target($item));
                Embedded::forget_run(&self.0, cancelled.was_queued_again);
                Embedded::forget_run(&self.0, cancelled.was_pending)
            }

            /// [Cancels](Self::cancel) it, and refuses to be queued until [`enable`](Self::enable)
            /// has been called as often as this. `true`: it was pending and will not run. Does not
            /// wait for a run in progress.
            ///
            /// Nests up to 65535 deep. One call more cancels the item and is not counted, which is
            /// logged once: the item is enabled too early then.
            ///
            /// KERNEL: `disable_work`, `disable_delayed_work` — same.
            #[doc(alias = "disable_work")]
            #[doc(alias = "disable_delayed_work")]
            pub fn disable(&self) -> bool {
                let $self = self;
                let by = |r| grab::disable(r, Target::$target($item));
                let taken = unstarted::disable($work).is_some_and(by);
                Embedded::forget_run(&self.0, taken)
            }

            /// As [`disable`](Self::disable), and waits for a run in progress: afterwards the item
            /// is idle, and stays so. `true`: it was *pending*; whether it was running is not told.
            ///
            /// Blocks without a time limit. Called from a work function it counts as blocking at
            /// once; from the item's own, the item is disabled, and the wait for that run is
            /// reported and left out.
            ///
            /// KERNEL: `disable_work_sync`, `disable_delayed_work_sync` — same.
            #[doc(alias = "disable_work_sync")]
            #[doc(alias = "disable_delayed_work_sync")]
            pub fn disable_sync(&self) -> bool {
                let $self = self;
                let by = |r| grab::disable_sync(r, Target::$target($item));
                let taken = unstarted::disable($work).is_some_and(by);
                Embedded::forget_run(&self.0, taken)
            }

            /// Undoes one [`disable`](Self::disable): `true`, it can be queued again. Queues
            /// nothing: what was refused meanwhile is lost. One call too many is logged once, and
            /// takes the item off its queue, or its timer.
            ///
            /// KERNEL: `enable_work`, `enable_delayed_work` — same; but one call too many while a
            /// timer is armed takes the timer, where Linux spins until it expires.
            #[doc(alias = "enable_work")]
            #[doc(alias = "enable_delayed_work")]
            pub fn enable(&self) -> bool {
                let $self = self;
                let target = Target::$target($item);
                let by = |r| Embedded::forget_enabled(&self.0, grab::enable(r, target));
                unstarted::enable($work).unwrap_or_else(|runtime| runtime.is_some_and(by))
            }

            /// Whether it is pending and whether it is running, as of now.
            ///
            /// KERNEL: `work_busy` — same: it looks only where the item was last queued; of an
            /// ordered queue that was changed meanwhile, also where it was before.
            #[must_use]
            #[doc(alias = "work_busy")]
            pub fn busy(&self) -> Busy {
                let $self = self;
                let busy = |runtime| flush::busy(runtime, $work);
                Runtime::existing().map(busy).unwrap_or_default()
            }

            /// To compare with [`current_work`].
            #[must_use]
            pub fn id(&self) -> WorkId {
                let $self = self;
                WorkId::of($work)
            }
        }
    };
}

embedded_item!(Work, Work, |this| &this.0.item, &this.0.item);
embedded_item!(DelayedWork, Delayed, |this| &this.0.item, &this.0.item.item);

impl Work {
    /// An idle item. Panics of `func` go to the [panic handler](crate::set_panic_handler).
    #[must_use]
    #[doc(alias = "INIT_WORK")]
    pub fn new(func: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Embedded::make(WorkItem::new, func))
    }

    /// An idle item whose function knows it, to queue it again or to cancel it. `make` is called
    /// once, with a handle that does not keep the item alive: in the function it can always be
    /// upgraded, in `make` not yet.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// let left = Arc::new(AtomicU32::new(3));
    /// let work = cmwq::Work::new_cyclic(|me| {
    ///     let (me, wq, left) = (me.clone(), wq.clone(), Arc::clone(&left));
    ///     move || {
    ///         if left.fetch_sub(1, Ordering::Relaxed) > 1
    ///             && let Some(me) = me.upgrade()
    ///         {
    ///             wq.queue_work(&me);
    ///         }
    ///     }
    /// });
    /// wq.queue_work(&work);
    /// wq.drain();
    /// assert_eq!(left.load(Ordering::Relaxed), 0);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[must_use]
    pub fn new_cyclic<F>(make: impl FnOnce(&WeakWork) -> F) -> Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        let make = |me: &Weak<_>| make(&WeakWork(Weak::clone(me)));
        Self(Embedded::make_cyclic::<F, F>(WorkItem::new, make))
    }

    /// A handle that does not keep the item alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakWork {
        WeakWork(Arc::downgrade(&self.0))
    }

    /// Whether it is queued and its function not yet entered.
    #[must_use]
    #[doc(alias = "work_pending")]
    pub fn is_pending(&self) -> bool {
        process::is_pending(&self.0.item)
    }

    /// Waits until the last queueing has finished; `false`: there was nothing to wait for. One that
    /// is under way in another thread is waited for, too. All that the run did is visible.
    ///
    /// Blocks without a time limit, on a [frozen](crate::freeze) queue until it is thawed. Called
    /// from a work function it counts as blocking at once; from the item's own, for a queueing that
    /// comes behind the caller, it would wait for itself: that is reported, and `false` returned.
    ///
    /// KERNEL: `flush_work` — differs: called from the item's own function it hangs.
    #[doc(alias = "flush_work")]
    pub fn flush(&self) -> bool {
        // Before there is a runtime no item is queued.
        Runtime::existing().is_some_and(|r| flush::flush_work(r, &self.0.item))
    }

    pub(crate) fn queue_on(&self, wq: &Handle, cpu: Option<u32>) -> bool {
        if self.0.item.is_pending() && !generation::is_child() {
            // Owning no reference for a run that is not ours is cheaper; the claim makes our stores
            // visible.
            if self.0.item.claim().is_pending() {
                return false;
            }
            let lent = Embedded::lend(&self.0);
            // SAFETY: valid; PENDING was won just now; the lent reference keeps it until its run.
            return unsafe {
                Embedded::keep_or_take_back(lent, wq.queue_unless_disabled(cpu, lent.cast()))
            };
        }
        let lent = Embedded::lend(&self.0);
        // SAFETY: valid; the lent reference keeps it until its run.
        unsafe { Embedded::keep_or_take_back(lent, wq.queue_item(cpu, lent.cast())) }
    }
}

impl DelayedWork {
    /// An idle item. Panics of `func` go to the [panic handler](crate::set_panic_handler).
    #[must_use]
    #[doc(alias = "INIT_DELAYED_WORK")]
    pub fn new(func: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Embedded::make(|run| DelayedItem::new(run, refused), func))
    }

    /// An idle item whose timer never wakes an idle process: once it is due, it waits until
    /// something else happens, another timer or an item of any queue, for however long that takes.
    /// Never early. For housekeeping that is pointless while nothing else goes on.
    ///
    /// KERNEL: `INIT_DEFERRABLE_WORK` — same: there it waits for its CPU to be awake for another
    /// reason, here for the process.
    #[must_use]
    #[doc(alias = "INIT_DEFERRABLE_WORK")]
    pub fn deferrable(func: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Embedded::make(|run| DelayedItem::deferrable(run, refused), func))
    }

    /// As [`Work::new_cyclic`].
    #[must_use]
    pub fn new_cyclic<F>(make: impl FnOnce(&WeakDelayedWork) -> F) -> Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        Self::cyclic_as::<F, F>(false, make)
    }

    /// As [`Work::new_cyclic`], with a timer as in [`deferrable`](Self::deferrable).
    #[must_use]
    pub fn deferrable_cyclic<F>(make: impl FnOnce(&WeakDelayedWork) -> F) -> Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        Self::cyclic_as::<F, F>(true, make)
    }

    /// An item with a closure that knows it, under the name of `N`.
    pub(crate) fn cyclic_as<N, F>(
        is_deferrable: bool,
        make: impl FnOnce(&WeakDelayedWork) -> F,
    ) -> Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        let item = |run| {
            let new = if is_deferrable { DelayedItem::deferrable } else { DelayedItem::new };
            new(run, refused)
        };
        let make = |me: &Weak<_>| make(&WeakDelayedWork(Weak::clone(me)));
        Self(Embedded::make_cyclic::<N, F>(item, make))
    }

    /// A handle that does not keep the item alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakDelayedWork {
        WeakDelayedWork(Arc::downgrade(&self.0))
    }

    /// Whether its timer is armed, or it is queued and its function not yet entered.
    #[must_use]
    #[doc(alias = "delayed_work_pending")]
    pub fn is_pending(&self) -> bool {
        process::is_pending(&self.0.item.item)
    }

    /// Queues it at once if its timer is armed, and waits until the last queueing has finished;
    /// `false`: there was nothing to wait for. It blocks as [`Work::flush`] does, and counts as
    /// blocking in a work function.
    ///
    /// KERNEL: `flush_delayed_work` — same, but that a wait of an item for itself, from its own
    /// function, is reported and not begun, and `false` returned; the timer is dealt with as ever.
    #[doc(alias = "flush_delayed_work")]
    pub fn flush(&self) -> bool {
        let this = Embedded::pointer(&self.0).cast();
        // SAFETY: valid; what was lent for its run keeps it until then.
        Runtime::existing().is_some_and(|runtime| unsafe { flush::flush_delayed(runtime, this) })
    }

    pub(crate) fn queue_on(&self, wq: &Handle, cpu: Option<u32>, delay: Duration) -> bool {
        let lent = Embedded::lend(&self.0);
        // SAFETY: valid; the lent reference keeps it until its run.
        unsafe {
            Embedded::keep_or_take_back(lent, DelayedItem::queue(lent.cast(), wq, cpu, delay))
        }
    }

    /// KERNEL: `mod_delayed_work_on` — same.
    pub(crate) fn mod_on(&self, wq: &Handle, cpu: Option<u32>, delay: Duration) -> bool {
        let was_pending = grab::grab(wq.runtime, Target::Delayed(&self.0.item));
        let lent = if was_pending {
            // What was lent for the run that will not happen now is for the one that will.
            Embedded::pointer(&self.0)
        } else {
            Embedded::lend(&self.0)
        };
        // SAFETY: valid; PENDING is ours; the lent reference keeps it until its run.
        unsafe {
            Embedded::keep_or_take_back(
                lent,
                DelayedItem::queue_unless_disabled(lent.cast(), wq, cpu, delay),
            )
        };
        was_pending
    }
}

/// Identifies an item; see [`current_work`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WorkId(usize);

impl WorkId {
    pub(crate) fn of(item: &WorkItem) -> Self {
        Self(std::ptr::from_ref(item).addr())
    }
}

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

/// Whose item it is, and where it stands.
impl DelayedWork {
    /// The function's name.
    pub(crate) fn function(&self) -> String {
        function(&self.0.item.item)
    }
}

fn function(item: &WorkItem) -> String {
    symbol::short(item.func() as *const () as usize)
}

pub(crate) fn describe(f: &mut fmt::Formatter<'_>, name: &str, item: &WorkItem) -> fmt::Result {
    f.debug_struct(name)
        .field("function", &format_args!("{}", function(item)))
        .field("word", &item.word())
        .finish()
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "Work", &self.0.item)
    }
}

impl fmt::Debug for WeakWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(WeakWork)")
    }
}

impl fmt::Debug for WeakDelayedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(WeakDelayedWork)")
    }
}

impl fmt::Debug for DelayedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "DelayedWork", &self.0.item.item)
    }
}
