//! Closures that borrow: a scope that does not end before they have.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::api::closure::{JoinError, JoinHandle, Origin, Outcome, Owner};
use crate::api::workqueue::Workqueue;
use crate::engine::threads::current;
use crate::os::countdown::Countdown;
use crate::os::generation;
use crate::os::must_return::while_stack_is_shared;
use crate::os::park::Event;
use crate::os::sync::{Arc, AtomicBool, Ordering};
use crate::record::symbol;

/// A scope on a queue, made by [`Workqueue::scope`]; `'scope` is how long it lasts, `'env` what it
/// may borrow.
pub struct Scope<'scope, 'env: 'scope> {
    wq: &'scope Workqueue,
    state: Arc<State>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Counts the scope itself and its items that have not finished.
struct State {
    unfinished: Countdown,
    all_done: Event,
    panicked: AtomicBool,
    refused: AtomicBool,
}

impl State {
    /// In a forked child, forgets what the parent had queued.
    fn begin_in_child(&self) {
        if self.unfinished.begin_in(generation::current()) {
            // ORDERING: no pairing: ordered by `one_done` of the caller, who is counted.
            self.refused.store(true, Ordering::Relaxed);
        }
    }

    fn one_done(&self) {
        if self.unfinished.done() {
            self.all_done.set();
        }
    }
}

impl Workqueue {
    /// Runs `f` with a scope whose closures may borrow from outside of it, and waits for all of
    /// them, without a time limit: the calling thread does, which counts as blocking in a work
    /// function. All that the closures did is visible.
    ///
    /// An item must not open a scope on a queue where its closures cannot begin before its own end:
    /// an [ordered](crate::Builder::ordered) one that it is on, or one whose
    /// [`max_active`](crate::Builder::max_active) items like itself use up. That is a deadlock.
    ///
    /// In a child that is forked inside of `f`, what the parent had queued and what had not
    /// finished is refused: it does not run there, and what it captured is left as it is.
    ///
    /// There is none to `await`: a future can be forgotten or dropped while its closures run, and
    /// what they borrow would be gone then. A task gives each closure what it owns and awaits the
    /// [`JoinHandle`](crate::JoinHandle)s, which are futures, or calls this from a closure that it
    /// awaits.
    ///
    /// # Panics
    /// When all closures have finished: with the payload of `f`, if that panicked; else with the
    /// message "a scoped work item panicked", if a closure panicked that was not joined, or "a
    /// scoped work item was refused", if one was since the queue is being drained, is closed or was
    /// shut down. What a closure panicked with, and why it was refused, is told by
    /// [`ScopedJoinHandle::join`]. The scope's methods that queue panic where
    /// [`queue`](Workqueue::queue) does.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// let words = ["to", "be"];
    /// let mut lengths = [0; 2];
    /// wq.scope(|s| {
    ///     for (word, length) in words.iter().zip(&mut lengths) {
    ///         s.queue(move || *length = word.len());
    ///     }
    /// });
    /// assert_eq!(lengths, [2, 2]);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    pub fn scope<'env, F, R>(&self, f: F) -> R
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    {
        let state = Arc::new(State {
            unfinished: Countdown::new_in(generation::current()),
            all_done: Event::new(),
            panicked: AtomicBool::new(false),
            refused: AtomicBool::new(false),
        });
        let scope =
            Scope { wq: self, state: Arc::clone(&state), scope: PhantomData, env: PhantomData };
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        while_stack_is_shared("Workqueue::scope", || {
            state.begin_in_child();
            state.one_done();
            if !state.all_done.is_set() {
                current::blocking(|| state.all_done.wait(None));
            }
        });
        match result {
            Err(panic) => resume_unwind(panic),
            // ORDERING: no pairing: ordered by `all_done`.
            Ok(_) if state.panicked.load(Ordering::Relaxed) => {
                panic!("a scoped work item panicked")
            }
            // ORDERING: as above.
            Ok(_) if state.refused.load(Ordering::Relaxed) => {
                panic!("a scoped work item was refused")
            }
            Ok(value) => value,
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Queues a closure that may borrow what outlives the scope. See [`Workqueue::queue`].
    ///
    /// # Panics
    /// If more than 2,147,483,647 closures of the scope have not finished.
    pub fn queue<F, T>(&'scope self, func: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.queue_for::<F, F, T>(None, func)
    }

    /// As [`queue`](Self::queue), for a CPU as in [`Workqueue::queue_on`].
    pub fn queue_on<F, T>(&'scope self, cpu: u32, func: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.queue_for::<F, F, T>(Some(cpu), func)
    }

    /// As [`Workqueue::queue_closure`].
    pub(crate) fn queue_for<N, F, T>(
        &'scope self,
        cpu: Option<u32>,
        func: F,
    ) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.state.begin_in_child();
        self.state.unfinished.add();
        let ticket = Ticket(Arc::clone(&self.state));
        // SAFETY: `scope` does not return before the ticket is dropped, here or by the run, and the
        // handle lives no longer than the scope. In a forked child, what the parent had queued is
        // neither run nor dropped.
        let handle = unsafe { self.wq.queue_borrowing::<N, F, Ticket, T>(cpu, func, ticket) };
        let function = symbol::name_of_type::<N>;
        ScopedJoinHandle { handle, state: &self.state, wq: self.wq, function }
    }
}

/// A closure's duty to its scope, which it does whether it runs or not: a queue that is being
/// drained refuses it.
struct Ticket(Arc<State>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.one_done();
    }
}

