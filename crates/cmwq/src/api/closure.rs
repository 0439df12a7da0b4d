//! One closure as a work item: item, function or result, and what joins them, in one allocation.
//!
//! It is small, since a backlog is made of these: if neither function nor result has more than a
//! word, 56 bytes, which are 64 of an allocator. What the two sides share is in [`state`]; what
//! lies where is a [`Shape`], which the handle carries and the run knows.

use std::alloc::Layout;
use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, needs_drop, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::task::Waker;
use std::time::Duration;

use cmwq_core::WorkItem;

use crate::api::refused::Refused;
use crate::engine::item::delayed::DelayedItem;
use crate::engine::item::grab::Target;
use crate::engine::queue::handle::Handle;
use crate::engine::runtime::claiming::claim;
use crate::engine::threads::current;
use crate::engine::wq::{Queueing, Wq};
use crate::os::IS_MODEL;
use crate::os::panic;
use crate::os::panic::guarded;
use crate::os::sync::Arc;
use crate::record::symbol::{self, closures};
#[cfg(feature = "tracing")]
use crate::record::trace::callers;

mod abort;
mod handle;
mod job;
mod join_error;
mod memory;
mod state;
#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests;

pub use abort::AbortOnDrop;
pub use handle::JoinHandle;
pub(crate) use job::{Job, Owned, Owner};
pub use join_error::JoinError;
pub(crate) use state::{End, Found, State};

/// The work item of one closure. `I` is a `WorkItem` or a `DelayedItem`; either begins with the
/// work item.
#[repr(C)]
struct Closure<I, F, T> {
    item: I,
    packet: Packet,
    body: UnsafeCell<Body<F, T>>,
}

/// What run and handle have to do with each other, whatever the closure is.
struct Packet {
    state: State,
    /// Whose it is: see [`state`].
    waker: UnsafeCell<Option<Box<Waker>>>,
}

/// The job, until the run takes it; then what came of it, by the [`End`] that the state says.
#[repr(C)]
union Body<F, T> {
    job: ManuallyDrop<F>,
    value: ManuallyDrop<T>,
    panic: ManuallyDrop<Box<Thrown>>,
    refused: Refused,
}

/// A panic's payload. It takes two words, and the body may have one.
struct Thrown(Box<dyn Any + Send>);

/// What came of a closure, on its way.
pub(crate) enum Outcome<T> {
    Value(T),
    Panicked(Box<dyn Any + Send>),
    Refused(Refused),
}

/// Where the parts of a closure are, for those who do not know what it is.
struct Shape {
    layout: Layout,
    packet: usize,
    body: usize,
    /// Of item and packet. Only those of models have anything to drop when they are done with.
    drop: unsafe fn(NonNull<u8>),
    /// Of the function, for who has taken the closure back. Nothing of the user's unwinds from it.
    drop_func: unsafe fn(NonNull<u8>),
    is_delayed: bool,
}

impl Shape {
    /// # Safety
    /// `whole` must be a closure of this shape, which nobody touches any more, and in which nothing
    /// of the user's is left.
    #[inline]
    unsafe fn free(&self, whole: NonNull<u8>) {
        if IS_MODEL {
            // SAFETY: the caller's promise.
            unsafe { (self.drop)(whole) };
        }
        // SAFETY: taken with this layout.
        unsafe { memory::give(whole, self.layout) };
    }

    /// What cancelling has to take off a queue or a timer.
    ///
    /// # Safety
    /// `whole` must be a closure of this shape, which is there as long as the result is used.
    unsafe fn target<'a>(&self, whole: NonNull<u8>) -> Target<'a> {
        // SAFETY: the item is the first of the members, it is changed only by way of cells; and the
        // caller's promise.
        unsafe {
            if self.is_delayed {
                Target::Delayed(whole.cast::<DelayedItem>().as_ref())
            } else {
                Target::Work(whole.cast::<WorkItem>().as_ref())
            }
        }
    }
}

/// What a closure's item can be.
pub(crate) trait Item: Sized + Send + Sync + 'static {
    const IS_DELAYED: bool;

    /// An idle item, to be the first member of a closure, which is known by the name of `N`.
    fn of<N, F: Job<T>, T>() -> Self;
}

impl Item for WorkItem {
    const IS_DELAYED: bool = false;

    #[inline]
    fn of<N, F: Job<T>, T>() -> Self {
        Self::new(run::<N, Self, F, T>)
    }
}

impl Item for DelayedItem {
    const IS_DELAYED: bool = true;

    fn of<N, F: Job<T>, T>() -> Self {
        Self::new(run::<N, Self, F, T>, refuse::<Self, F, T>)
    }
}

