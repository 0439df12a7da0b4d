//! Closures that borrow: a scope that does not end before they have.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::api::closure::{FORKED, REFUSED};
use crate::api::workqueue::Workqueue;
use crate::engine::current;
use crate::os::countdown::Countdown;
use crate::os::generation;
use crate::os::park::Event;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, Mutex, Ordering, lock};
use crate::record::symbol;

/// A scope on a queue, made by [`Workqueue::scope`]; `'scope` is how long it lasts, `'env` what it
/// may borrow.
pub struct Scope<'scope, 'env: 'scope> {
    wq: &'scope Workqueue,
    books: Arc<Books>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Counts the scope itself and its items that have not finished.
struct Books {
    unfinished: Countdown,
    all_done: Event,
    panicked: AtomicBool,
    /// The process that is counted for.
    // ORDERING (all accesses): no pairing: it changes in a child, while that has one thread.
    generation: AtomicU32,
}

impl Books {
    /// In a forked child, forgets what the parent had queued.
    fn begin_in_child(&self) {
        let generation = generation::current();
        if self.generation.load(Ordering::Relaxed) == generation {
            return;
        }
        self.generation.store(generation, Ordering::Relaxed);
        if self.unfinished.begin_anew() {
            // ORDERING: no pairing: as above.
            self.panicked.store(true, Ordering::Relaxed);
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
    /// message "a scoped work item panicked", if a closure panicked that was not joined, or was
    /// refused since the queue is being drained, is closed or was shut down. What a closure
    /// panicked with is told by [`ScopedJoinHandle::join`].
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
        let books = Arc::new(Books {
            unfinished: Countdown::new(),
            all_done: Event::new(),
            panicked: AtomicBool::new(false),
            generation: AtomicU32::new(generation::current()),
        });
        let scope =
            Scope { wq: self, books: Arc::clone(&books), scope: PhantomData, env: PhantomData };
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        books.begin_in_child();
        books.one_done();
        if !books.all_done.is_set() {
            current::blocking(|| books.all_done.wait(None));
        }
        match result {
            Err(panic) => resume_unwind(panic),
            // ORDERING: no pairing: ordered by `all_done`.
            Ok(_) if books.panicked.load(Ordering::Relaxed) => {
                panic!("a scoped work item panicked")
            }
            Ok(value) => value,
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Queues a closure that may borrow what outlives the scope. See [`Workqueue::queue`].
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
        let books = Arc::clone(&self.books);
        books.begin_in_child();
        books.unfinished.add();
        let slot = Arc::new(Slot {
            outcome: Mutex::new(None),
            done: Event::new(),
            generation: generation::current(),
            books: Arc::clone(&books),
        });
        let ticket = Ticket { slot: Some(Arc::clone(&slot)), books };
        let body = Body { func, ticket };
        let body: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || body.run());
        // SAFETY: `scope` does not return before `one_done` was called for this closure, and
        // everything that borrows has been dropped by then; only the lifetime is changed. In a
        // forked child, what the parent had queued is neither run nor dropped.
        let body: Box<dyn FnOnce() + Send + 'static> = unsafe { mem::transmute(body) };
        drop(self.wq.queue_closure::<N, _, ()>(cpu, body));
        ScopedJoinHandle { slot, wq: self.wq, function: symbol::name_of_type::<N> }
    }
}

/// A scoped closure. Not run, it is dropped in this order: what borrows first.
struct Body<F, T> {
    func: F,
    ticket: Ticket<T>,
}

impl<F: FnOnce() -> T, T> Body<F, T> {
    fn run(self) {
        let Self { func, mut ticket } = self;
        let outcome = catch_unwind(AssertUnwindSafe(func));
        ticket.settle(outcome);
    }
}

/// A closure's duty to its scope, which it does whether it runs or not: a queue that is being
/// drained refuses it.
struct Ticket<T> {
    slot: Option<Arc<Slot<T>>>,
    books: Arc<Books>,
}

impl<T> Ticket<T> {
    fn settle(&mut self, outcome: Result<T, Box<dyn Any + Send>>) {
        let Some(slot) = self.slot.take() else { return };
        *lock(&slot.outcome) = Some(outcome);
        slot.done.set();
        // Nothing that borrows is left when the scope is told.
        drop(slot);
        self.books.one_done();
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        self.settle(Err(Box::new(REFUSED)));
    }
}

/// Where a closure leaves its outcome, shared with its handle.
struct Slot<T> {
    outcome: Mutex<Option<Result<T, Box<dyn Any + Send>>>>,
    done: Event,
    /// The process that queued it.
    generation: u32,
    books: Arc<Books>,
}

impl<T> Slot<T> {
    /// Whether it will never be done: the parent of this forked process had queued it.
    fn is_lost(&self) -> bool {
        self.generation != generation::current() && !self.done.is_set()
    }
}

impl<T> Drop for Slot<T> {
    /// The outcome that nobody took is dropped by the last of the two, while what it borrows is
    /// there.
    fn drop(&mut self) {
        let outcome = lock(&self.outcome).take();
        let panicked = matches!(outcome, Some(Err(_)));
        // It may panic, and must not unwind into the worker; what it panics with may, too, and is
        // leaked.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(outcome))).map_err(mem::forget);
        if panicked || dropped.is_err() {
            // ORDERING: no pairing: ordered by `one_done`, or by the scope's own thread.
            self.books.panicked.store(true, Ordering::Relaxed);
        }
    }
}

/// Waits for a scoped closure and has its value. Dropping it does not wait: the end of the scope
/// does. A panic of the closure then makes [`Workqueue::scope`] panic.
pub struct ScopedJoinHandle<'scope, T> {
    slot: Arc<Slot<T>>,
    wq: &'scope Workqueue,
    /// The name of what was queued.
    function: fn() -> &'static str,
}

impl<T> ScopedJoinHandle<'_, T> {
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
        if self.slot.is_lost() {
            return Err(Box::new(FORKED));
        }
        if !self.slot.done.is_set() {
            current::blocking(|| self.slot.done.wait(None));
        }
        lock(&self.slot.outcome).take().expect("a scoped item finished without an outcome")
    }

    /// Whether the closure has returned, has panicked, or was refused.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.slot.done.is_set() || self.slot.is_lost()
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unfinished = self.books.unfinished.left();
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
