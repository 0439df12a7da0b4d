//! The pools whose workers the tick looks at: those that were watched lately.
//!
//! A pool that is watched is on the list, or the thread that began to watch it is about to put it
//! there.

use cmwq_core::detect::Quiet;

use crate::os::sync::{AtomicBool, Mutex, Ordering, acquire, lock, release};

/// What can be on the list.
pub(crate) trait Watched {
    /// Whether detectors watch the pool.
    fn is_watched(&self) -> bool;
    /// Whether it is on the list.
    fn is_listed(&self) -> &AtomicBool;
}

/// See the module header. Lock: its own, innermost.
#[derive(Debug)]
pub(crate) struct TickList<P: 'static> {
    entries: Mutex<Vec<Entry<P>>>,
}

#[derive(Debug)]
struct Entry<P: 'static> {
    pool: &'static P,
    quiet: Quiet,
}

impl<P: Watched> TickList<P> {
    pub(crate) fn new() -> Self {
        Self { entries: Mutex::new(Vec::new()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.entries).is_empty()
    }

    /// Puts a pool that has just become watched on the list. `false`: it was there.
    pub(crate) fn add(&self, pool: &'static P) -> bool {
        // ORDERING: Release pairs with the Acquire in `drop_quiet`, which must see that the pool is
        // watched if this call finds the pool listed.
        if pool.is_listed().swap(true, release("tick_add")) {
            return false;
        }
        lock(&self.entries).push(Entry { pool, quiet: Quiet::default() });
        true
    }

    /// All pools on the list.
    pub(crate) fn collect(&self, into: &mut Vec<&'static P>) {
        into.clear();
        into.extend(lock(&self.entries).iter().map(|entry| entry.pool));
    }

    /// Takes pools off the list that were not watched for a while.
    pub(crate) fn drop_quiet(&self) {
        lock(&self.entries).retain_mut(Entry::stays);
    }
}

impl<P: Watched> Entry<P> {
    fn stays(&mut self) -> bool {
        if self.quiet.stays(self.pool.is_watched()) {
            return true;
        }
        // ORDERING: Acquire pairs with the Release in `add`: a thread that began to watch after our
        // look above may have found the pool listed, and rely on us. So look again after the pool
        // was unlisted.
        let is_listed = self.pool.is_listed();
        is_listed.swap(false, acquire("tick_drop"));
        // ORDERING: no pairing: a thread that finds the pool listed relies on us from now on; one
        // that does not lists it again.
        if !self.pool.is_watched() || is_listed.swap(true, Ordering::Relaxed) {
            return false;
        }
        self.quiet = Quiet::default();
        true
    }
}