impl<I: Item, F: Job<T>, T> Closure<I, F, T> {
    const SHAPE: Shape = Shape {
        layout: Layout::new::<Self>(),
        packet: offset_of!(Self, packet),
        body: offset_of!(Self, body),
        drop: Self::drop,
        drop_func: Self::drop_func,
        is_delayed: I::IS_DELAYED,
    };

    /// # Safety
    /// `whole` must be a closure of this type, the caller's alone, that has not run. To be called
    /// once.
    unsafe fn drop_func(whole: NonNull<u8>) {
        #[cfg(feature = "tracing")]
        callers::forget(whole.as_ptr().cast());
        let run = Run(whole.cast::<Self>());
        // SAFETY: the caller has it in the run's place.
        let (func, owner) = unsafe { run.take_job() }.split();
        guarded(|| drop(func));
        drop(owner);
    }

    /// # Safety
    /// `whole` must be a closure of this type, which nobody touches any more.
    unsafe fn drop(whole: NonNull<u8>) {
        let this = whole.cast::<Self>().as_ptr();
        // SAFETY: the caller's promise.
        unsafe {
            (&raw mut (*this).item).drop_in_place();
            (&raw mut (*this).packet).drop_in_place();
        }
    }
}

/// The run's side of a closure, once.
struct Run<I, F, T>(NonNull<Closure<I, F, T>>);

/// The function of a closure's item: calls the closure, and hands what comes of it to the handle.
/// Tools show it by the name of `N`: the closure, or the one inside of it that the user has
/// written.
unsafe extern "C" fn run<N, I: Item, F: Job<T>, T>(item: *mut WorkItem) {
    closures::tell!(run::<N, I, F, T>, symbol::name_of_type::<N>);
    // SAFETY: the item was queued through the pointer to the whole closure, and runs once.
    let run = unsafe { Run::<I, F, T>(NonNull::new_unchecked(item.cast())) };
    // SAFETY: the first and only time.
    let (func, owner) = unsafe { run.take_job() }.split();
    let outcome = match catch_unwind(AssertUnwindSafe(func)) {
        Ok(value) => Outcome::Value(value),
        Err(payload) => Outcome::Panicked(payload),
    };
    run.deliver(outcome, &owner);
    // The owner lets go of what was borrowed.
    drop(owner);
}

/// Lets go of a closure that will not run: its handle is told.
///
/// # Safety
/// `item` must come from [`make`] with the same `F` and `T`, and be neither queued nor armed.
pub(crate) unsafe fn refuse<I: Item, F: Job<T>, T>(item: NonNull<I>) {
    // Before anything of the user's is dropped, which may be refused something, too.
    let why = Refused::last();
    #[cfg(feature = "tracing")]
    callers::forget(item.as_ptr().cast());
    let run = Run::<I, F, T>(item.cast());
    // SAFETY: the first and only time: this is in the run's place.
    let (func, owner) = unsafe { run.take_job() }.split();
    guarded(|| drop(func));
    run.deliver(Outcome::Refused(why), &owner);
    drop(owner);
}

/// Whether the queue has refused a closure, which was let go then.
///
/// # Safety
/// `item` must come from [`make`] with the same `F` and `T`, and `queueing` be what came of it.
#[inline]
pub(crate) unsafe fn was_refused<I: Item, F: Job<T>, T>(
    item: NonNull<I>,
    queueing: Queueing,
) -> bool {
    debug_assert_ne!(queueing, Queueing::Not, "a fresh item was pending");
    let was_refused = queueing == Queueing::Refused;
    if was_refused {
        // SAFETY: passed on to the caller: it is neither queued nor armed.
        unsafe { refuse::<I, F, T>(item) };
    }
    was_refused
}

impl<I: Item, F: Job<T>, T> Run<I, F, T> {
    fn packet(&self) -> &Packet {
        // SAFETY: alive until the run's side says otherwise, and changed only by way of cells.
        unsafe { &(*self.0.as_ptr()).packet }
    }

    fn body(&self) -> *mut Body<F, T> {
        // SAFETY: as above.
        unsafe { (*self.0.as_ptr()).body.get() }
    }

    /// # Safety
    /// To be called once.
    unsafe fn take_job(&self) -> F {
        // SAFETY: it is there until then, and the run's.
        ManuallyDrop::into_inner(unsafe { (&raw mut (*self.body()).job).read() })
    }

    /// Hands the outcome to the handle. Nothing of the user's unwinds from here.
    #[inline(always)]
    fn deliver(self, outcome: Outcome<T>, owner: &F::Owner) {
        if self.packet().state.is_detached() {
            // SAFETY: everything is the run's.
            return unsafe { self.end_alone(outcome, owner) };
        }
        self.hand_over(outcome, owner);
    }

