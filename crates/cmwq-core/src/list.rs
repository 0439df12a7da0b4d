//! The intrusive list that work items hang on, with the C layout of the kernel's `list_head`.
//!
//! A [`List`] owns a sentinel on the heap (so the list may move) and links nodes it does not own.
//!
//! Named invariants, referred to by every `SAFETY` comment here and in the callers:
//!
//! - *(ring)* the sentinel and all linked nodes form one ring: `n.next.prev == n` and `n.prev.next
//!   == n`.
//! - *(locked)* a linked node is read and written only under the lock of the pool whose list it is
//!   on.
//! - *(alive)* a node stays where it is, and alive, until it is unlinked.

use alloc::boxed::Box;
use core::fmt;
use core::ptr::{self, NonNull};

/// A link: `struct list_head`. An unlinked node has null pointers or points at itself (as the
/// kernel's static initialisers leave it); both count as unlinked.
#[repr(C)]
#[derive(Debug)]
pub struct ListHead {
    next: *mut ListHead,
    prev: *mut ListHead,
}

impl ListHead {
    /// A node that is on no list.
    #[must_use]
    pub const fn unlinked() -> Self {
        Self { next: ptr::null_mut(), prev: ptr::null_mut() }
    }

    /// Whether it is as [`unlinked`](Self::unlinked) makes it. A node that C has made points to
    /// itself instead: see [`is_linked`].
    #[inline]
    pub(crate) const fn is_unlinked(&self) -> bool {
        self.next.is_null()
    }
}

/// A link *in transit*: on no list, `next` is the neighbour in an inbox, `prev` is a number.
/// Callers own the node.
impl ListHead {
    #[inline]
    pub(crate) unsafe fn set_transit(node: *mut Self, next: *mut Self, number: usize) {
        // SAFETY: the caller owns `node`.
        unsafe { *node = Self { next, prev: ptr::without_provenance_mut(number) } };
    }

    #[inline]
    pub(crate) unsafe fn set_transit_next(node: *mut Self, next: *mut Self) {
        // SAFETY: the caller owns `node`.
        unsafe { (*node).next = next };
    }

    #[inline]
    pub(crate) unsafe fn transit_next(node: *mut Self) -> *mut Self {
        // SAFETY: the caller owns `node`.
        unsafe { (*node).next }
    }

    #[inline]
    pub(crate) unsafe fn transit_number(node: *mut Self) -> usize {
        // SAFETY: the caller owns `node`.
        unsafe { (*node).prev.addr() }
    }

    /// Makes the node an unlinked one again.
    #[inline]
    pub(crate) unsafe fn end_transit(node: *mut Self) {
        // SAFETY: the caller owns `node`.
        unsafe { *node = Self::unlinked() };
    }
}

impl Default for ListHead {
    fn default() -> Self {
        Self::unlinked()
    }
}

/// A pointer to a node.
pub type Node = NonNull<ListHead>;

/// Whether `node` is on a list.
///
/// # Safety
/// `node` must be valid, and either unlinked or *(locked)* by the caller.
#[inline]
#[must_use]
pub unsafe fn is_linked(node: Node) -> bool {
    // SAFETY: the caller promises that `node` may be read.
    let next = unsafe { (*node.as_ptr()).next };
    !next.is_null() && next != node.as_ptr()
}

/// Takes `node` off its list.
///
/// # Safety
/// `node` must be linked on a list that the caller has *(locked)*.
#[inline]
pub unsafe fn unlink(node: Node) {
    // SAFETY: passed on to the caller; its own, once it is on no list.
    unsafe {
        take_off(node);
        // `next` alone says that it is on no list.
        (*node.as_ptr()).next = ptr::null_mut();
    }
}

/// As [`unlink`], of a node that is linked again before the lock is given back: who looks at it
/// without the lock finds it linked all along.
///
/// # Safety
/// As for [`unlink`]; it must be linked next.
#[inline]
pub(crate) unsafe fn take_off(node: Node) {
    let node = node.as_ptr();
    // SAFETY: (ring) makes both neighbours valid nodes, (locked) makes the writes exclusive.
    unsafe {
        let (next, prev) = ((*node).next, (*node).prev);
        debug_assert!((*next).prev == node && (*prev).next == node, "broken list");
        (*next).prev = prev;
        (*prev).next = next;
    }
}

