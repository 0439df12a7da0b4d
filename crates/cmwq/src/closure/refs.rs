//! How many still need a closure: two at first.

use crate::sync::{AtomicU32, Ordering, acq_rel};

/// See the module header.
pub(crate) struct Refs(AtomicU32);

impl Refs {
    pub(crate) fn two() -> Self {
        Self(AtomicU32::new(2))
    }

    /// Gives one back. `true`: it was the last, and what the other did before is visible.
    #[inline]
    pub(crate) fn release(&self) -> bool {
        // ORDERING: Release and Acquire pair with each other: the last one frees what the other used.
        self.0.fetch_sub(1, acq_rel("refs_release")) == 1
    }

    /// Whether the other one has been given back: nobody but the caller has any.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        // ORDERING: no pairing: who needs what the other did gets it from `release`.
        self.0.load(Ordering::Relaxed) == 1
    }
}
