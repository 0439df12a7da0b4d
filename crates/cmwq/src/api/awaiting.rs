//! Waiting for a queue without keeping a thread: flushing, draining and closing as futures.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use cmwq_core::Closed;

use crate::api::closure::{self, JoinHandle};
use crate::api::workqueue::Workqueue;
use crate::engine::runtime::Runtime;
use crate::engine::threads::current;
use crate::engine::tools::watchdog::WaitFor;
use crate::engine::wq::Wq;
use crate::engine::wq::flushes::Flusher;
use crate::os::sync::Arc;

/// A wait that has begun: for a future to await, or for a thread to [`wait`](Self::wait) for, also
/// [with a time limit](Self::wait_timeout). Dropping it waits for nothing, and undoes nothing.
///
/// Whoever awaits it is told by a worker of the library's own. While a queue is drained or closed,
/// one sleeps in the caller's place, also if this is dropped; a flush takes one only when it is
/// over. Where no thread is available for that, it lasts until one is; a queue that is
/// [closed](Workqueue::close) lets nothing in all the same. In a forked child a wait that the
/// parent had begun is over: what it was about is the parent's.
#[must_use = "nothing waits until it is awaited; what was begun goes on without it"]
pub struct Waiting {
    /// Until it is known to be over.
    handle: Option<JoinHandle<()>>,
    /// Dropped after the handle.
    flush: Option<Flush>,
    /// For what.
    wq: Arc<Wq>,
}

/// A flush that was begun; dropped, of which nobody is to be told.
struct Flush {
    wq: Arc<Wq>,
    flusher: u64,
}

impl Drop for Flush {
    fn drop(&mut self) {
        // In a child the queue is the parent's, and may be locked for ever.
        if self.wq.is_own() {
            self.wq.forget_flusher(self.flusher);
        }
    }
}

// As the queue's handles.
impl UnwindSafe for Waiting {}
impl RefUnwindSafe for Waiting {}

impl Waiting {
    /// Blocks until it is over, without a time limit. From a work function it counts as blocking at
    /// once. From one of the queue's own items, which may close it, it would wait for itself: that
    /// is reported, and it returns at once.
    pub fn wait(self) {
        if self.is_parents() || self.would_wait_for_itself() {
            return;
        }
        let Some(handle) = self.handle else { return };
        // Refused after a shutdown: there is nothing left to wait for.
        let wait = || drop(handle.join());
        match &self.flush {
            // What tells of its end is queued nowhere yet, and says nothing to the watchdog.
            Some(flush) => {
                let what = WaitFor::Flush(self.wq.key, flush.flusher);
                current::waiting_for(what, wait);
            }
            None => wait(),
        }
    }

    /// As [`wait`](Self::wait), but gives up after `timeout` and returns what there is to wait for,
    /// which goes on. [Zero only looks](JoinHandle::join_timeout); a time beyond what the clock can
    /// show, such as [`Duration::MAX`], is no limit. From one of the queue's own items as `wait`.
    ///
    /// # Errors
    /// This, if it is not over yet: to wait for more, or to be dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// let wq = cmwq::Workqueue::new("requests")?;
    /// drop(wq.queue(|| println!("the last one")));
    /// let closing = wq.close();
    /// if closing.wait_timeout(Duration::from_secs(20)).is_err() {
    ///     eprintln!("items are still running; they are left behind");
    /// }
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    pub fn wait_timeout(self, timeout: Duration) -> Result<(), Self> {
        if self.is_parents() || !timeout.is_zero() && self.would_wait_for_itself() {
            return Ok(());
        }
        let Self { handle, flush, wq } = self;
        match handle.map(|handle| handle.join_timeout(timeout)) {
            // As in `wait`, whatever came of it.
            None | Some(Ok(_)) => Ok(()),
            Some(Err(handle)) => Err(Self { handle: Some(handle), flush, wq }),
        }
    }

    /// Whether it is not over, and the caller one of the queue's own items, which is reported.
    fn would_wait_for_itself(&self) -> bool {
        !self.is_over() && self.wq.says_waits_for_itself("waited for")
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_parents() || self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Whether this process is a child, and its parent has begun to wait.
    fn is_parents(&self) -> bool {
        !self.wq.is_own()
    }
}

impl Future for Waiting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_parents() {
            return Poll::Ready(());
        }
        let Some(handle) = &mut self.handle else { return Poll::Ready(()) };
        if Pin::new(handle).poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.handle = None;
        Poll::Ready(())
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("is_over", &self.is_over()).finish()
    }
}

