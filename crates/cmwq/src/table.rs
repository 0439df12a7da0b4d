//! The table of pools: ids to pools, growing, never shrinking, read without a lock.
//!
//! This is what lets the id in a stale work word be resolved: the kernel needs RCU for it.

use std::ptr;

use cmwq_core::PoolId;

use crate::pool::Pool;
use crate::sync::{AtomicPtr, AtomicU32, Ordering, ordering};

const CHUNK: usize = 256;
/// 65,536 pools: two per CPU for 4,096 CPUs and 57,000 sets of attributes.
const CHUNKS: usize = 256;

type Chunk = [AtomicPtr<Pool>; CHUNK];

/// See the module header.
#[derive(Debug)]
pub(crate) struct PoolTable {
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    len: AtomicU32,
}

impl PoolTable {
    pub(crate) fn new() -> Self {
        Self {
            chunks: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            len: AtomicU32::new(0),
        }
    }

    /// The pool with this id.
    #[inline]
    pub(crate) fn get(&self, id: PoolId) -> Option<&'static Pool> {
        let index = id.0 as usize;
        // ORDERING: Acquire pairs with the Release in `push`.
        let chunk = self.chunks.get(index / CHUNK)?.load(ordering("published", Ordering::Acquire));
        // SAFETY: null or a leaked chunk.
        let chunk = unsafe { chunk.as_ref() }?;
        // ORDERING: as above.
        let pool = chunk[index % CHUNK].load(ordering("published", Ordering::Acquire));
        // SAFETY: null or a leaked pool.
        unsafe { pool.as_ref() }
    }

    /// Adds the pool that `make` makes for the next id. Calls must not overlap.
    pub(crate) fn push(&self, make: impl FnOnce(PoolId) -> &'static Pool) -> &'static Pool {
        // ORDERING: no pairing: calls do not overlap.
        let index = self.len.load(Ordering::Relaxed) as usize;
        assert!(index < CHUNK * CHUNKS, "more than {} worker pools", CHUNK * CHUNKS);
        let slot = &self.chunks[index / CHUNK];
        // ORDERING: as above.
        let mut chunk = slot.load(Ordering::Relaxed);
        if chunk.is_null() {
            let fresh: Box<Chunk> =
                Box::new(std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())));
            chunk = Box::into_raw(fresh);
            // ORDERING: Release pairs with the Acquire in `get`.
            slot.store(chunk, ordering("publish", Ordering::Release));
        }
        let pool = make(PoolId(index as u32));
        // SAFETY: a leaked chunk.
        let entry = unsafe { &(&*chunk)[index % CHUNK] };
        // ORDERING: Release pairs with the Acquire in `get`.
        entry.store(ptr::from_ref(pool).cast_mut(), ordering("publish", Ordering::Release));
        // ORDERING: Release pairs with the Acquire in `iter`.
        self.len.store(index as u32 + 1, Ordering::Release);
        pool
    }

    /// All pools.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Pool> + '_ {
        // ORDERING: Acquire pairs with the Release in `push`.
        let len = self.len.load(Ordering::Acquire);
        (0..len).filter_map(|id| self.get(PoolId(id)))
    }
}
