//! One closure as a work item: item, function, result and completion in one allocation.

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
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
use crate::sync::{Arc, Mutex, lock};
use crate::trace;
use crate::watchdog::WaitFor;

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
    outcome: UnsafeCell<Option<Outcome<T>>>,
    done: Event,
    waker: Mutex<Option<Waker>>,
}

// SAFETY: `func` is taken by the one run; `outcome` is written before `done` is set and taken by
// the one handle after.
unsafe impl<I: Sync, F: Send, T: Send> Sync for Closure<I, F, T> {}
// SAFETY: as above.
unsafe impl<I: Send, F: Send, T: Send> Send for Closure<I, F, T> {}

/// A closure, seen by its handle.
trait Joinable<T>: Send + Sync {
    fn packet(&self) -> &Packet<T>;
}

impl<I: Send + Sync, F: Send, T: Send> Joinable<T> for Closure<I, F, T> {
    fn packet(&self) -> &Packet<T> {
        &self.packet
    }
}

/// The function of a closure's item.
unsafe extern "C" fn run<I, F: FnOnce() -> T, T>(item: *mut WorkItem) {
    closures::tell!(run::<I, F, T>, std::any::type_name::<F>);
    // SAFETY: the item was queued with one strong reference, which this run takes over; it was
    // queued through the pointer to the whole closure.
    let closure = unsafe { Arc::from_raw(item.cast_const().cast::<Closure<I, F, T>>()) };
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
    // SAFETY: the caller's promise.
    let closure = unsafe { Arc::from_raw(item.as_ptr().cast_const()) };
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
    /// Hands the outcome to the handle. By the run, or whoever is in its place.
    fn deliver(self: Arc<Self>, outcome: Outcome<T>) {
        if Arc::strong_count(&self) == 1 {
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
    fn new() -> Self {
        Self { outcome: UnsafeCell::new(None), done: Event::new(), waker: Mutex::new(None) }
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
    trace::name_closure::<F>(run::<I, F, T>);
    let closure =
        Arc::new(Closure { item, func: UnsafeCell::new(Some(func)), packet: Packet::new() });
    let raw = Arc::into_raw(Arc::clone(&closure)).cast_mut();
    // SAFETY: an `Arc` is not null.
    (unsafe { NonNull::new_unchecked(raw) }, JoinHandle { closure })
}

/// Waits for a closure queued by [`Workqueue::queue`](crate::Workqueue::queue), and has its value.
///
/// Dropping the handle lets the closure run on by itself. The handle is also a future, which does
/// not need any particular executor.
#[must_use = "dropping the handle detaches the item; a panic in it then goes to the panic handler"]
pub struct JoinHandle<T> {
    closure: Arc<dyn Joinable<T>>,
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
        let packet = self.closure.packet();
        if !packet.done.is_set() {
            // The item is the first of the closure's members.
            let what = WaitFor::Item(Arc::as_ptr(&self.closure).cast::<()>() as usize);
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
        let packet = self.closure.packet();
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
        self.closure.packet().done.is_set()
    }

    fn take(&self) -> Result<T, JoinError> {
        debug_assert!(self.is_finished());
        // SAFETY: `done` is set, so the run has written its outcome and will not touch it again;
        // this handle is the only taker.
        let outcome = unsafe { (*self.closure.packet().outcome.get()).take() };
        outcome.expect("joined twice").map_err(JoinError)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let packet = self.closure.packet();
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
