//! Items that a worker may begin without its pool's lock.
//!
//! The lock and the counts cost more than a short item's function. So a worker of a pool that runs
//! one item at a time takes several items along under one hold of the lock, a *batch*, and begins
//! them one after the other, each by one atomic operation. The holder of the lock calls the batch
//! *back* before it reads the counts (`pool/batch`): items that were not begun have arrived again,
//! and the counts are as if there were no batches. Who only queues leaves it out.
//!
//! An item of a batch is *in transit*, as in an inbox: its word has `PENDING` and names the pool
//! off-queue. So the batch has to be called back before the item can be found on a list. Between
//! its beginning and the clearing of `PENDING` the item is on no list, and a canceller or flusher
//! that looks for it then looks again later.
//!
//! Both sides use one word:
//!
//! | the worker, between two items | the holder of the lock, which calls back |
//! |---|---|
//! | 1. counts one more item as begun | 1. marks the batch as called back |
//! | 2. was it called back before? then it takes the lock | 2. takes the items that were not counted before |
//!
//! Why: docs/decisions/batches.md

use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::NonNull;

use crate::ids::PoolId;
use crate::sync::{AtomicU32, Ordering, acquire, release};
use crate::word::WorkWord;
use crate::work::{WorkFn, WorkItem};

/// LIMIT: items of a batch, since calling it back links them all under the lock.
pub const BATCH_MAX: usize = 32;

const CALLED_BACK: u32 = 1 << 31;

/// A worker's place for a batch. See the module header.
pub struct Batch {
    /// How many items were begun, and whether the batch was called back. The worker may count one
    /// more after that.
    begun: AtomicU32,
    /// Written by the worker with the lock; read by the worker without it, and by others with it.
    /// The functions are kept here because an item that was begun must not be touched.
    items: UnsafeCell<[Option<Member>; BATCH_MAX]>,
}

/// An item and its function.
pub(crate) type Member = (NonNull<WorkItem>, WorkFn);

// SAFETY: `items` as said there; what it points to is governed by PENDING.
unsafe impl Send for Batch {}
// SAFETY: as above.
unsafe impl Sync for Batch {}

impl Batch {
    pub(crate) fn new() -> Arc<Self> {
        let (begun, items) = (AtomicU32::new(CALLED_BACK), UnsafeCell::new([None; BATCH_MAX]));
        Arc::new(Self { begun, items })
    }

    /// Begins the next item, of which there must be one: `PENDING` is cleared, and its function is
    /// to be called with it. `None`: the batch was called back; the worker has to take the lock.
    ///
    /// # Safety
    /// To be called by the batch's own worker, of pool `pool`, without the pool's lock, and not
    /// more often than its [`Claim::more`](crate::Claim) says.
    #[inline]
    pub unsafe fn begin(&self, pool: PoolId) -> Option<(*mut WorkItem, WorkFn)> {
        // ORDERING: Release pairs with the Acquire of `call_back`: what the finished items have
        // done is visible to the thread that learns there that they are finished.
        let begun = self.begun.fetch_add(1, release("batch_begin"));
        if begun & CALLED_BACK != 0 {
            return None;
        }
        let (item, func) = self.member(begun);
        // SAFETY: PENDING is the worker's now, and no pending item is freed. The last touch.
        unsafe { item.as_ref() }.start(WorkWord::off_queue(pool, false));
        Some((item.as_ptr(), func))
    }

    /// Ends the worker's right to begin more; how many items were begun. Caller holds the lock.
    pub(crate) fn call_back(&self) -> u32 {
        // ORDERING: Acquire pairs with the Release of `begin`.
        self.begun.fetch_or(CALLED_BACK, acquire("batch_call_back")) & !CALLED_BACK
    }

    /// The same, by the worker itself.
    pub(crate) fn end(&self) -> u32 {
        // ORDERING: no pairing: the worker has counted the items itself, and all other writers hold
        // the lock, as the caller does.
        let begun = self.begun.load(Ordering::Relaxed);
        self.begun.store(CALLED_BACK, Ordering::Relaxed);
        begun
    }

    /// How many items were begun by now. By who has the lock, while the batch is out.
    pub(crate) fn begun(&self) -> u32 {
        // ORDERING: Acquire pairs with the Release of `begin`, as in `call_back`.
        self.begun.load(acquire("batch_begun")) & !CALLED_BACK
    }

    /// A new batch, whose items are [`set`](Self::set). By the worker, with the lock.
    pub(crate) fn open(&self) {
        // ORDERING: no pairing: others read it with the lock.
        self.begun.store(0, Ordering::Relaxed);
    }

    /// Puts an item into the batch. By the worker, with the lock, while the batch is not open.
    #[inline]
    pub(crate) fn set(&self, number: u32, member: Member) {
        // SAFETY: others look only with the lock, which the caller has.
        unsafe { (*self.items.get())[number as usize] = Some(member) };
    }

    /// Item `number`, and its function. By the worker, or with the lock.
    #[inline]
    pub(crate) fn member(&self, number: u32) -> Member {
        // SAFETY: written by the worker only, and only with the lock.
        let items = unsafe { &*self.items.get() };
        items[number as usize].expect("a batch has no such item")
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // ORDERING: no pairing: a snapshot.
        let begun = self.begun.load(Ordering::Relaxed);
        f.debug_struct("Batch")
            .field("begun", &(begun & !CALLED_BACK))
            .field("is_called_back", &(begun & CALLED_BACK != 0))
            .finish()
    }
}
