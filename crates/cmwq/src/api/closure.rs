//! One closure as a work item: item, function or result, and what joins them, in one allocation.
//!
//! It is small, since a backlog is made of these: if neither function nor result has more than a
//! word, 56 bytes, which are 64 of an allocator. What the two sides share is in [`state`]; what
//! lies where is a [`Shape`], which the handle carries and the run knows.
//!
//! Most of it is compiled once for all closures: docs/decisions/compiled-once.md

use std::alloc::Layout;
use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, needs_drop, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::task::Waker;
use std::time::Duration;

use cmwq_core::{Closed, WorkItem};

use crate::api::refused::Refused;
use crate::engine::item::delayed::DelayedItem;
use crate::engine::item::grab::Target;
use crate::engine::item::queueing::By;
use crate::engine::queue::handle::Handle;
use crate::engine::runtime::claiming::claim;
use crate::engine::threads::current;
use crate::engine::wq::{Queueing, Wq};
use crate::os::IS_MODEL;
use crate::os::panic;
use crate::os::panic::{drop_guarded, guarded};
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
    /// Of the function, for who is in the run's place. Nothing of the user's unwinds from it.
    let_go: unsafe fn(NonNull<u8>, &'static Shape, LetGo),
    is_delayed: bool,
}

/// Why a closure does not run.
#[derive(Clone, Copy, Debug)]
enum LetGo {
    /// Its handle has taken it back.
    TakenBack,
    /// The queue lets nothing in: its handle is told.
    Refused(Refused),
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

    /// Lets go of a closure that its queue does not let in.
    ///
    /// # Safety
    /// `whole` must be a closure of this shape, neither queued nor armed, that has not run.
    unsafe fn refuse(&'static self, whole: NonNull<u8>, why: Closed) {
        // SAFETY: the caller's promise; this is in the run's place.
        unsafe { (self.let_go)(whole, self, LetGo::Refused(Refused::of(why))) };
    }

    /// # Safety
    /// `whole` must be a closure of this shape, and `queueing` what came of it.
    #[inline]
    unsafe fn was_refused(&'static self, whole: NonNull<u8>, queueing: Queueing) -> bool {
        debug_assert_ne!(queueing, Queueing::Not, "a fresh item was pending");
        let Queueing::Refused(why) = queueing else { return false };
        // SAFETY: passed on to the caller: it is neither queued nor armed.
        unsafe { self.refuse(whole, why) };
        true
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
        drop: if IS_MODEL { Self::drop } else { drop_nothing },
        let_go: Self::let_go,
        is_delayed: I::IS_DELAYED,
    };

    /// # Safety
    /// `whole` must be a closure of this type and shape, neither queued nor armed, and the caller
    /// in the run's place; its alone, if it was taken back. To be called once.
    unsafe fn let_go(whole: NonNull<u8>, shape: &'static Shape, why: LetGo) {
        #[cfg(feature = "tracing")]
        callers::forget(whole.as_ptr().cast());
        // SAFETY: the caller has it in the run's place.
        let (func, owner) = unsafe { Self::take_job(whole) }.split();
        drop_guarded(func);
        if let LetGo::Refused(why) = why {
            // SAFETY: a closure of this shape, whose function was taken.
            unsafe { Run::<T>::of(whole, shape) }.refuse(why, &owner);
        }
        drop(owner);
    }

