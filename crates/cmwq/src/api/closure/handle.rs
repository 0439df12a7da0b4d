//! The handle's side of a closure.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::{End, JoinError, Outcome, Packet, Shape, State};
use crate::engine::current;
use crate::engine::worker::guarded;
use crate::observe::watchdog::WaitFor;

/// Waits for a closure queued by [`Workqueue::queue`](crate::Workqueue::queue), and has its value.
///
/// Dropping the handle lets the closure run on by itself. The handle is also a future, which does
/// not need any particular executor.
#[must_use = "dropping the handle detaches the item; a panic in it then goes to the panic handler"]
pub struct JoinHandle<T> {
    /// Until the value is taken.
    closure: Option<Parts>,
    value: PhantomData<fn() -> T>,
}

/// A closure, to those who do not know its type.
#[derive(Clone, Copy)]
struct Parts {
    whole: NonNull<u8>,
    shape: &'static Shape,
}

// SAFETY: a closure's function and value can be sent, and what is shared of it is made for it: see
// `state`.
unsafe impl<T> Send for JoinHandle<T> {}
// SAFETY: as above; a shared handle only tells whether the closure is done.
unsafe impl<T> Sync for JoinHandle<T> {}

impl Parts {
    /// # Safety
    /// The closure must be there as long as the result is used.
    #[inline]
    unsafe fn packet<'a>(self) -> &'a Packet {
        // SAFETY: within the closure, changed only by way of cells; and the caller's promise.
        unsafe { self.whole.byte_add(self.shape.packet).cast::<Packet>().as_ref() }
    }

    fn body(self) -> *mut u8 {
        // SAFETY: within the closure.
        unsafe { self.whole.byte_add(self.shape.body).as_ptr() }
    }

    /// Takes a waker out that is the handle's.
    fn take_waker(self) -> Option<Box<Waker>> {
        // SAFETY: called by the handle, so the closure is there.
        let packet = unsafe { self.packet() };
        // SAFETY: checked; and only this thread acts for the handle.
        packet.state.withdraw_waker().then(|| unsafe { (*packet.waker.get()).take() }).flatten()
    }
}

impl<T> Drop for JoinHandle<T> {
    #[inline]
    fn drop(&mut self) {
        if !self.closure.is_none_or(|closure| self.state_of(closure).detach()) {
            self.dispose();
        }
    }
}

impl<T> JoinHandle<T> {
    /// # Safety
    /// `whole` must be a closure of this shape, with a value of type `T`, and without a handle.
    #[inline]
    pub(super) unsafe fn of(whole: NonNull<u8>, shape: &'static Shape) -> Self {
        Self { closure: Some(Parts { whole, shape }), value: PhantomData }
    }

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
    pub fn join(mut self) -> Result<T, JoinError> {
        if let Some(closure) = self.closure {
            let state = self.state_of(closure);
            if !state.is_done() {
                // The item is the first of the closure's members.
                let what = WaitFor::Item(closure.whole.addr().get());
                current::waiting_for(what, || while !state.wait(None) {});
            }
        }
        self.take()
    }

    /// As [`join`](Self::join), but gives up after `timeout` and returns the handle.
    ///
    /// # Errors
    /// The handle, if the closure has not returned yet.
    pub fn join_timeout(mut self, timeout: Duration) -> Result<Result<T, JoinError>, Self> {
        // A time that no clock will ever show is as good as none.
        let deadline = Instant::now().checked_add(timeout);
        if let Some(closure) = self.closure {
            let state = self.state_of(closure);
            current::blocking(|| {
                while !state.is_done() {
                    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
                    if left.is_some_and(|left| left.is_zero()) {
                        break;
                    }
                    state.wait(left);
                }
            });
        }
        if self.is_finished() { Ok(self.take()) } else { Err(self) }
    }

    /// Whether the closure has returned or panicked.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.closure.is_none_or(|closure| self.state_of(closure).is_done())
    }

    #[inline]
    fn state_of(&self, closure: Parts) -> &State {
        // SAFETY: this handle's, which keeps it.
        unsafe { &closure.packet().state }
    }

    fn take(&mut self) -> Result<T, JoinError> {
        let closure = self.closure.expect("joined twice");
        let end = self.state_of(closure).end().expect("joined too early");
        self.take_outcome(closure, end).joined()
    }

    /// Takes what came of the closure, and lets go of it.
    fn take_outcome(&mut self, closure: Parts, end: End) -> Outcome<T> {
        self.closure = None;
        // SAFETY: from the end on the outcome is the handle's, which takes it once.
        let outcome = unsafe { Outcome::take(closure.body(), end) };
        let waker = closure.take_waker();
        // SAFETY: the handle keeps it until it leaves.
        if unsafe { closure.packet() }.state.leave_handle() {
            // SAFETY: nobody touches it any more, and nothing is left in it that needs to be
            // dropped.
            unsafe { closure.shape.free(closure.whole) };
        }
        guarded(|| drop(waker));
        outcome
    }

    /// As `drop`, for a closure that is done or was polled.
    #[cold]
    fn dispose(&mut self) {
        while let Some(closure) = self.closure {
            let state = self.state_of(closure);
            if let Some(end) = state.end() {
                return self.take_outcome(closure, end).unjoined();
            }
            let waker = closure.take_waker();
            guarded(|| drop(waker));
            if state.detach() {
                return;
            }
        }
    }

    /// Leaves a waker. `false`: the closure is done.
    fn leave_waker(&self, closure: Parts, waker: &Waker) -> bool {
        // SAFETY: this handle's, which keeps it.
        let packet = unsafe { closure.packet() };
        if packet.state.is_done() || !packet.state.withdraw_waker() {
            return false;
        }
        // SAFETY: the cell is the handle's, for which only this thread acts.
        let cell = unsafe { &mut *packet.waker.get() };
        match cell {
            Some(there) => (**there).clone_from(waker),
            None => *cell = Some(Box::new(waker.clone())),
        }
        packet.state.publish_waker()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.closure {
            Some(closure) if self.leave_waker(closure, cx.waker()) => Poll::Pending,
            _ => Poll::Ready(self.take()),
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}
