//! The work item itself, `struct work_struct`: a word, a link, a function.
//!
//! All writers of a word that others may claim use a read-modify-write, never a store (`set_own`
//! stores, to barriers only): a queuer that finds `PENDING` set has released its stores *into the
//! word*, and the chain of read-modify-writes carries them to the run, whatever the ordering of
//! those in between. A plain store in between would cut the chain (and store-then-fence, the
//! kernel's way, is not enough in the C11 model: loom finds the lost event; see `models`).
//!
//! Why: docs/decisions/clearing-pending.md

use core::cell::UnsafeCell;
use core::fmt;
use core::mem::{self, offset_of};
use core::ptr::NonNull;

use crate::ids::PoolId;
use crate::list::{ListHead, Node};
use crate::sync::{
    AtomicU64, Ordering, acq_rel, acquire, exchange_idle, exchange_in_chain, swap_in_chain,
};
use crate::word::WorkWord;

/// The function of a work item (`work_func_t`). It gets the item, which it may free or queue again.
pub type WorkFn = unsafe extern "C" fn(*mut WorkItem);

/// `struct work_struct`: 32 bytes, embeddable anywhere, same member order as the kernel's.
#[repr(C)]
pub struct WorkItem {
    data: AtomicU64,
    entry: UnsafeCell<ListHead>,
    /// A [`WorkFn`], and in its upper bits the [way](WorkItem::way).
    func: *const (),
}

/// LIMIT: no address of a program has these bits.
const WAY_SHIFT: u32 = usize::BITS - 2;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
const _: () = {
    assert!(size_of::<WorkItem>() == 32 && align_of::<WorkItem>() == 8);
    assert!(offset_of!(WorkItem, data) == 0);
    assert!(offset_of!(WorkItem, entry) == 8);
    assert!(offset_of!(WorkItem, func) == 24);
};

// SAFETY: `data` is atomic; `entry` is touched only by the owner of PENDING under a pool's lock
// (list invariant (locked)); `func` leads to a function, and is written only while the caller has
// the item to itself.
unsafe impl Sync for WorkItem {}
// SAFETY: as above; an idle item has no ties to a thread.
unsafe impl Send for WorkItem {}

impl WorkItem {
    /// An idle item (`INIT_WORK`).
    #[cfg(not(cmwq_loom))]
    #[must_use]
    pub const fn new(func: WorkFn) -> Self {
        Self {
            data: AtomicU64::new(WorkWord::INIT.bits()),
            entry: UnsafeCell::new(ListHead::unlinked()),
            func: func as *const (),
        }
    }

    /// An idle item; loom's atomics cannot be made in a constant.
    #[cfg(cmwq_loom)]
    #[must_use]
    pub fn new(func: WorkFn) -> Self {
        Self {
            data: AtomicU64::new(WorkWord::INIT.bits()),
            entry: UnsafeCell::new(ListHead::unlinked()),
            func: func as *const (),
        }
    }

    /// A snapshot of the word. Advisory unless the pool it names is locked.
    #[inline]
    #[must_use]
    pub fn word(&self) -> WorkWord {
        // ORDERING: no pairing: a snapshot is validated under the pool's lock or is a hint.
        WorkWord::from_bits(self.data.load(Ordering::Relaxed))
    }

