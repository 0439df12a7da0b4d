//! How many items compute at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::sys;

/// What all items of a round share.
#[derive(Debug, Default)]
pub(crate) struct Computing {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Computing {
    /// Uses so much CPU time, as one of those that compute.
    pub(crate) fn burn(&self, time: Duration) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        sys::burn(time);
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many there were at once at most.
    pub(crate) fn most(&self) -> f64 {
        self.most.load(Ordering::Relaxed) as f64
    }
}
