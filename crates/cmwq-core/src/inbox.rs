//! The way into a pool without its lock, while nothing has to be decided.
//!
//! While as many workers run as may, and blocked ones would be noticed, queueing an item wakes
//! nobody: the next worker that looks only has to find the item. So it is while a worker that was
//! woken for other items is on its way. Then the item is pushed here, by one atomic operation, and
//! the next holder of the pool's lock that has to know of it takes all items in one go, oldest
//! first.
//!
//! An item in an inbox is *in transit*: its word has `PENDING` and, off-queue, the id of the pool
//! it is going to, so that a canceller or flusher knows where to look. The item is on no list, so
//! its link holds the next older item and the pwq.
//!
//! With both fences, at least one of pusher and lock holder sees what the other wrote. (The
//! pusher's fence is the order of its push and its load, see `sync::fenced_load`.)
//!
//! | pusher | holder that ends the saturation |
//! |---|---|
//! | 1. push the item | 1. say that the pool is not saturated |
//! | 2. fence | 2. fence |
//! | 3. is the pool still saturated? if not, take the lock | 3. is the inbox empty? if not, empty it |
//!
//! Why: docs/decisions/inbox.md

use core::fmt;
use core::ptr::{self, NonNull};

use crate::ids::PwqId;
use crate::list::ListHead;
use crate::sync::{
    AtomicBool, AtomicPtr, Ordering, RoughCount, acquire, fenced_load, release_in_order,
    seq_cst_fence,
};
use crate::work::WorkItem;

/// See the module header.
pub struct Inbox {
    newest: AtomicPtr<ListHead>,
    /// About how many items are in transit. Beside `newest`, which a pusher has in its cache
    /// anyway.
    depth: RoughCount,
    is_saturated: AtomicBool,
    /// In place of [`DEPTH_MAX`].
    #[cfg(feature = "explore")]
    depth_max: u32,
}

/// LIMIT: items that are left for one holder of the lock, which keeps others waiting while it takes
/// them.
const DEPTH_MAX: u32 = 128;

impl Inbox {
    /// An empty inbox of a pool that is not saturated.
    #[must_use]
    pub fn new() -> Self {
        Self {
            newest: AtomicPtr::new(ptr::null_mut()),
            depth: RoughCount::new(0),
            is_saturated: AtomicBool::new(false),
            #[cfg(feature = "explore")]
            depth_max: DEPTH_MAX,
        }
    }

    /// As [`new`](Self::new), but pushing is not enough from `depth_max` items on.
    #[cfg(feature = "explore")]
    #[must_use]
    pub fn with_depth_max(depth_max: u32) -> Self {
        Self { depth_max, ..Self::new() }
    }

    #[inline(always)]
    #[cfg(not(feature = "explore"))]
    const fn depth_max(&self) -> u32 {
        DEPTH_MAX
    }

    #[inline(always)]
    #[cfg(feature = "explore")]
    const fn depth_max(&self) -> u32 {
        self.depth_max
    }

    /// Whether pushing may be enough. A hint: only [`push`](Self::push) is sure.
    #[inline]
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        // ORDERING: no pairing: a hint.
        self.is_saturated.load(Ordering::Relaxed)
    }

    /// Leaves an item for the next holder of the lock. `false`: the pool is not saturated any more,
    /// or many items are here; the caller must take the lock, empty the inbox and act on the
    /// outcome.
    ///
    /// # Safety
    /// The caller must own the item's `PENDING` and have put the pool's id into its word; the item
    /// must stay where it is until its function is entered or it is taken back.
    #[inline]
    #[must_use]
    pub unsafe fn push(&self, item: NonNull<WorkItem>, pwq: PwqId) -> bool {
        let node = WorkItem::node(item).as_ptr();
        // ORDERING: no pairing for this load: the exchange checks it.
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller owns the item, hence its link.
            unsafe { ListHead::set_transit(node, newest, pwq.0 as usize) };
            // ORDERING: Release pairs with the Acquire of `take`: the link, the word and what the
            // queuer did before are visible to the thread that takes the item. SeqCst for the load
            // below.
            let pushed = self.newest.compare_exchange_weak(
                newest,
                node,
                release_in_order("inbox_push"),
                Ordering::Relaxed,
            );
            match pushed {
                Ok(_) => break,
                Err(now) => newest = now,
            }
        }
        // ORDERING: no pairing: a rough count.
        let depth = self.depth.load(Ordering::Relaxed);
        self.depth.store(depth.wrapping_add(1), Ordering::Relaxed);
        // ORDERING: the exchange above and this load pair with the fence in `desaturate`.
        self.is_saturated.load(fenced_load("inbox_push")) && depth < self.depth_max()
    }

    /// Whether nothing is in transit. A hint, unless it follows [`desaturate`](Self::desaturate).
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // ORDERING: no pairing: `take` acquires.
        self.newest.load(Ordering::Relaxed).is_null()
    }

    /// Publishes that pushing is enough. Caller holds the pool's lock; for when it is, see
    /// [`PoolState::update_saturation`](crate::PoolState::update_saturation).
    #[inline]
    pub fn saturate(&self) {
        // ORDERING: no pairing: a pusher that does not see it takes the lock.
        self.is_saturated.store(true, Ordering::Relaxed);
    }

    /// Publishes that pushing is not enough. Caller holds the pool's lock and must look at the
    /// inbox afterwards.
    #[inline]
    pub fn desaturate(&self) {
        // ORDERING: the fence pairs with the exchange and the load in `push`.
        self.is_saturated.store(false, Ordering::Relaxed);
        seq_cst_fence("inbox_desaturate");
    }

    /// The items that are in transit, newest first, which stay. Caller holds the pool's lock as
    /// long as the result is used: nobody else takes items out.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = (PwqId, NonNull<WorkItem>)> + use<> {
        // ORDERING: Acquire pairs with the Release of `push`, as in `take`.
        chain(self.newest.load(acquire("inbox_newest")))
    }

    /// Takes all items, oldest first. Caller holds the pool's lock and must enqueue them all.
    #[inline]
    #[must_use]
    pub fn take(&self) -> Transit {
        // ORDERING: no pairing: a rough count.
        self.depth.store(0, Ordering::Relaxed);
        // ORDERING: Acquire pairs with the Release of `push`.
        let last = self.newest.swap(ptr::null_mut(), acquire("inbox_take"));
        let (mut node, mut next, mut len) = (last, ptr::null_mut(), 0);
        while !node.is_null() {
            // SAFETY: pushed nodes are alive and ours now; their links are in transit form.
            unsafe {
                let older = ListHead::transit_next(node);
                ListHead::set_transit_next(node, next);
                next = node;
                node = older;
                len += 1;
            }
        }
        Transit { next, last, len }
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("is_empty", &self.is_empty())
            .field("is_saturated", &self.is_saturated())
            .finish()
    }
}

