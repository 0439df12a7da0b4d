//! What is said once for each place of a program that does it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// LIMIT: so many places are known; of what more of them do nothing is said.
const PLACES: usize = 64;

/// The places that were told of.
pub(crate) struct Once([AtomicUsize; PLACES]);

impl Once {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicUsize::new(0) }; PLACES])
    }

    /// Whether this is the first time of the place, which is any number but 0.
    pub(crate) fn is_first(&self, place: usize) -> bool {
        // ORDERING: no pairing: it only limits how often a message is printed.
        let take = |known: &AtomicUsize| {
            known
                .compare_exchange(0, place, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|known| (known == place).then_some(false), |_| Some(true))
        };
        self.0.iter().find_map(take).unwrap_or(false)
    }
}

/// A place by its name.
pub(crate) fn named(name: &str) -> usize {
    // FNV-1a: short, and names are few.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash as usize | 1
}
