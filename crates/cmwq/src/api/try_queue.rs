//! Queueing that can be refused: bounded backlogs.

use std::fmt;

use crate::api::closure::{self, JoinHandle};
use crate::api::refused::Refused;
use crate::api::workqueue::Workqueue;

/// A closure that [`Workqueue::try_queue`] did not queue, and why.
pub struct TryQueueError<F> {
    func: F,
    why: Refused,
}

impl<F> TryQueueError<F> {
    /// The closure.
    pub fn into_inner(self) -> F {
        self.func
    }

    /// Why it was not queued.
    #[must_use]
    pub fn why(&self) -> Refused {
        self.why
    }

    /// As many closures wait as [`Builder::max_queued`](crate::Builder::max_queued) allows: it may
    /// be tried again later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.why.is_full()
    }

    /// The queue was closed or shut down, for good, and takes only what its own items queue. Not
    /// while it is [drained](Refused::Draining): then it may be tried again later.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.why.is_closed()
    }
}

impl<F> fmt::Display for TryQueueError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<F> fmt::Debug for TryQueueError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TryQueueError").field(&self.why).finish()
    }
}

impl<F> std::error::Error for TryQueueError<F> {}

impl Workqueue {
    /// Queues a closure as [`queue`](Self::queue) does, unless as many wait as
    /// [`Builder::max_queued`](crate::Builder::max_queued) allows, or the queue is being drained or
    /// was closed. Never waits.
    ///
    /// # Errors
    /// The closure, and [which](Refused) of these it was. If the queue is being closed in the same
    /// moment, the handle may be [refused](crate::JoinError::is_refused) instead.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::builder("uploads").max_queued(1000).build()?;
    /// match wq.try_queue(|| "sent") {
    ///     Ok(handle) => assert_eq!(handle.join().unwrap(), "sent"),
    ///     Err(error) if error.is_closed() => println!("not any more: {error}"),
    ///     Err(error) => println!("here, then: {}", (error.into_inner())()),
    /// }
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    pub fn try_queue<F, T>(&self, func: F) -> Result<JoinHandle<T>, TryQueueError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.try_queue_for::<F, F, T>(None, func)
    }

    /// As [`try_queue`](Self::try_queue), for a CPU as in [`queue_on`](Self::queue_on).
    ///
    /// # Errors
    /// As there.
    pub fn try_queue_on<F, T>(&self, cpu: u32, func: F) -> Result<JoinHandle<T>, TryQueueError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.try_queue_for::<F, F, T>(Some(cpu), func)
    }

    /// As [`queue_closure`](Self::queue_closure).
    pub(crate) fn try_queue_for<N, F, T>(
        &self,
        cpu: Option<u32>,
        func: F,
    ) -> Result<JoinHandle<T>, TryQueueError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if let Some(closed) = self.handle().closed_to_caller() {
            return Err(TryQueueError { func, why: Refused::of(closed) });
        }
        let Some(account) = self.handle().account() else {
            return Ok(closure::queue::<N, F, T>(self.handle(), cpu, func));
        };
        match account.try_enter() {
            Some(ticket) => {
                Ok(closure::queue::<N, _, T>(self.handle(), cpu, move || ticket.run(func)))
            }
            None => Err(TryQueueError { func, why: Refused::Full }),
        }
    }

    /// See [`Builder::max_queued`](crate::Builder::max_queued). `None`: there is no limit.
    #[must_use]
    pub fn max_queued(&self) -> Option<u32> {
        self.handle().account().and_then(|account| account.max_queued())
    }
}
