//! What is not spawned, and why.

use std::fmt;

/// A queue had no room, or is closed; see [`Spawner::try_reserve`](crate::Spawner::try_reserve).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// As many closures wait or have a place reserved as
    /// [`max_queued`](cmwq::Builder::max_queued) allows: it may be tried again later.
    Full,
    /// The queue is closed, or being drained or shut down.
    Closed,
}

impl Refused {
    /// Whether it may be tried again later.
    #[must_use]
    pub fn is_full(self) -> bool {
        self == Self::Full
    }

    /// Whether the queue is closed, or being drained or shut down.
    #[must_use]
    pub fn is_closed(self) -> bool {
        self == Self::Closed
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the workqueue has as many closures waiting as it may",
            Self::Closed => "the workqueue is being drained, closed or shut down",
        })
    }
}

impl std::error::Error for Refused {}

/// A closure that [`Spawner::try_spawn_blocking`](crate::Spawner::try_spawn_blocking) did not
/// queue, and why.
pub struct TrySpawnError<F> {
    pub(crate) func: F,
    pub(crate) why: Refused,
}

impl<F> TrySpawnError<F> {
    /// The closure.
    pub fn into_inner(self) -> F {
        self.func
    }

    /// Why it was not queued.
    #[must_use]
    pub fn why(&self) -> Refused {
        self.why
    }
}

impl<F> fmt::Display for TrySpawnError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<F> fmt::Debug for TrySpawnError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrySpawnError").field(&self.why).finish()
    }
}

impl<F> std::error::Error for TrySpawnError<F> {}
