//! One closure as a work item: item, function, result and completion in one allocation.

use std::alloc::Layout;
use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
use std::mem::offset_of;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use cmwq_core::WorkItem;

use crate::current;
use crate::delayed::DelayedItem;
use crate::panic;
use crate::park::Event;
use crate::symbol::closures;
use crate::sync::{Mutex, lock};
use crate::watchdog::WaitFor;

mod memory;
mod refs;

pub(crate) use refs::Refs;

type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// The work item of one closure. `I` is a `WorkItem` or a `DelayedItem`; either begins with the
/// work item.
#[repr(C)]
struct Closure<I, F, T> {
    item: I,
    func: UnsafeCell<Option<F>>,
    packet: Packet<T>,
}

/// What the closure's side leaves and the handle's side takes.
struct Packet<T> {
    /// The run's, and the handle's.
    refs: Refs,
    /// How far behind the item this is.
    offset: u32,
    /// Drops the closure whose packet this is, and frees it.
    free: unsafe fn(NonNull<Self>),
    outcome: UnsafeCell<Option<Outcome<T>>>,
    done: Event,
    waker: Mutex<Option<Waker>>,
}

// SAFETY: `func` is taken by the one run; `outcome` is written before `done` is set and taken by
// the one handle after.
unsafe impl<I: Sync, F: Send, T: Send> Sync for Closure<I, F, T> {}
// SAFETY: as above.
unsafe impl<I: Send, F: Send, T: Send> Send for Closure<I, F, T> {}

/// One of the two references to a closure: the run's.
struct Run<I, F, T>(NonNull<Closure<I, F, T>>);

impl<I, F, T> Deref for Run<I, F, T> {
    type Target = Closure<I, F, T>;

    fn deref(&self) -> &Self::Target {
        // SAFETY: alive as long as this reference is, and changed only by way of cells.
        unsafe { self.0.as_ref() }
    }
}

impl<I, F, T> Drop for Run<I, F, T> {
    fn drop(&mut self) {
        // SAFETY: a reference is given back once, and not used any more.
        unsafe { Packet::release(Closure::packet_of(self.0)) };
    }
}

/// The function of a closure's item.
unsafe extern "C" fn run<I, F: FnOnce() -> T, T>(item: *mut WorkItem) {
    closures::tell!(run::<I, F, T>, std::any::type_name::<F>);
    // SAFETY: the item was queued with one strong reference, which this run takes over; it was
    // queued through the pointer to the whole closure.
    let closure = unsafe { Run(NonNull::new_unchecked(item.cast::<Closure<I, F, T>>())) };
    // SAFETY: an item of a closure runs once, so `func` is this run's.
    let func = unsafe { (*closure.func.get()).take() };
    let Some(func) = func else { return };
    closure.deliver(catch_unwind(AssertUnwindSafe(func)));
}

/// What a handle finds whose closure was refused by its queue.
struct Refused;

/// Lets go of a closure that will not run: its handle is told.
///
/// # Safety
/// `item` must be a pointer to the whole `Closure<I, F, T>` that owns the reference meant for the
/// run, which will not happen.
unsafe fn refuse<I, F, T>(item: NonNull<Closure<I, F, T>>) {
    let closure = Run(item);
    // SAFETY: `func` is the run's, and this is in its place.
    let func = unsafe { (*closure.func.get()).take() };
    crate::worker::guarded(|| drop(func));
    closure.deliver(Err(Box::new(Refused)));
}

/// As [`refuse`], by a queue that a closure's own call found closed.
///
/// # Safety
/// `item` must come from [`item`] with the same `F` and `T`, and not be queued.
pub(crate) unsafe fn refuse_item<F, T>(item: NonNull<WorkItem>) {
    // SAFETY: the caller's promise.
    unsafe { refuse::<WorkItem, F, T>(item.cast()) };
}

/// As [`refuse`], for a closure with a timer.
///
/// # Safety
/// `item` must come from [`delayed`] with the same `F` and `T`, and be neither queued nor armed.
pub(crate) unsafe fn refuse_delayed<F, T>(item: NonNull<DelayedItem>) {
    // SAFETY: the caller's promise.
    unsafe { refuse::<DelayedItem, F, T>(item.cast()) };
}

