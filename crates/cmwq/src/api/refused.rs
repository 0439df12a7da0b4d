//! Why a queue did not take a closure.

use std::fmt;

use cmwq_core::Closed;

/// Why a queue did not take a closure; see [`TryQueueError::why`](crate::TryQueueError::why) and
/// [`JoinError::why`](crate::JoinError::why).
///
/// ```
/// use cmwq::Refused;
/// let wq = cmwq::Workqueue::builder("uploads").max_queued(0).build()?;
/// let answer = match wq.try_queue(|| "stored").map_err(|error| error.why()) {
///     Ok(handle) => handle.join().unwrap(),
///     Err(Refused::Full | Refused::Draining) => "503: try again in a second",
///     Err(_) => "503: this server is going down",
/// };
/// assert_eq!(answer, "503: try again in a second");
/// # Ok::<(), cmwq::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refused {
    /// As many closures wait as [`max_queued`](crate::Builder::max_queued) allows: it may be tried
    /// again later.
    Full,
    /// Somebody [drains](crate::Workqueue::drain) the queue, which takes closures again when it is
    /// empty.
    Draining,
    /// The queue was [closed](crate::Workqueue::close), for good.
    Closed,
    /// The library was [shut down](crate::shutdown), for good.
    ShutDown,
    /// The parent of this forked process had queued the closure, and runs it.
    Forked,
}

impl Refused {
    /// Why a queue that was closed just now let nobody in. It may be open again by now: then it was
    /// being drained, since all other reasons stay.
    pub(crate) fn of(closed: Closed) -> Self {
        match closed {
            _ if closed.is_for(Closed::SHUT) => Self::ShutDown,
            _ if closed.is_for(Closed::DESTROYING.and(Closed::BEHIND_TIMERS)) => Self::Closed,
            _ => Self::Draining,
        }
    }

    /// As many closures wait as may.
    #[must_use]
    pub fn is_full(self) -> bool {
        self == Self::Full
    }

    /// The queue takes nothing any more, for good.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Closed | Self::ShutDown)
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Full => "the workqueue has as many closures waiting as it may",
            Self::Draining => {
                "the workqueue was being drained and refused the work item; it takes others when \
                 that is over"
            }
            Self::Closed => "the workqueue was closed and refused the work item",
            Self::ShutDown => "the library was shut down and the workqueue refused the work item",
            Self::Forked => {
                "the work item was queued before this process was forked, by its parent"
            }
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Refused {}