impl Workqueue {
    /// As [`flush`](Self::flush), as a future: everything that was queued before this call has
    /// finished when it is ready.
    ///
    /// From one of the queue's own items it would wait for itself: that is reported, and it is
    /// ready at once.
    pub fn flush_async(&self) -> Waiting {
        if self.handle().says_waits_for_itself("flushed") {
            return self.over();
        }
        let mut handle = None;
        let wq = self.handle().shared();
        let reaper = wq.runtime.reaper();
        // Any number may be under way: only the end takes a worker.
        let flusher = wq.begin_flush(|| {
            let (tell, told) = closure::prepare(reaper, flushed);
            handle = Some(told);
            Flusher::Call(Box::new(tell))
        });
        let flush = flusher.map(|flusher| Flush { wq: Arc::clone(&wq), flusher });
        Waiting { handle, flush, wq }
    }

    /// As [`drain`](Self::drain), as a future: from this call on only the queue's own items may
    /// queue, until it is ready, also if the future is dropped. From one of the queue's own items
    /// as in [`flush_async`](Self::flush_async).
    pub fn drain_async(&self) -> Waiting {
        if self.handle().says_waits_for_itself("drained") {
            return self.over();
        }
        let wq = self.handle().shared();
        let draining = wq.begin_draining();
        self.later(move || {
            wq.drain();
            drop(draining);
        })
    }

    /// Closes the queue for good, without waiting: what was queued still runs, and may queue what
    /// belongs to it; from anybody else closures are [refused](crate::JoinError::is_refused) and
    /// reusable items dropped, also those whose timers expire later. When everything has run, the
    /// [`Waiting`] that this returns is over: await it, wait for it, or drop it.
    ///
    /// It closes all clones of the handle, and none of them waits when it is dropped afterwards;
    /// the last one takes the queue down. What another thread is queueing just then is taken or
    /// refused. It may be called from the queue's own items, which must not block on the future,
    /// as by an executor's `block_on`: they would wait for themselves, and nobody could report it.
    /// A queue of the [system's](crate::system) is closed for the whole process. In a child that is
    /// forked afterwards the handle leads to a queue of its own, as any, which is open.
    ///
    /// KERNEL: `destroy_workqueue` — differs: it does not wait.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// let other = wq.clone();
    /// let last = wq.queue(|| 42);
    /// let closing = wq.close();
    /// assert!(other.queue(|| 43).join().unwrap_err().is_refused());
    /// assert_eq!(last.join().unwrap(), 42);
    /// closing.wait();
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "destroy_workqueue")]
    pub fn close(self) -> Waiting {
        let is_first = self.handle().close(Closed::DESTROYING);
        let other = self.clone();
        other.later(move || {
            if is_first {
                self.handle().close_and_drain();
            } else {
                self.handle().drain();
            }
        })
    }

    /// Whether the queue takes nothing any more, but what its own items queue: it was
    /// [closed](Self::close), or the library [shut down](crate::shutdown), which both are for good.
    /// While it is [drained](Self::drain) it is not closed, and takes nothing either;
    /// [`Refused`](crate::Refused) tells them apart.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// let other = wq.clone();
    /// drop(wq.close());
    /// assert!(other.is_closed());
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let is_shut = || Runtime::existing().is_some_and(Runtime::has_begun_to_shut);
        self.handle().is_closed().unwrap_or_else(is_shut)
    }

    /// Has one of the library's own workers do something that waits.
    fn later<F: FnOnce() + Send + 'static>(&self, what: F) -> Waiting {
        let reaper = self.handle().runtime.reaper();
        Waiting { handle: Some(closure::queue::<F, F, ()>(&reaper, None, what)), ..self.over() }
    }

    fn over(&self) -> Waiting {
        Waiting { handle: None, flush: None, wq: self.handle().shared() }
    }
}

/// What a worker does when a flush is over, so that whoever awaits it is told by that one.
fn flushed() {}