impl<I, F, T> Closure<I, F, T> {
    /// A closure with both of its references.
    #[inline]
    fn make(item: I, func: F) -> NonNull<Self> {
        let packet = Packet::new(offset_of!(Self, packet), Self::free);
        let whole = memory::take(Layout::new::<Self>()).cast::<Self>();
        // SAFETY: fresh memory, of this layout.
        unsafe { whole.write(Self { item, func: UnsafeCell::new(Some(func)), packet }) };
        whole
    }

    fn packet_of(this: NonNull<Self>) -> NonNull<Packet<T>> {
        // SAFETY: within the closure, and with the provenance of all of it.
        unsafe { NonNull::new_unchecked(&raw mut (*this.as_ptr()).packet) }
    }

    /// # Safety
    /// `packet` must come from [`packet_of`](Self::packet_of), and nobody have a reference to the closure any more.
    unsafe fn free(packet: NonNull<Packet<T>>) {
        /// Also if something panics when it is dropped.
        struct Memory(NonNull<u8>, Layout);
        impl Drop for Memory {
            fn drop(&mut self) {
                // SAFETY: taken with this layout, and nobody's any more.
                unsafe { memory::give(self.0, self.1) };
            }
        }
        // SAFETY: the caller's promise.
        let whole = unsafe { packet.byte_sub(offset_of!(Self, packet)) }.cast::<Self>();
        let _memory = Memory(whole.cast(), Layout::new::<Self>());
        // SAFETY: as above.
        unsafe { whole.drop_in_place() };
    }
}

impl<I, F, T> Run<I, F, T> {
    /// Hands the outcome to the handle. By the run, or whoever is in its place.
    fn deliver(self, outcome: Outcome<T>) {
        if self.packet.refs.is_last() {
            // Nobody will join: a panic goes to the handler, a value is dropped here.
            crate::worker::guarded(move || unjoined(outcome));
            return;
        }
        // SAFETY: the handle looks at it only after `done` is set.
        unsafe { *self.packet.outcome.get() = Some(outcome) };
        self.packet.done.set();
        let waker = lock(&self.packet.waker).take();
        if let Some(waker) = waker {
            crate::worker::guarded(|| waker.wake());
        }
        // The handle may have gone meanwhile; then the value is dropped here, and must not unwind.
        crate::worker::guarded(|| drop(self));
    }
}

/// The outcome of a closure whose handle is gone.
fn unjoined<T>(outcome: Outcome<T>) {
    match outcome {
        Err(payload) if !payload.is::<Refused>() => panic::handle(&*payload),
        outcome => drop(outcome),
    }
}

impl<T> Packet<T> {
    fn new(offset: usize, free: unsafe fn(NonNull<Self>)) -> Self {
        Self {
            refs: Refs::two(),
            offset: offset as u32,
            free,
            outcome: UnsafeCell::new(None),
            done: Event::new(),
            waker: Mutex::new(None),
        }
    }

    /// Gives a reference to the closure back.
    ///
    /// # Safety
    /// It must be the caller's, and not be used any more.
    #[inline]
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: alive until the reference is given back.
        let (refs, free) = unsafe { (&this.as_ref().refs, this.as_ref().free) };
        if refs.release() {
            // SAFETY: it was the last one.
            unsafe { free(this) };
        }
    }
}

impl<T> Drop for Packet<T> {
    fn drop(&mut self) {
        // The handle went without having joined, but after the run had seen it.
        if let Some(outcome @ Err(_)) = self.outcome.get_mut().take() {
            crate::worker::guarded(move || unjoined(outcome));
        }
    }
}

/// Makes a closure's item and its handle. The returned pointer owns a strong reference that its run
/// takes over.
#[inline]
pub(crate) fn item<F, T>(func: F) -> (NonNull<WorkItem>, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (item, handle) = make(WorkItem::new(run::<WorkItem, F, T>), func);
    (item.cast(), handle)
}

/// As [`item`], with a timer.
pub(crate) fn delayed<F, T>(func: F) -> (NonNull<DelayedItem>, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (item, handle) =
        make(DelayedItem::new(run::<DelayedItem, F, T>, refuse_delayed::<F, T>), func);
    (item.cast(), handle)
}

#[inline]
fn make<I, F, T>(item: I, func: F) -> (NonNull<Closure<I, F, T>>, JoinHandle<T>)
where
    I: Send + Sync + 'static,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let closure = Closure::make(item, func);
    (closure, JoinHandle { packet: Closure::packet_of(closure) })
}

