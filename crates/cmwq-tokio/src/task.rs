//! A closure on its way: what its item, its handle and those who abort it share.
//!
//! One lock guards all of it. Nothing of the user's runs or is dropped while it is held: neither
//! the closure, nor its value, nor a waker.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use tokio::sync::OwnedSemaphorePermit;

use crate::context::{Context, within};

/// See the module header.
pub(crate) struct Task<F, T>(Mutex<State<F, T>>);

struct State<F, T> {
    stage: Stage<F, T>,
    /// Of the handle, while it waits.
    waker: Option<Waker>,
    /// The handle is gone: nobody wants the value.
    is_detached: bool,
    /// To take the item back with; until somebody has.
    item: Option<cmwq::JoinHandle<()>>,
}

enum Stage<F, T> {
    /// Has not begun.
    Waiting(Job<F>),
    /// The closure runs, or is being dropped.
    Begun,
    Ended(End<T>),
    /// The handle has taken the end, or nobody will.
    Over,
}

/// What a task does, until it begins.
pub(crate) struct Job<F> {
    pub(crate) func: F,
    pub(crate) context: Context,
    /// The place in the queue that was reserved. It is free when the closure begins.
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

/// What came of a task.
pub(crate) enum End<T> {
    Value(T),
    Panicked(Box<dyn Any + Send>),
    Cancelled,
}

impl<F, T> Task<F, T> {
    pub(crate) fn new(job: Job<F>) -> Arc<Self> {
        let stage = Stage::Waiting(job);
        Arc::new(Self(Mutex::new(State { stage, waker: None, is_detached: false, item: None })))
    }

    /// No panic can happen while it is locked, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State<F, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The item that was queued for this task.
    pub(crate) fn set_item(&self, item: cmwq::JoinHandle<()>) {
        let before = self.lock().item.replace(item);
        debug_assert!(before.is_none(), "a task is queued once");
    }

    /// Takes the job out of a task that has not begun, and will not.
    pub(crate) fn take_job(&self) -> Option<Job<F>> {
        self.lock().take_job()
    }

    /// Delivers the end to the handle, if there is one.
    fn end(&self, end: End<T>) {
        let mut state = self.lock();
        if state.is_detached {
            state.stage = Stage::Over;
            let item = state.item.take();
            drop(state);
            // Who can only abort the task hears of nothing either.
            drop(item);
            // Nobody else will hear of a panic than cmwq's handler.
            return if let End::Panicked(payload) = end {
                resume_unwind(payload)
            };
        }
        state.stage = Stage::Ended(end);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// What the item has of a task: it runs it, or, dropped before, cancels it.
pub(crate) struct Run<F, T>(pub(crate) Arc<Task<F, T>>);

impl<F: FnOnce() -> T, T> Run<F, T> {
    /// A panic leaves it only if there is no handle to tell of it.
    pub(crate) fn run(self) {
        let Some(Job { func, context, place }) = self.0.take_job() else { return };
        // That wakes who waits for a place. It runs although that one's waker may panic.
        drop_quietly(place);
        let end = match context.run(func) {
            Ok(value) => End::Value(value),
            Err(payload) => End::Panicked(payload),
        };
        let runtime = context.leave_span();
        // A value that nobody wants is dropped by that, and may need the runtime, too.
        if let Err(payload) = within(&runtime, || self.0.end(end)) {
            resume_unwind(payload);
        }
    }
}

impl<F, T> Drop for Run<F, T> {
    fn drop(&mut self) {
        if let Some(job) = self.0.take_job() {
            self.0.cancel(job);
        }
    }
}

impl<F, T> Task<F, T> {
    /// Ends a task whose job was taken, and will not be done.
    fn cancel(&self, Job { func, context, place }: Job<F>) {
        // What the closure has captured may need the runtime as it is dropped, on whatever thread.
        // The closure is gone, and its place is free, before anybody hears of it.
        let dropped = within(&context.leave_span(), || drop(func));
        drop_quietly(place);
        self.end(match dropped {
            Ok(()) => End::Cancelled,
            Err(payload) => End::Panicked(payload),
        });
    }
}

/// Drops what may panic then. That goes no further than the panic hook.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value)))
        && let Err(worse) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
    {
        mem::forget(worse);
    }
}

/// What can be done to a task whose value nobody looks at.
pub(crate) trait Abort: Send + Sync {
    /// Takes the task back, if it has not begun.
    fn abort(&self);
    fn is_finished(&self) -> bool;
}

impl<F: Send, T: Send> Abort for Task<F, T> {
    fn abort(&self) {
        let mut state = self.lock();
        // From here on it will not run, whoever else aborts it, though it is still to be dropped.
        let Some(job) = state.take_job() else { return };
        let item = state.item.take();
        drop(state);
        // Off its queue first. Its run, if that comes first, finds nothing to do.
        drop(item.and_then(cmwq::JoinHandle::cancel));
        // A panic of what was captured is not the aborter's.
        drop_quietly(catch_unwind(AssertUnwindSafe(|| self.cancel(job))));
    }

