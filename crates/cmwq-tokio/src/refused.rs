//! What is not spawned, and why.

use std::fmt;

use cmwq::Refused;

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

    /// There is no place: as many closures wait as may.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.why.is_full()
    }

    /// The queue takes nothing any more, for good. While somebody drains it, this is false.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.why.is_closed()
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