/// Waits for a closure queued by [`Workqueue::queue`](crate::Workqueue::queue), and has its value.
///
/// Dropping the handle lets the closure run on by itself. The handle is also a future, which does
/// not need any particular executor.
#[must_use = "dropping the handle detaches the item; a panic in it then goes to the panic handler"]
pub struct JoinHandle<T> {
    /// Holds one of the two references to the closure.
    packet: NonNull<Packet<T>>,
}

// SAFETY: a closure's function and value can be sent, and what is shared of it is made for it: see `Closure`.
unsafe impl<T> Send for JoinHandle<T> {}
// SAFETY: as above; a shared handle only tells whether the closure is done.
unsafe impl<T> Sync for JoinHandle<T> {}

impl<T> Drop for JoinHandle<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this handle's reference.
        unsafe { Packet::release(self.packet) };
    }
}

impl<T> JoinHandle<T> {
    /// Waits until the closure has returned, and returns its value. All that the closure did is
    /// visible.
    ///
    /// Called from a work function, it counts as blocking at once: another worker takes over.
    ///
    /// # Errors
    /// If the closure panicked, the panic's payload; or that it did not run, because the queue was
    /// being drained.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// assert_eq!(wq.queue(|| 6 * 7).join().unwrap(), 42);
    /// assert!(wq.queue(|| panic!("no")).join().is_err());
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    pub fn join(self) -> Result<T, JoinError> {
        let packet = self.packet();
        if !packet.done.is_set() {
            // The item is the first of the closure's members.
            let what = WaitFor::Item(self.packet.addr().get() - packet.offset as usize);
            current::waiting_for(what, || packet.done.wait(None));
        }
        self.take()
    }

    /// As [`join`](Self::join), but gives up after `timeout` and returns the handle.
    ///
    /// # Errors
    /// The handle, if the closure has not returned yet.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, JoinError>, Self> {
        // A time that no clock will ever show is as good as none.
        let deadline = Instant::now().checked_add(timeout);
        let packet = self.packet();
        current::blocking(|| {
            while !packet.done.is_set() {
                let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
                if left.is_some_and(|left| left.is_zero()) {
                    break;
                }
                packet.done.wait(left);
            }
        });
        if self.is_finished() { Ok(self.take()) } else { Err(self) }
    }

    /// Whether the closure has returned or panicked.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.packet().done.is_set()
    }

    fn packet(&self) -> &Packet<T> {
        // SAFETY: alive as long as this handle's reference is.
        unsafe { self.packet.as_ref() }
    }

    fn take(&self) -> Result<T, JoinError> {
        debug_assert!(self.is_finished());
        // SAFETY: `done` is set, so the run has written its outcome and will not touch it again;
        // this handle is the only taker.
        let outcome = unsafe { (*self.packet().outcome.get()).take() };
        outcome.expect("joined twice").map_err(JoinError)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let packet = self.packet();
        if !packet.done.is_set() {
            *lock(&packet.waker) = Some(cx.waker().clone());
            // The run sets `done` before it takes the waker: either it finds ours, or we find it
            // done.
            if !packet.done.is_set() {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.take())
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}

/// The closure panicked, and this is what it panicked with; or its queue refused it.
pub struct JoinError(Box<dyn Any + Send>);

impl JoinError {
    /// Whether the closure did not run: the queue was being drained or shut down, and only what its
    /// own items queue is let in then. See [`Workqueue::drain`](crate::Workqueue::drain) and
    /// [`shutdown`](crate::shutdown).
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.0.is::<Refused>()
    }

    /// Whether the closure panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        !self.is_refused()
    }

    /// The panic's payload, for `std::panic::resume_unwind` or a downcast. Of a closure that was
    /// refused, something that nobody knows.
    #[must_use]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        self.0
    }

    /// The panic's message, if it has one.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        panic::message(&*self.0)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_refused() {
            return f.write_str(
                "the workqueue was being drained or shut down and refused the work item",
            );
        }
        write!(f, "the work item panicked: {}", self.message().unwrap_or("(no message)"))
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_refused() {
            return f.write_str("JoinError(Refused)");
        }
        f.debug_tuple("JoinError").field(&self.message()).finish()
    }
}

impl std::error::Error for JoinError {}