    /// # Safety
    /// `whole` must be a closure of this type, and the caller its run, or in the place of that. To
    /// be called once.
    #[inline]
    unsafe fn take_job(whole: NonNull<u8>) -> F {
        let this = whole.cast::<Self>().as_ptr();
        // SAFETY: alive until the run's side says otherwise, and the body is the run's until then.
        ManuallyDrop::into_inner(unsafe { (&raw mut (*(*this).body.get()).job).read() })
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

/// See [`Shape::free`].
unsafe fn drop_nothing(_: NonNull<u8>) {}

/// The run's side of a closure, once, when its function has been taken. It knows no more of the
/// closure than it must: what is here is compiled for each type of values, not for each closure.
struct Run<T> {
    whole: NonNull<u8>,
    shape: &'static Shape,
    value: PhantomData<T>,
}

/// The function of a closure's item: calls the closure, and hands what comes of it to the handle.
/// Tools show it by the name of `N`: the closure, or the one inside of it that the user has
/// written.
unsafe extern "C" fn run<N, I: Item, F: Job<T>, T>(item: *mut WorkItem) {
    closures::tell!(run::<N, I, F, T>, N);
    // SAFETY: the item was queued through the pointer to the whole closure, and runs once.
    let whole = unsafe { NonNull::new_unchecked(item.cast()) };
    // SAFETY: the first and only time.
    let (func, owner) = unsafe { Closure::<I, F, T>::take_job(whole) }.split();
    let outcome = match catch_unwind(AssertUnwindSafe(func)) {
        Ok(value) => Outcome::Value(value),
        Err(payload) => Outcome::Panicked(payload),
    };
    // SAFETY: a closure of this shape, whose function was taken.
    unsafe { Run::of(whole, &Closure::<I, F, T>::SHAPE) }.deliver(outcome, &owner);
    // The owner lets go of what was borrowed.
    drop(owner);
}

/// [`Shape::let_go`] of a closure that was refused when its timer expired.
///
/// # Safety
/// `item` must come from [`make`] with the same `F` and `T`, and be neither queued nor armed.
pub(crate) unsafe fn refuse<I: Item, F: Job<T>, T>(item: NonNull<I>, why: Closed) {
    // SAFETY: the caller's promise.
    unsafe { Closure::<I, F, T>::SHAPE.refuse(item.cast(), why) };
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
    // SAFETY: the caller's promise.
    unsafe { Closure::<I, F, T>::SHAPE.was_refused(item.cast(), queueing) }
}

impl<T> Run<T> {
    /// # Safety
    /// `whole` must be a closure of this shape with values of this type, and the caller its run, or
    /// in the place of that, who has taken its function. To be called once.
    #[inline]
    unsafe fn of(whole: NonNull<u8>, shape: &'static Shape) -> Self {
        Self { whole, shape, value: PhantomData }
    }

    #[inline]
    fn packet(&self) -> &Packet {
        // SAFETY: alive until the run's side says otherwise, and changed only by way of cells.
        unsafe { self.whole.byte_add(self.shape.packet).cast().as_ref() }
    }

    #[inline]
    fn body(&self) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.whole.byte_add(self.shape.body).as_ptr() }
    }

    /// Hands the outcome to the handle. Nothing of the user's unwinds from here.
    #[inline(always)]
    fn deliver(self, outcome: Outcome<T>, owner: &impl Owner) {
        if self.packet().state.is_detached() {
            // SAFETY: everything is the run's.
            return unsafe { self.end_alone(outcome, owner) };
        }
        self.hand_over(outcome, owner);
    }

    #[cold]
    #[inline(never)]
    fn refuse(self, why: Refused, owner: &impl Owner) {
        self.deliver(Outcome::Refused(why), owner);
    }

    /// As [`deliver`](Self::deliver), if there was a handle just now.
    #[inline(never)]
    fn hand_over(self, outcome: Outcome<T>, owner: &impl Owner) {
        // SAFETY: the function has been taken, so its place is free, and the run's until `finish`.
        let end = unsafe { outcome.put(self.body()) };
        match self.packet().state.finish(end) {
            Found::Handle => {}
            Found::Detached => {
                // SAFETY: put there above, and the run's again.
                let outcome = unsafe { Outcome::take(self.body(), end) };
                // SAFETY: everything is the run's.
                unsafe { self.end_alone(outcome, owner) };
            }
            Found::Waiting { is_polled } => self.wake(is_polled),
        }
    }

    /// # Safety
    /// Everything must be the run's, the outcome not in its place.
    #[inline]
    unsafe fn end_alone(self, outcome: Outcome<T>, owner: &impl Owner) {
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
        unsafe { self.shape.free(self.whole) };
    }
}

impl<T> Outcome<T> {
    /// Puts it where it can be [taken](Self::take).
    ///
    /// # Safety
    /// `body` must be the place of a [`Body`] with values of this type and the caller's, and
    /// nothing there.
    unsafe fn put(self, body: *mut u8) -> End {
        match self {
            Self::Value(value) => {
                // SAFETY: the caller's promise; all members of a union are at its begin.
                unsafe { body.cast::<T>().write(value) };
                End::Value
            }
            Self::Panicked(payload) => {
                // SAFETY: as above.
                unsafe { body.cast::<Box<Thrown>>().write(Box::new(Thrown(payload))) };
                End::Panicked
            }
            Self::Refused(why) => {
                // SAFETY: as above.
                unsafe { body.cast::<Refused>().write(why) };
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
        let _ = unsafe {
            was_refused::<WorkItem, F, T>(item, wq.queue_claimed(By::Caller, None, item))
        };
    }
}

impl<F: FnOnce() -> T, T> Drop for Prepared<F, T> {
    fn drop(&mut self) {
        // No queue has said why, and no handle is there to be told.
        // SAFETY: fresh, and nobody will queue it.
        unsafe { refuse::<WorkItem, F, T>(self.item, Closed::NOT) };
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