    /// As [`deliver`](Self::deliver), if there was a handle just now.
    #[inline(never)]
    fn hand_over(self, outcome: Outcome<T>, owner: &F::Owner) {
        // SAFETY: the function has been taken, so its place is free, and the run's until `finish`.
        let end = unsafe { outcome.put(self.body()) };
        match self.packet().state.finish(end) {
            Found::Handle => {}
            Found::Detached => {
                // SAFETY: put there above, and the run's again.
                let outcome = unsafe { Outcome::take(self.body().cast(), end) };
                // SAFETY: everything is the run's.
                unsafe { self.end_alone(outcome, owner) };
            }
            Found::Waiting { is_polled } => self.wake(is_polled),
        }
    }

    /// # Safety
    /// Everything must be the run's, the outcome not in its place.
    #[inline]
    unsafe fn end_alone(self, outcome: Outcome<T>, owner: &F::Owner) {
        // The memory is kept until user code is through with: an item of the same function at the
        // same place would be taken for this one, and wait for its end.
        // Most values are nothing to drop, and then nothing can unwind.
        let may_unwind = needs_drop::<T>() || !matches!(outcome, Outcome::Value(_));
        let tell = || owner.unjoined(outcome, Origin::Here);
        if may_unwind {
            guarded(tell)
        } else {
            tell()
        }
        // SAFETY: the caller's promise.
        unsafe { self.free() };
    }

    #[inline(never)]
    fn wake(self, is_polled: bool) {
        let packet = self.packet();
        packet.state.wake();
        if is_polled {
            // SAFETY: the cell is the run's.
            let waker = unsafe { (*packet.waker.get()).take() };
            guarded(|| waker.into_iter().for_each(|waker| waker.wake()));
        }
        if packet.state.leave_run() {
            // SAFETY: the second to leave.
            unsafe { self.free() };
        }
    }

    /// # Safety
    /// Nobody else must touch the closure any more, and nothing that needs to be dropped be left.
    #[inline]
    unsafe fn free(self) {
        // SAFETY: the caller's promise.
        unsafe { Closure::<I, F, T>::SHAPE.free(self.0.cast()) };
    }
}

impl<T> Outcome<T> {
    /// Puts it where it can be [taken](Self::take).
    ///
    /// # Safety
    /// `body` must be the caller's, and nothing there.
    unsafe fn put<F>(self, body: *mut Body<F, T>) -> End {
        match self {
            Self::Value(value) => {
                // SAFETY: the caller's promise.
                unsafe { (&raw mut (*body).value).write(ManuallyDrop::new(value)) };
                End::Value
            }
            Self::Panicked(payload) => {
                let thrown = ManuallyDrop::new(Box::new(Thrown(payload)));
                // SAFETY: the caller's promise.
                unsafe { (&raw mut (*body).panic).write(thrown) };
                End::Panicked
            }
            Self::Refused(why) => {
                // SAFETY: the caller's promise.
                unsafe { (&raw mut (*body).refused).write(why) };
                End::Refused
            }
        }
    }

    /// # Safety
    /// `body` must be the place of a body in which an outcome with this end is, and be the
    /// caller's. It is not there any more then.
    unsafe fn take(body: *mut u8, end: End) -> Self {
        match end {
            // SAFETY: the caller's promise; all members of a union are at its begin.
            End::Value => Self::Value(unsafe { body.cast::<T>().read() }),
            End::Panicked => {
                // SAFETY: as above.
                let thrown = unsafe { body.cast::<Box<Thrown>>().read() };
                Self::Panicked(thrown.0)
            }
            // SAFETY: as above.
            End::Refused => Self::Refused(unsafe { body.cast::<Refused>().read() }),
        }
    }

    fn joined(self) -> Result<T, JoinError> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Panicked(payload) => Err(JoinError::panicked(payload)),
            Self::Refused(why) => Err(JoinError::refused(why)),
        }
    }
}

/// Where a panic that nobody joins comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// The calling thread runs the item.
    Here,
    /// It has ended before, somewhere: its function.
    Elsewhere(usize),
}

impl Origin {
    pub(crate) fn describe(self) -> panic::Origin {
        let (queue, func) = match self {
            Self::Here => current::running().unzip(),
            Self::Elsewhere(func) => (None, Some(func)),
        };
        panic::Origin { queue, function: func.map(symbol::short) }
    }
}

/// Queues a closure, which tools show by the name of `N`. If the queue lets nothing in, the handle
/// says so.
#[inline]
pub(crate) fn queue<N, F, T>(wq: &Wq, cpu: Option<u32>, func: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: nothing is borrowed.
    unsafe { queue_borrowing::<N, F, T>(wq, cpu, func) }
}

/// As [`queue`], of what may borrow.
///
/// # Safety
/// What is borrowed must be there until the job's owner is dropped, and that has to be in this
/// process; what the value borrows, as long as the handle is there, too.
#[inline]
pub(crate) unsafe fn queue_borrowing<N, F, T>(wq: &Wq, cpu: Option<u32>, job: F) -> JoinHandle<T>
where
    F: Job<T> + Send,
    T: Send,
{
    let (item, handle) = make_borrowing::<N, WorkItem, F, T>(job);
    // SAFETY: a fresh item of a closure, which stays where it is until its run.
    let _ = unsafe { was_refused::<WorkItem, F, T>(item, wq.queue_item(cpu, item)) };
    handle
}

