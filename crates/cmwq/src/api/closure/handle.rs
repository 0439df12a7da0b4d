//! The handle's side of a closure.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use cmwq_core::WorkItem;

use super::{AbortOnDrop, End, JoinError, LetGo, Origin, Outcome, Owner, Packet, Shape, State};
use crate::api::refused::Refused;
use crate::engine::item::grab;
use crate::engine::runtime::Runtime;
use crate::engine::threads::current;
use crate::engine::tools::watchdog::WaitFor;
use crate::os::generation;
use crate::os::panic::drop_guarded;
use crate::record::symbol;

/// Waits for a closure queued by [`Workqueue::queue`](crate::Workqueue::queue), and has its value.
///
/// Dropping the handle neither waits nor cancels: the closure runs on by itself.
/// [`cancel`](Self::cancel) cancels it if it has not begun, and
/// [`abort_on_drop`](Self::abort_on_drop) has that done when the handle is dropped.
///
/// If the handle is dropped before the closure returns, the worker drops the value. If the closure
/// has returned, the thread that drops the handle does. A panic that nobody joins goes to the
/// [panic handler](crate::set_panic_handler), on the same thread. What the
/// closure captured is dropped on the worker when its function returns, and by
/// [`cancel`](Self::cancel) on the calling thread; where a queue refuses the closure, on the thread
/// that queues it, or, when its time has come, on a worker.
///
/// The handle is also a future, which does not need any particular executor. Once it was ready it
/// must neither be polled again nor joined: both panic.
///
/// In a forked child, the handle of a closure that the parent had queued is worth something only if
/// the closure had returned before the fork. Otherwise it does not run there:
/// [`join`](Self::join), [`join_timeout`](Self::join_timeout) and the future say at once that it
/// was [refused](JoinError::is_refused), and what it captured is left as it is;
/// [`cancel`](Self::cancel) drops that.
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

    /// The item's function.
    fn func(self) -> usize {
        // SAFETY: called by the handle, so the closure is there, and the item is the first of its
        // members.
        let item = unsafe { self.whole.cast::<WorkItem>().as_ref() };
        item.func() as *const () as usize
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
            self.dispose(&());
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
    /// visible. There is no time limit; [`join_timeout`](Self::join_timeout) has one.
    ///
    /// Blocks the calling thread; a task of an executor awaits the handle instead. Called from a
    /// work function, it counts as blocking at once: another worker takes over. A work function
    /// must not wait so for itself, by a handle that it was given later, nor for an item that
    /// cannot begin before its own end: of the same [ordered](crate::Builder::ordered) queue, or
    /// one behind a [`max_active`](crate::Builder::max_active) that items like itself use up. That
    /// is a deadlock, which the [watchdog](crate::watchdog) names where items wait behind it.
    ///
    /// # Errors
    /// If the closure panicked, the panic's payload; or that it did not run
    /// ([`is_refused`](JoinError::is_refused)), because its queue was being drained, was closed, or
    /// the library was shut down.
    ///
    /// # Panics
    /// "joined twice", if the handle was awaited to its end before.
    /// ```
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// assert_eq!(wq.queue(|| 6 * 7).join().unwrap(), 42);
    /// assert!(wq.queue(|| panic!("no")).join().is_err());
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    pub fn join(mut self) -> Result<T, JoinError> {
        self.wait_and_take()
    }

    /// Joins.
    pub(crate) fn wait_and_take(&mut self) -> Result<T, JoinError> {
        if let Some(closure) = self.closure {
            let state = self.state_of(closure);
            if self.is_lost(closure) {
                return self.give_up();
            }
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
    /// Zero only looks. A time beyond what the clock can show, such as [`Duration::MAX`], is no
    /// limit. Time in which the machine is suspended does not count. It blocks as `join` does.
    ///
    /// # Errors
    /// The handle, if the closure has not returned yet. What `join` returns as an error is the
    /// inner result.
    ///
    /// # Panics
    /// As `join`: if the handle was awaited to its end before.
    pub fn join_timeout(mut self, timeout: Duration) -> Result<Result<T, JoinError>, Self> {
        // A time that no clock will ever show is as good as none.
        let deadline = Instant::now().checked_add(timeout);
        if let Some(closure) = self.closure {
            let state = self.state_of(closure);
            if self.is_lost(closure) {
                return Ok(self.give_up());
            }
            // A look is no wait.
            if !timeout.is_zero() && !state.is_done() {
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
        }
        if self.is_finished() { Ok(self.take()) } else { Err(self) }
    }

    /// Whether [`join`](Self::join) would return at once: the closure has returned, has panicked,
    /// or was refused. Also `true` of a handle that was awaited to its end, which must not be
    /// joined. Never blocks.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.closure.is_none_or(|closure| self.state_of(closure).is_done() || self.is_lost(closure))
    }

    /// Cancels the closure if it has not begun: `None`, it will not run, and what it captured was
    /// dropped by this call. `Some`, the handle: it has begun, or it has returned, panicked or been
    /// refused. A closure of [`queue_delayed`](crate::Workqueue::queue_delayed) is cancelled also
    /// while its timer is armed.
    /// Does not wait for a run in progress. It takes the lock of a pool and perhaps that of the
    /// timers; while another thread is just about to put the closure on its queue, it waits for
    /// that, which is for microseconds. It may be called from anywhere, work functions and futures
    /// included.
    ///
    /// Nobody is told of the cancelling but the caller: a waker that the handle was polled with is
    /// dropped, not woken. A panic of what the closure captured, when it is dropped, is swallowed.
    /// In a forked child, a closure that the parent had queued, and that waits there, is cancelled
    /// as well.
    ///
    /// KERNEL: `cancel_work`, `cancel_delayed_work` — same.
    ///
    /// ```
    /// use std::time::Duration;
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// let reminder = wq.queue_delayed(|| println!("too late"), Duration::from_secs(3600));
    /// assert!(reminder.cancel().is_none(), "it had not begun");
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[must_use = "`Some` is the handle of a closure that has begun: it can still be joined"]
    #[doc(alias = "abort")]
    #[doc(alias = "cancel_work")]
    pub fn cancel(mut self) -> Option<Self> {
        let Some(closure) = self.closure else { return Some(self) };
        // SAFETY: this handle's, which keeps it.
        let target = unsafe { closure.shape.target(closure.whole) };
        let is_mine = !self.state_of(closure).is_done()
            && Runtime::global().is_ok_and(|runtime| grab::take_back(runtime, target));
        if !is_mine {
            return Some(self);
        }
        self.closure = None;
        let waker = closure.take_waker();
        // SAFETY: nobody else knows of the closure any more; it has not run, and nothing is left in
        // it then.
        unsafe {
            (closure.shape.let_go)(closure.whole, closure.shape, LetGo::TakenBack);
            closure.shape.free(closure.whole);
        }
        drop_guarded(waker);
        None
    }

    /// As [`cancel`](Self::cancel), and waits for a run in progress: `None`, the closure will not
    /// run; `Some`, what [`join`](Self::join) says of it. Afterwards nothing of it is left, either
    /// way.
    ///
    /// It waits as [`join`](Self::join) does, without a time limit. Called from a work function, it
    /// counts as blocking at once if it waits.
    ///
    /// KERNEL: `cancel_work_sync`, `cancel_delayed_work_sync` — same, with the value.
    ///
    /// # Panics
    /// As `join` does, if the handle was awaited to its end already.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// match wq.queue(|| 6 * 7).cancel_sync() {
    ///     None => println!("it did not run"),
    ///     Some(value) => assert_eq!(value.unwrap(), 42),
    /// }
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "cancel_work_sync")]
    pub fn cancel_sync(self) -> Option<Result<T, JoinError>> {
        self.cancel().map(Self::join)
    }

    /// A handle that [cancels](Self::cancel) the closure when it is dropped: for closures that
    /// nobody needs when nobody waits, as in a future that is dropped.
    pub fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop::new(self)
    }

    /// Whether the calling thread runs this closure, which would wait for itself if it joined.
    pub(crate) fn is_running_here(&self) -> bool {
        self.closure.is_some_and(|closure| {
            // SAFETY: this handle's, which keeps it, and the item is the first of its members.
            let item = unsafe { closure.whole.cast::<WorkItem>().as_ref() };
            current::is_running(item)
        })
    }

    #[inline]
    fn state_of(&self, closure: Parts) -> &State {
        // SAFETY: this handle's, which keeps it.
        unsafe { &closure.packet().state }
    }

    /// Whether the closure will not be done in this process, since its parent had queued it.
    #[inline]
    fn is_lost(&self, closure: Parts) -> bool {
        // SAFETY: this handle's, which keeps it.
        let target = || unsafe { closure.shape.target(closure.whole) };
        generation::is_child() && !self.state_of(closure).is_done() && grab::is_lost(target())
    }

    /// Lets go of a closure that is [lost](Self::is_lost). Its memory is not freed, since it may be
    /// in the midst of its run.
    #[cold]
    fn give_up(&mut self) -> Result<T, JoinError> {
        self.closure = None;
        Err(JoinError::refused(Refused::Forked))
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
        drop_guarded(waker);
        outcome
    }

    /// As `drop`, where what nobody joins is told to `owner`, who is the closure's.
    pub(crate) fn let_go(&mut self, owner: &impl Owner) {
        if self.closure.is_some_and(|closure| self.state_of(closure).detach()) {
            self.closure = None;
        }
        self.dispose(owner);
    }

    /// As `drop`, for a closure that is done or was polled.
    #[cold]
    fn dispose(&mut self, owner: &impl Owner) {
        while let Some(closure) = self.closure {
            let state = self.state_of(closure);
            if let Some(end) = state.end() {
                let origin = Origin::Elsewhere(closure.func());
                return owner.unjoined(self.take_outcome(closure, end), origin);
            }
            let waker = closure.take_waker();
            drop_guarded(waker);
            if state.detach() {
                self.closure = None;
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
        // Cloning may panic, and dropping the one before may, too. Neither may leave a waker in the
        // cell that is not published: nobody would drop it.
        let (kept, before) = match cell.take() {
            Some(there) if there.will_wake(waker) => (there, None),
            Some(mut there) => {
                let before = mem::replace(&mut *there, waker.clone());
                (there, Some(before))
            }
            None => (Box::new(waker.clone()), None),
        };
        *cell = Some(kept);
        let is_published = packet.state.publish_waker();
        drop(before);
        is_published
    }
}

/// Ready when the closure has returned or was refused, with what [`join`](JoinHandle::join)
/// returns. The waker that it was polled with last is woken then. Polling never blocks.
///
/// # Panics
/// `poll` panics ("joined twice") when it is called again after it was ready.
impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.closure {
            Some(closure) if self.is_lost(closure) => Poll::Ready(self.give_up()),
            Some(closure) if self.leave_waker(closure, cx.waker()) => Poll::Pending,
            _ => Poll::Ready(self.take()),
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("JoinHandle");
        if let Some(closure) = &self.closure {
            fields.field("function", &format_args!("{}", symbol::short(closure.func())));
        }
        fields.field("is_finished", &self.is_finished()).finish()
    }
}