/// Items taken from an inbox, oldest first.
#[derive(Debug)]
pub struct Transit {
    next: *mut ListHead,
    /// The youngest, if there is any.
    last: *mut ListHead,
    len: u32,
}

// SAFETY: its nodes are pending items, owned by the one owner of the `Transit`.
unsafe impl Send for Transit {}
// SAFETY: as above; `&Transit` offers reads only.
unsafe impl Sync for Transit {}

impl Transit {
    /// No items.
    pub(crate) const fn empty() -> Self {
        Self { next: ptr::null_mut(), last: ptr::null_mut(), len: 0 }
    }

    /// One item.
    ///
    /// # Safety
    /// As for [`push_front`](Self::push_front).
    pub(crate) unsafe fn one(item: NonNull<WorkItem>, pwq: PwqId) -> Self {
        let mut one = Self::empty();
        // SAFETY: passed on to the caller.
        unsafe { one.push_front(item, pwq) };
        one
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.next.is_null()
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// The oldest item.
    #[inline]
    pub(crate) fn first(&self) -> Option<(PwqId, NonNull<WorkItem>)> {
        let node = NonNull::new(self.next)?;
        // SAFETY: a node of the batch, alive and ours.
        unsafe { Some((pwq_of(node), WorkItem::of_node(node))) }
    }

    /// Takes the oldest item; it leaves unlinked.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(PwqId, NonNull<WorkItem>)> {
        let first = self.first()?;
        let node = self.next;
        self.len -= 1;
        // SAFETY: a node of the batch, alive and ours.
        unsafe {
            self.next = ListHead::transit_next(node);
            ListHead::end_transit(node);
        }
        Some(first)
    }

    /// Puts younger items behind these.
    #[inline]
    pub(crate) fn append(&mut self, younger: Self) {
        if self.is_empty() {
            *self = younger;
        } else if !younger.is_empty() {
            // SAFETY: a node of the batch, alive and ours.
            unsafe { ListHead::set_transit_next(self.last, younger.next) };
            self.last = younger.last;
            self.len += younger.len;
        }
    }

    /// Puts an older item before these.
    ///
    /// # Safety
    /// The caller must own the item's `PENDING`, and its word must name the pool, as for
    /// [`Inbox::push`].
    pub(crate) unsafe fn push_front(&mut self, item: NonNull<WorkItem>, pwq: PwqId) {
        let node = WorkItem::node(item).as_ptr();
        // SAFETY: the caller owns the item, hence its link.
        unsafe { ListHead::set_transit(node, self.next, pwq.0 as usize) };
        if self.is_empty() {
            self.last = node;
        }
        self.next = node;
        self.len += 1;
    }

    /// All of them, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PwqId, NonNull<WorkItem>)> + '_ {
        chain(self.next)
    }
}

/// Items that are in transit, from this one on in the order of their links.
fn chain(mut at: *mut ListHead) -> impl Iterator<Item = (PwqId, NonNull<WorkItem>)> {
    core::iter::from_fn(move || {
        let node = NonNull::new(at)?;
        // SAFETY: whoever walks has a `Transit`, or the lock without which nothing is taken out:
        // the nodes are alive, and nobody writes their links.
        unsafe {
            at = ListHead::transit_next(at);
            Some((pwq_of(node), WorkItem::of_node(node)))
        }
    })
}

impl Iterator for Transit {
    type Item = (PwqId, NonNull<WorkItem>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.pop()
    }
}

/// By which pwq an item in transit comes, as its link says.
///
/// # Safety
/// The node must be in transit, and alive, and the caller's.
unsafe fn pwq_of(node: NonNull<ListHead>) -> PwqId {
    // SAFETY: passed on to the caller.
    PwqId(unsafe { ListHead::transit_number(node.as_ptr()) } as u32)
}