impl Owner for Ticket {
    fn unjoined<T>(&self, outcome: Outcome<T>, origin: Origin) {
        Owner::unjoined(&*self.0, outcome, origin);
    }
}

impl Owner for State {
    fn unjoined<T>(&self, outcome: Outcome<T>, _: Origin) {
        let has_panicked = matches!(outcome, Outcome::Panicked(_));
        if matches!(outcome, Outcome::Refused(_)) {
            // ORDERING (both): no pairing: ordered by `one_done`, or by the scope's own thread.
            self.refused.store(true, Ordering::Relaxed);
        }
        // It may panic, and must not unwind into the worker; what it panics with may, too, and is
        // leaked.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(outcome))).map_err(mem::forget);
        if has_panicked || dropped.is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
    }
}

/// Waits for a scoped closure and has its value. Dropping it does not wait: the end of the scope
/// does. A panic of the closure then makes [`Workqueue::scope`] panic.
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    state: &'scope State,
    wq: &'scope Workqueue,
    /// The name of what was queued.
    function: fn() -> &'static str,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// As [`join`](Self::join).
    pub(crate) fn outcome(mut self) -> Result<T, JoinError> {
        self.handle.wait_and_take()
    }

    /// Waits until the closure has returned, and returns its value. Blocks without a time limit; in
    /// a work function that counts as blocking at once. See
    /// [`JoinHandle::join`](crate::JoinHandle::join) about deadlocks.
    ///
    /// # Errors
    /// Not a [`JoinError`](crate::JoinError), but the panic's payload, if the closure panicked; or
    /// a `&str` as payload that says so, if the queue refused it, being drained, closed or shut
    /// down, or if the parent of this forked process had queued it.
    /// # Panics
    /// Never: an outcome is there once the closure is done, and only this takes it.
    pub fn join(self) -> Result<T, Box<dyn Any + Send>> {
        self.outcome().map_err(JoinError::into_payload)
    }

    /// Whether the closure has returned, has panicked, or was refused.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        self.handle.let_go(self.state);
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unfinished = self.state.unfinished.left();
        f.debug_struct("Scope").field("wq", self.wq).field("unfinished", &unfinished).finish()
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle")
            .field("function", &format_args!("{}", (self.function)()))
            .field("queue", &self.wq.name())
            .field("is_finished", &self.is_finished())
            .finish()
    }
}