/// A closure of the library's own that is queued by calling the first of the results, by no matter
/// which thread; that may be dropped instead when the handle was. Nothing of the program is called
/// here: the caller may hold locks.
pub(crate) fn prepare<F, T>(wq: Arc<Wq>, func: F) -> (impl FnOnce() + Send, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (item, handle) = make_of_nobody::<F, WorkItem, F, T>(func);
    // In a forked child an item that nobody has claimed is taken for the parent's.
    // SAFETY: fresh memory.
    let _ = claim(unsafe { item.as_ref() }, || wq.runtime);
    let prepared = Prepared::<F, T> { item, types: PhantomData };
    (move || prepared.queue(&wq), handle)
}

/// A closure that was claimed, and neither queued nor refused.
struct Prepared<F: FnOnce() -> T, T> {
    item: NonNull<WorkItem>,
    types: PhantomData<fn() -> (F, T)>,
}

// SAFETY: of a closure that can be sent.
unsafe impl<F: FnOnce() -> T + Send, T: Send> Send for Prepared<F, T> {}

impl<F: FnOnce() -> T, T> Prepared<F, T> {
    fn queue(self, wq: &Wq) {
        let item = ManuallyDrop::new(self).item;
        // SAFETY: a fresh item of a closure, claimed by us, which stays where it is until its run.
        let _ = unsafe { was_refused::<WorkItem, F, T>(item, wq.queue_claimed(None, item)) };
    }
}

impl<F: FnOnce() -> T, T> Drop for Prepared<F, T> {
    fn drop(&mut self) {
        // SAFETY: fresh, and nobody will queue it.
        unsafe { refuse::<WorkItem, F, T>(self.item) };
    }
}

/// As [`queue`], when `delay` has passed, and by the name of `F`.
pub(crate) fn delay<F, T>(wq: &Handle, cpu: Option<u32>, func: F, delay: Duration) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (item, handle) = make::<F, DelayedItem, F, T>(func);
    // SAFETY: a fresh item of a closure, which stays where it is until its run.
    let _ = unsafe { was_refused::<DelayedItem, F, T>(item, arm(item, wq, cpu, delay)) };
    handle
}

/// [`DelayedItem::queue`], but once for all closures.
///
/// # Safety
/// As there.
pub(crate) unsafe fn arm(
    item: NonNull<DelayedItem>,
    wq: &Handle,
    cpu: Option<u32>,
    delay: Duration,
) -> Queueing {
    // SAFETY: passed on to the caller.
    unsafe { DelayedItem::queue(item, wq, cpu, delay) }
}

/// Makes a closure, which tools show by the name of `N`: its item, and its handle. The pointer is
/// that of the whole closure. The item is to be queued or [refused](refuse), once.
#[inline]
pub(crate) fn make<N, I, F, T>(func: F) -> (NonNull<I>, JoinHandle<T>)
where
    I: Item,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    make_borrowing::<N, I, F, T>(func)
}

/// As [`make`], of what may borrow: to be queued where [`queue_borrowing`] allows.
#[inline]
fn make_borrowing<N, I, F, T>(job: F) -> (NonNull<I>, JoinHandle<T>)
where
    I: Item,
    F: Job<T> + Send,
    T: Send,
{
    let (item, handle) = make_of_nobody::<N, I, F, T>(job);
    #[cfg(feature = "tracing")]
    callers::enter(item.as_ptr().cast());
    (item, handle)
}

/// As [`make_borrowing`], and its run belongs to no span of the caller's.
#[inline]
fn make_of_nobody<N, I, F, T>(job: F) -> (NonNull<I>, JoinHandle<T>)
where
    I: Item,
    F: Job<T> + Send,
    T: Send,
{
    const {
        let in_models = IS_MODEL;
        assert!(!needs_drop::<I>() || in_models, "see `Shape::free`");
    };
    let item = I::of::<N, F, T>();
    let packet = Packet { state: State::new(), waker: UnsafeCell::new(None) };
    let body = UnsafeCell::new(Body { job: ManuallyDrop::new(job) });
    let closure = memory::take(Layout::new::<Closure<I, F, T>>()).cast::<Closure<I, F, T>>();
    // SAFETY: fresh memory, of this layout.
    unsafe { closure.write(Closure { item, packet, body }) };
    // SAFETY: a closure with this value, of this shape, which has no handle yet.
    let handle = unsafe { JoinHandle::of(closure.cast(), &Closure::<I, F, T>::SHAPE) };
    (closure.cast(), handle)
}