    fn is_finished(&self) -> bool {
        let state = self.lock();
        matches!(state.stage, Stage::Ended(_) | Stage::Over) || state.is_lost()
    }
}

/// What a handle does with its task.
pub(crate) trait Join<T>: Abort {
    /// The end, once; until then the waker is kept.
    ///
    /// # Panics
    /// If the end was taken before.
    fn poll_end(&self, cx: &TaskContext<'_>) -> Poll<End<T>>;
    /// Nobody wants the value any more.
    fn detach(&self);
    fn as_abort(self: Arc<Self>) -> Arc<dyn Abort>;
}

impl<F: Send + 'static, T: Send + 'static> Join<T> for Task<F, T> {
    fn poll_end(&self, cx: &TaskContext<'_>) -> Poll<End<T>> {
        let mut state = self.lock();
        if let Some(end) = state.take_end() {
            return Poll::Ready(end);
        }
        let is_over = matches!(state.stage, Stage::Over);
        let is_known = state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        drop(state);
        assert!(!is_over, "JoinHandle polled after completion");
        if is_known { Poll::Pending } else { self.leave_waker(cx.waker().clone()) }
    }

    fn detach(&self) {
        let mut state = self.lock();
        state.is_detached = true;
        let (waker, end) = (state.waker.take(), state.take_end());
        drop(state);
        drop(waker);
        // As tokio's handle. Whoever drops it may be unwinding himself, and a second panic would
        // end the process.
        drop_quietly(end);
    }

    fn as_abort(self: Arc<Self>) -> Arc<dyn Abort> {
        self
    }
}

impl<F, T> Task<F, T> {
    /// The waker was cloned without the lock, so the end may have come meanwhile.
    fn leave_waker(&self, waker: Waker) -> Poll<End<T>> {
        let mut state = self.lock();
        let end = state.take_end();
        let unused = if end.is_some() { Some(waker) } else { state.waker.replace(waker) };
        drop(state);
        drop(unused);
        end.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<F, T> State<F, T> {
    fn take_job(&mut self) -> Option<Job<F>> {
        match std::mem::replace(&mut self.stage, Stage::Begun) {
            Stage::Waiting(job) => Some(job),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Whether it will never end, since this process is a child, and the item its parent's. In one
    /// process a task has ended before its item.
    fn is_lost(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_) | Stage::Begun)
            && self.item.as_ref().is_some_and(cmwq::JoinHandle::is_finished)
    }

    fn take_end(&mut self) -> Option<End<T>> {
        if self.is_lost() {
            return Some(End::Cancelled);
        }
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Ended(end) => Some(end),
            other => {
                self.stage = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task<F: FnOnce() -> T, T>(func: F) -> Arc<Task<F, T>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Task::new(Job { func, context: Context::with(runtime.handle().clone()), place: None })
    }

    /// The other one has the item, and has not taken it off its queue yet.
    #[test]
    fn what_two_abort_at_the_same_time_runs_for_neither() {
        let task = task(|| ());
        assert!(task.lock().item.is_none(), "somebody has taken it");
        task.abort();
        assert!(task.is_finished());
        assert!(task.take_job().is_none(), "it could still run");
    }
}
