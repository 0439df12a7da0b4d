//! This crate's own read-side sections, and the callbacks that wait for their end.
//!
//! The simplest correct way: one lock around [`Epochs`]. Entering and leaving a section take it for
//! a moment, so it is for programs with a moderate number of readers; others use liburcu or the
//! like, and [register it](crate::set_grace_periods). A waiter is called by the reader that leaves
//! last, or at once if there is no reader: there is no thread.
//!
//! One thread at a time calls the waiters that are ready, in order, without the lock; those that
//! become ready meanwhile are left to it. So when a barrier is called, all waiters before it have
//! been called.
//!
//! Lock: [`READERS`], innermost; nothing is queued, woken or dropped under it.
//!
//! Why: docs/decisions/rcu-readers-lock.md

mod epochs;

use epochs::Epochs;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::engine::threads::current;
use crate::os::notice;
use crate::os::park::Event;
use crate::os::sync::plain::PoisonError;
use crate::os::sync::{Arc, PlainMutex};

static READERS: PlainMutex<Readers> =
    PlainMutex::new(Readers { epochs: Epochs::new(), is_calling: false, were_any: false });

crate::os::sync::thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

pub(crate) struct Readers {
    epochs: Epochs<Waiter>,
    /// A thread is calling waiters that are ready.
    is_calling: bool,
    /// A reader has ever been inside.
    were_any: bool,
}

/// A waiter for the end of read-side sections.
enum Waiter {
    /// An item, and the function that is called with it.
    Item(NonNull<()>, unsafe fn(NonNull<()>)),
    Barrier(Arc<Event>),
}

// SAFETY: an item in a grace period is owned by the thread that ends the grace period, which may be
// any thread.
unsafe impl Send for Waiter {}

impl Waiter {
    fn call(self) {
        match self {
            // SAFETY: valid and owned, by the promise of `wait_for_readers`; called once.
            Self::Item(item, go) => unsafe { go(item) },
            Self::Barrier(done) => done.set(),
        }
    }
}

/// See `fork`.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) type ReadersGuard = crate::os::sync::PlainGuard<'static, Readers>;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) fn lock_readers() -> ReadersGuard {
    crate::os::sync::lock_plain(&READERS)
}

/// In a child: the forking thread is the only reader that is left, and the waiters are the
/// parent's.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) fn leave_behind(readers: &mut ReadersGuard) {
    let depth = DEPTH.try_with(Cell::get).unwrap_or_default();
    std::mem::forget(readers.epochs.leave_behind(u64::from(depth)));
    readers.is_calling = false;
}

/// Changes the state, and calls the waiters that are ready then.
fn change<R>(what: impl FnOnce(&mut Readers) -> R) -> R {
    let lock = || READERS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut readers = lock();
    let result = what(&mut readers);
    if readers.is_calling {
        return result;
    }
    while let Some(waiter) = readers.epochs.next() {
        readers.is_calling = true;
        drop(readers);
        waiter.call();
        readers = lock();
        readers.is_calling = false;
    }
    result
}

/// Begins a section of the calling thread. The caller sees to it that forks are noticed.
pub(crate) fn enter() -> RcuReadGuard {
    let generation = change(|readers| {
        readers.were_any = true;
        readers.epochs.enter()
    });
    let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
    RcuReadGuard { generation, _of_this_thread: PhantomData }
}

/// A read-side section, until it is dropped; see [`rcu_read_lock`](crate::rcu_read_lock).
#[must_use = "the section ends when the guard is dropped"]
pub struct RcuReadGuard {
    generation: u64,
    /// For `DEPTH`.
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for RcuReadGuard {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() - 1));
        change(|readers| readers.epochs.leave(self.generation));
    }
}

impl fmt::Debug for RcuReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RcuReadGuard").finish_non_exhaustive()
    }
}

/// Calls `go` with the item, once, on any thread, when all readers that are inside now have left.
///
/// # Safety
/// That must be sound.
pub(crate) unsafe fn wait_for_readers(item: NonNull<()>, go: unsafe fn(NonNull<()>)) {
    change(|readers| readers.epochs.wait(Waiter::Item(item, go)));
}

/// Waits until all earlier waiters have been called.
pub(crate) fn barrier() {
    let done = Arc::new(Event::new());
    change(|readers| readers.epochs.wait(Waiter::Barrier(Arc::clone(&done))));
    if !done.is_set() {
        current::blocking(|| done.wait(None));
    }
}

/// Waits until all readers that are inside now have left. `false`: the caller is one of them; this
/// is reported, and nothing was waited for.
pub(crate) fn synchronize() -> bool {
    if says_waits_for_itself() {
        return false;
    }
    barrier();
    true
}

/// Whether the program has ever used [`rcu_read_lock`](crate::rcu_read_lock).
pub(crate) fn were_any() -> bool {
    change(|readers| readers.were_any)
}

/// Whether the caller is a reader, and so about to wait for itself. Reports that each time.
pub(crate) fn says_waits_for_itself() -> bool {
    let is_reader = DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(false);
    if is_reader {
        notice::always(
            "a grace period is waited for inside of rcu_read_lock, which would wait for that \
             section for ever; the call \
             returns without waiting"
                .to_owned(),
        );
    }
    is_reader
}