    /// `work_pending`: queued, armed on a timer, or in transit.
    #[inline]
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.word().is_pending()
    }

    /// The item's function: the item is known by it, and it is called unless the item's
    /// [way](Self::way) says otherwise.
    #[inline]
    #[must_use]
    pub fn func(&self) -> WorkFn {
        let func = self.func.map_addr(|func| func & !(usize::MAX << WAY_SHIFT));
        // SAFETY: made of a function, whose address has none of these bits.
        unsafe { mem::transmute::<*const (), WorkFn>(func) }
    }

    /// Makes `func` the function that the item is known by. Another one is called, which the driver
    /// knows by `way`: 1 to 3.
    pub fn know_as(&mut self, func: WorkFn, way: u8) {
        debug_assert!((1..=3).contains(&way));
        self.func = (func as *const ()).map_addr(|func| func | usize::from(way) << WAY_SHIFT);
    }

    /// How the item is called. 0: by its own function; else see [`know_as`](Self::know_as).
    #[inline]
    #[must_use]
    pub fn way(&self) -> u8 {
        (self.func.addr() >> WAY_SHIFT) as u8
    }

    /// Sets `PENDING` and returns the word as it was: if that was not pending, the caller now owns
    /// queueing.
    ///
    /// KERNEL: `test_and_set_bit(WORK_STRUCT_PENDING_BIT)` — same.
    #[inline]
    #[must_use]
    pub fn claim(&self) -> WorkWord {
        // ORDERING: Release pairs with the Acquire of `start`: a run that begins after a refused
        // claim sees the refused caller's stores. Acquire pairs with the Release of `start` and
        // `publish_idle`.
        let was = self.data.fetch_or(WorkWord::PENDING_MASK, acq_rel("claim"));
        WorkWord::from_bits(was)
    }

    /// Idle to in transit to `pool` in one step, if the word is still `seen`, an idle word that is
    /// not disabled and whose last pool is `pool` or none: then the caller owns `PENDING`.
    #[inline]
    #[must_use]
    pub fn claim_for(&self, seen: WorkWord, pool: PoolId) -> bool {
        debug_assert!(seen.is_idle());
        let transit = seen.in_transit(pool);
        // ORDERING: Acquire pairs with the Release of `start` and `publish_idle`, as for `claim`.
        // The caller's own stores reach the run through the inbox or the pool's lock; a failure is
        // followed by a `claim`, which has the Release.
        let order = acquire("claim_for");
        exchange_idle(&self.data, seen.bits(), transit.bits(), order, "claim_for")
    }

    /// The owner of `PENDING` has the item in transit to `pool`. Caller holds that pool's lock.
    pub(crate) fn set_in_transit(&self, pool: PoolId) {
        let word = self.word();
        debug_assert!(word.is_pending() && !word.is_queued());
        let transit = word.in_transit(pool);
        // ORDERING: as for `set_queued`.
        let was = swap_in_chain(&self.data, transit.bits(), Ordering::Relaxed, "set_in_transit");
        debug_assert!(was & WorkWord::PENDING_MASK != 0, "in transit without owning PENDING");
    }

    /// The owner of `PENDING` makes the item queued. Caller holds the pool's lock.
    #[inline]
    pub(crate) fn set_queued(&self, word: WorkWord) {
        debug_assert!(word.is_pending() && word.is_queued());
        // ORDERING: Relaxed, but a link of the chain: the Acquire of `start` pairs with the Release
        // of the `claim`s that were refused before this, because this continues their release
        // sequences.
        let was = swap_in_chain(&self.data, word.bits(), Ordering::Relaxed, "set_queued");
        debug_assert!(was & WorkWord::PENDING_MASK != 0, "queued without owning PENDING");
    }

    /// Sets the word of an item that nobody else can claim, since nobody else knows of it. Caller
    /// holds the lock of the pool that has it, or takes it back from it.
    #[inline]
    pub(crate) fn set_own(&self, word: WorkWord) {
        // ORDERING: no pairing: who reads this has the lock later, or waits until it is told.
        self.data.store(word.bits(), Ordering::Relaxed);
    }

    /// Idle to queued in one step, if the word is still `seen`. Caller holds the pool's lock.
    #[inline]
    pub(crate) fn queue_from_idle(&self, seen: WorkWord, word: WorkWord) -> bool {
        debug_assert!(!seen.is_pending() && seen.disable_depth() == 0);
        // ORDERING: Acquire pairs with the Release of `start` and `publish_idle` of the last run.
        // The caller's own stores reach the run through the pool's lock.
        let order = acquire("queue_from_idle");
        exchange_idle(&self.data, seen.bits(), word.bits(), order, "queue_from_idle")
    }

    /// Changes flags of a queued item. Caller holds the pool's lock.
    #[inline]
    pub(crate) fn update_queued(&self, word: WorkWord) {
        // ORDERING: as for `set_queued`.
        swap_in_chain(&self.data, word.bits(), Ordering::Relaxed, "update_queued");
    }

    /// Clears `PENDING` because the function is about to run. Caller holds the pool's lock.
    ///
    /// KERNEL: `set_work_pool_and_clear_pending` — differs: one AcqRel swap instead of write
    /// barrier, store, full barrier.
    #[inline]
    pub(crate) fn start(&self, idle: WorkWord) {
        debug_assert!(!idle.is_pending() && !idle.is_queued());
        // ORDERING: Acquire pairs with the Release of refused `claim`s, whose stores this run must
        // see; Release pairs with the Acquire of the `claim` that wins after this and of
        // `claim_for` and `queue_from_idle`: the next owner may use the link, perhaps under another
        // pool's lock.
        swap_in_chain(&self.data, idle.bits(), acq_rel("start"), "start");
    }

    /// The owner of `PENDING` gives it up without queueing (cancelled, disabled, refused).
    #[inline]
    pub(crate) fn publish_idle(&self, idle: WorkWord) {
        debug_assert!(!idle.is_queued());
        // ORDERING: Release pairs with the Acquire of the next owner's `claim`, `claim_for` or
        // `queue_from_idle`; Acquire pairs with the Release of refused `claim`s: the owner sees the
        // stores of the callers that its PENDING turned away.
        self.data.swap(idle.bits(), acq_rel("publish_idle"));
    }

    /// Claims a forked child's copy of an item, whose word was written before the fork: it names a
    /// pool of the parent's, or none. From now on it names `nowhere`, the id of no pool, and so is
    /// known for a word of this process. `true`: the caller owns `PENDING`, also if the parent had
    /// it. `false`: the word is not `seen` any more.
    ///
    /// In such a child this is done in place of [`claim`](Self::claim), which would leave a word
    /// that looks like the parent's.
    ///
    /// # Safety
    /// `seen` must be a word from before the fork, and the parent's lists must not be walked.
    #[cold]
    pub unsafe fn take_over(&self, seen: WorkWord, nowhere: PoolId) -> bool {
        let ours = seen.taken_over(nowhere).bits();
        // ORDERING: no pairing: what the parent stored was there before this process had threads,
        // and nobody was refused here before. One step, or two could take it over.
        let order = Ordering::Relaxed;
        let taken = exchange_in_chain(&self.data, seen.bits(), ours, order, "take_over");
        if taken && seen.is_pending() {
            // SAFETY: PENDING is ours, and with it the link, which is the parent's.
            unsafe { *self.entry.get() = ListHead::unlinked() };
        }
        taken
    }

    /// The owner of `PENDING` gives it up; `word` is the idle word that was there when it was
    /// claimed.
    ///
    /// KERNEL: the end of `__cancel_work`, and of a refused `queue_work` — same.
    pub fn release(&self, word: WorkWord) {
        self.publish_idle(word.with_pending(false));
    }

    /// The node of `item`, with the provenance of the whole item.
    #[inline]
    pub(crate) fn node(item: NonNull<Self>) -> Node {
        // SAFETY: stays inside the item.
        unsafe { item.byte_add(offset_of!(Self, entry)).cast() }
    }

    /// The item of `node` (`container_of`).
    ///
    /// # Safety
    /// `node` must come from [`node`](Self::node).
    #[inline]
    pub(crate) unsafe fn of_node(node: Node) -> NonNull<Self> {
        // SAFETY: the caller promises that the node is a member of an item.
        unsafe { node.byte_sub(offset_of!(Self, entry)).cast() }
    }
}

impl fmt::Debug for WorkItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkItem")
            .field("word", &self.word())
            .field("func", &(self.func() as *const ()))
            .finish()
    }
}
