//! The table of pools: ids to pools, growing, never shrinking, read without a lock. It grows only
//! while no pool is vacant ([`PoolState::is_vacant`](cmwq_core::PoolState::is_vacant)).
//!
//! So the id in a stale work word can be resolved, for which the kernel needs RCU.

use cmwq_core::{PoolId, WorkWord};

use crate::os::IS_MODEL;
use crate::os::published::Published;
use crate::os::sync::{AtomicU32, Ordering};

// A model makes a table for each execution, and has a few pools.
const CHUNK: usize = if IS_MODEL { 2 } else { 256 };
/// 65,536 pools: two per CPU for 4,096 CPUs and 57,000 sets of attributes.
const CHUNKS: usize = if IS_MODEL { 8 } else { 256 };

/// See the module header.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// The first id.
    first: u32,
    chunks: [Published<Chunk<T>>; CHUNKS],
    len: AtomicU32,
}

type Chunk<T> = [Published<T>; CHUNK];

impl<T> Table<T> {
    /// An empty table whose ids begin with `first`.
    pub(crate) fn new(first: u32) -> Self {
        Self {
            first,
            chunks: std::array::from_fn(|_| Published::nothing()),
            len: AtomicU32::new(0),
        }
    }

    /// Whether there are ids for a whole table that begins with `first`.
    pub(crate) fn has_ids(first: u32) -> bool {
        first as usize + CHUNK * CHUNKS <= WorkWord::NR_POOLS as usize
    }

    /// The entry with this id.
    #[inline]
    pub(crate) fn get(&self, id: PoolId) -> Option<&T> {
        let index = id.0.wrapping_sub(self.first) as usize;
        self.chunks.get(index / CHUNK)?.get()?[index % CHUNK].get()
    }

    /// How many more there is room for.
    pub(crate) fn room(&self) -> usize {
        // ORDERING: no pairing: asked under the lock that calls of `push` hold.
        CHUNK * CHUNKS - self.len.load(Ordering::Relaxed) as usize
    }

    /// Makes an entry for the next id with `make`, and adds it. Calls must not overlap.
    pub(crate) fn push(&self, make: impl FnOnce(PoolId) -> Box<T>) -> &T {
        // ORDERING: no pairing: calls do not overlap.
        let index = self.len.load(Ordering::Relaxed) as usize;
        assert!(index < CHUNK * CHUNKS, "more than {} worker pools", CHUNK * CHUNKS);
        let slot = &self.chunks[index / CHUNK];
        let fresh = || Box::new(std::array::from_fn(|_| Published::nothing()));
        let chunk = slot.get().unwrap_or_else(|| slot.publish(fresh()));
        let entry = chunk[index % CHUNK].publish(make(PoolId(self.first + index as u32)));
        // ORDERING: no pairing: a count; each entry is published by itself.
        self.len.store(index as u32 + 1, Ordering::Relaxed);
        entry
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        // ORDERING: no pairing: see `push`. An entry that is not visible yet is passed over.
        let len = self.len.load(Ordering::Relaxed);
        (0..len).filter_map(|index| self.get(PoolId(self.first + index)))
    }

    /// The first id that no entry of this or an earlier table has.
    pub(crate) fn end(&self) -> u32 {
        // ORDERING: no pairing: see `push`.
        self.first + self.len.load(Ordering::Relaxed)
    }

    /// The id before the first: of no entry, if the table begins behind an earlier one's
    /// [end](Self::end).
    pub(crate) fn nowhere(&self) -> PoolId {
        PoolId(self.first.wrapping_sub(1))
    }

    /// Whether this is an id of an earlier table.
    pub(crate) fn is_earlier(&self, id: PoolId) -> bool {
        id.0.wrapping_add(1) < self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_table_that_begins_has_ids_for_all_its_entries() {
        let end = |first: u32| first as usize + CHUNK * CHUNKS;
        let last = WorkWord::NR_POOLS - (CHUNK * CHUNKS) as u32;
        assert!(Table::<()>::has_ids(0) && Table::<()>::has_ids(last));
        assert_eq!(end(last), 1 << 24, "as many as a word has room for");
        assert!(!Table::<()>::has_ids(last + 1));
    }
}
