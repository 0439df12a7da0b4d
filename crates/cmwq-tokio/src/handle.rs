//! What the one who spawned has of a closure.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::{JoinError, coop};

use crate::join_error;
use crate::task::{Abort, End, Join};

/// Waits for a closure that was spawned, and has its value: what `tokio::task::JoinHandle` is for
/// `tokio::task::spawn_blocking`.
///
/// It is a future, ready with the closure's value or with tokio's own [`JoinError`]: the closure
/// panicked, or was cancelled. It needs no particular executor. Dropping it lets the closure run on
/// by itself; its value is dropped then, and a panic goes to
/// [cmwq's handler](cmwq::set_item_panic_handler).
///
/// A handle that is kept until the closure has ended, and dropped without being awaited, drops its
/// value or its panic. A value that panics as it is dropped does so there, and no further.
///
/// # Panics
/// Polled again after it was ready.
#[must_use = "dropping the handle detaches the closure"]
pub struct JoinHandle<T>(Arc<dyn Join<T>>);

impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    pub(crate) fn new(task: Arc<dyn Join<T>>) -> Self {
        Self(task)
    }

    /// Takes the closure back if it has not begun: it will not run, what it captured was dropped by
    /// this call, its place in the queue is free, and the handle is ready with an error that
    /// [is cancelled](JoinError::is_cancelled). Of two that do this at the same time one drops it,
    /// and the other one may return before. A closure that has begun goes on, and its value can be
    /// awaited.
    ///
    /// Does not wait for a run in progress.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Whether the closure has returned, panicked or been cancelled.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// What cancels the closure from elsewhere.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle(Arc::clone(&self.0).as_abort())
    }

    /// A handle that cancels the closure when it is dropped, if it has not begun: for futures
    /// that may be dropped themselves, as a server's are when its client goes away.
    pub fn abort_on_drop(self) -> AbortOnDropHandle<T> {
        AbortOnDropHandle(Some(self))
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // As tokio's handle does: a task that awaits many that are ready yields now and then.
        let end = pin!(coop::cooperative(poll_fn(|cx| self.0.poll_end(cx))));
        end.poll(cx).map(|end| match end {
            End::Value(value) => Ok(value),
            End::Panicked(payload) => Err(join_error::panicked(payload)),
            End::Cancelled => Err(join_error::cancelled()),
        })
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.0.detach();
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}

/// Takes a closure back from elsewhere; made by [`JoinHandle::abort_handle`]. Dropping it does
/// nothing.
#[derive(Clone)]
pub struct AbortHandle(Arc<dyn Abort>);

impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl AbortHandle {
    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.0.abort();
    }

    /// As [`JoinHandle::is_finished`].
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("is_finished", &self.is_finished()).finish()
    }
}

/// A [`JoinHandle`] that cancels its closure when it is dropped; made by
/// [`JoinHandle::abort_on_drop`]. Dropping it does not wait: a closure that has begun runs to its
/// end.
#[must_use = "dropping it at once cancels the closure"]
pub struct AbortOnDropHandle<T>(Option<JoinHandle<T>>);

impl<T> AbortOnDropHandle<T> {
    fn plain(&self) -> &JoinHandle<T> {
        self.0.as_ref().expect("a handle is there until it is dropped")
    }

    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.plain().abort();
    }

    /// As [`JoinHandle::is_finished`].
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.plain().is_finished()
    }

    /// As [`JoinHandle::abort_handle`]: to cancel one of many, as of those in a `JoinSet`.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        self.plain().abort_handle()
    }

    /// The plain handle: dropped, it lets the closure run on by itself.
    ///
    /// # Panics
    /// Never: the handle is there until this is dropped.
    pub fn detach(mut self) -> JoinHandle<T> {
        self.0.take().expect("a handle is there until it is dropped")
    }
}

impl<T> AsRef<JoinHandle<T>> for AbortOnDropHandle<T> {
    fn as_ref(&self) -> &JoinHandle<T> {
        self.plain()
    }
}

impl<T> Drop for AbortOnDropHandle<T> {
    fn drop(&mut self) {
        if let Some(plain) = &self.0 {
            plain.abort();
        }
    }
}

impl<T> Future for AbortOnDropHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let plain = self.0.as_mut().expect("a handle is there until it is dropped");
        Pin::new(plain).poll(cx)
    }
}

impl<T> fmt::Debug for AbortOnDropHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortOnDropHandle").field("is_finished", &self.is_finished()).finish()
    }
}
