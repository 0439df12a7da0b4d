//! A handle that takes its closure along.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{JoinError, JoinHandle};

/// A [`JoinHandle`] that cancels its closure when it is dropped; made by
/// [`JoinHandle::abort_on_drop`].
///
/// Dropping it does what [`JoinHandle::cancel`] does, and does not wait: a closure that has begun
/// runs to its end, and a panic in it goes to the [panic handler](crate::set_panic_handler). It is
/// a future as well.
///
/// ```
/// use std::time::Duration;
/// let wq = cmwq::Workqueue::new("doc")?;
/// let late = wq.queue_delayed(|| unreachable!(), Duration::from_secs(3600)).abort_on_drop();
/// drop(late);
/// assert_eq!(wq.queue(|| 1).abort_on_drop().join().unwrap(), 1);
/// # Ok::<(), cmwq::Error>(())
/// ```
#[must_use = "dropping it at once cancels the closure"]
pub struct AbortOnDrop<T>(Option<JoinHandle<T>>);

impl<T> AbortOnDrop<T> {
    pub(super) fn new(handle: JoinHandle<T>) -> Self {
        Self(Some(handle))
    }

    /// Waits as [`JoinHandle::join`] does; the closure is not cancelled.
    ///
    /// # Errors
    /// If the closure panicked, or its queue refused it.
    ///
    /// # Panics
    /// If this was awaited to its end before.
    pub fn join(self) -> Result<T, JoinError> {
        self.into_handle().join()
    }

    /// Waits as [`JoinHandle::join_timeout`] does. When the time is up, the closure is not
    /// cancelled: that follows when the handle that this returns is dropped.
    ///
    /// # Errors
    /// This handle, if the closure has not returned yet.
    ///
    /// # Panics
    /// If this was awaited to its end before.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, JoinError>, Self> {
        self.into_handle().join_timeout(timeout).map_err(Self::new)
    }

    /// Cancels the closure now, and tells whether it had begun; see [`JoinHandle::cancel`].
    #[must_use = "`Some` is the handle of a closure that has begun: it can still be joined"]
    pub fn cancel(self) -> Option<JoinHandle<T>> {
        self.into_handle().cancel()
    }

    /// As [`cancel`](Self::cancel), and waits for a run in progress; see
    /// [`JoinHandle::cancel_sync`].
    ///
    /// # Panics
    /// If this was awaited to its end before.
    pub fn cancel_sync(self) -> Option<Result<T, JoinError>> {
        self.into_handle().cancel_sync()
    }

    /// See [`JoinHandle::is_finished`].
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The plain handle: dropped, it lets the closure run on by itself.
    ///
    /// # Panics
    /// Never: the handle is there until this is dropped.
    pub fn into_handle(mut self) -> JoinHandle<T> {
        self.0.take().expect("a handle is there until it is dropped")
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        drop(self.0.take().and_then(JoinHandle::cancel));
    }
}

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = self.0.as_mut().expect("a handle is there until it is dropped");
        Pin::new(handle).poll(cx)
    }
}

impl<T> fmt::Debug for AbortOnDrop<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortOnDrop").field("is_finished", &self.is_finished()).finish()
    }
}