/// Links `node` right behind `at`.
///
/// # Safety
/// `at` must be linked (or be a list's sentinel) and *(locked)*; `node` must be valid, unlinked,
/// and *(alive)* until it is unlinked.
#[inline]
pub unsafe fn insert_after(node: Node, at: Node) {
    let (node, at) = (node.as_ptr(), at.as_ptr());
    // SAFETY: (ring) makes `at.next` valid, (locked) makes the writes exclusive.
    unsafe {
        let next = (*at).next;
        (*node).next = next;
        (*node).prev = at;
        (*next).prev = node;
        (*at).next = node;
    }
}

/// A list of nodes it does not own.
pub struct List {
    head: NonNull<ListHead>,
}

// SAFETY: the sentinel is owned, and (locked) governs every access to the nodes.
unsafe impl Send for List {}
// SAFETY: as above; `&List` offers reads only, which (locked) makes exclusive to the lock holder.
unsafe impl Sync for List {}

impl List {
    /// An empty list. Allocates its sentinel.
    #[must_use]
    pub fn new() -> Self {
        let head = NonNull::from(Box::leak(Box::new(ListHead::unlinked())));
        // SAFETY: freshly allocated and not shared.
        unsafe { *head.as_ptr() = ListHead { next: head.as_ptr(), prev: head.as_ptr() } };
        Self { head }
    }

    /// Whether nothing is linked.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // SAFETY: the sentinel is owned and alive.
        unsafe { (*self.head.as_ptr()).next == self.head.as_ptr() }
    }

    /// The first node.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<Node> {
        self.after(self.head)
    }

    /// Takes the first node out.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Node> {
        let first = self.first()?;
        // SAFETY: linked on this list, (alive).
        unsafe { unlink(first) };
        Some(first)
    }

    /// The node behind `node`, which must be on this list.
    #[inline]
    #[must_use]
    pub(crate) fn after(&self, node: Node) -> Option<Node> {
        // SAFETY: (ring), (alive): the sentinel or a linked node always has a valid next.
        let next = unsafe { NonNull::new_unchecked((*node.as_ptr()).next) };
        (next != self.head).then_some(next)
    }

    /// All nodes, in order; the list must not be changed meanwhile.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Node> + '_ {
        core::iter::successors(self.first(), |node| self.after(*node))
    }

    /// Appends `node`.
    ///
    /// # Safety
    /// `node` must be valid, unlinked, and *(alive)* until it is unlinked.
    #[inline]
    pub unsafe fn push_back(&mut self, node: Node) {
        // SAFETY: the sentinel is alive, so its `prev` is too; the caller vouches for `node`.
        unsafe {
            let last = NonNull::new_unchecked((*self.head.as_ptr()).prev);
            insert_after(node, last);
        }
    }

    /// Prepends `node`.
    ///
    /// # Safety
    /// As for [`push_back`](Self::push_back).
    #[inline]
    pub unsafe fn push_front(&mut self, node: Node) {
        // SAFETY: the sentinel is alive; the caller vouches for `node`.
        unsafe { insert_after(node, self.head) };
    }

    /// Walks the list and checks *(ring)*. Returns the number of nodes.
    ///
    /// # Panics
    /// If the ring is broken.
    pub fn assert_valid(&self) -> usize {
        let mut n = 0;
        let mut at = self.head.as_ptr();
        loop {
            // SAFETY: (ring), (alive).
            let next = unsafe { (*at).next };
            // SAFETY: as above.
            assert!(unsafe { (*next).prev } == at, "broken list after {n} nodes");
            if next == self.head.as_ptr() {
                return n;
            }
            n += 1;
            at = next;
        }
    }
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        debug_assert!(self.is_empty(), "a list was dropped with items on it");
        // SAFETY: allocated by `Box` in `new`, freed once.
        drop(unsafe { Box::from_raw(self.head.as_ptr()) });
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({} nodes)", self.assert_valid())
    }
}
