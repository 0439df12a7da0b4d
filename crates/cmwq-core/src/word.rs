//! The work word: the one 64-bit value in which a work item says where it is and who owns it.
//!
//! The layout is the kernel's for the low bits, so that a kernel reader can decode a dump; the high
//! bits hold ids instead of a pointer, so that a stale word can be resolved without RCU.
//!
//! | bits | queued (`PWQ` set) | off queue |
//! |---|---|---|
//! | 0 | `PENDING`: ownership token; setting it 0→1 wins queueing | same |
//! | 1 | `INACTIVE`: not counted in `nr_active`: waiting behind `max_active`, or a barrier | 0 |
//! | 2 | `PWQ`: 1 | 0 |
//! | 3 | `LINKED`: the next list entry is linked to this one (a barrier follows) | 0 |
//! | 4..8 | flush colour | bit 4: last pool was a BH pool |
//! | 5..21 | – | disable depth |
//! | 8..32 | pool id | – |
//! | 21..52 | – | last pool id, all ones = never queued |
//! | 32..64 | pwq index in the pool | – |
//!
//! Invariant *(queued)*: "`PWQ` names pool P, and I hold P's lock" implies that the item is on a
//! list of P, because both transitions happen under that lock.
//!
//! Why: docs/decisions/ids-in-the-word.md

use core::fmt;

use crate::ids::{PoolId, PwqId, PwqRef};

const PENDING: u64 = 1 << 0;
const INACTIVE: u64 = 1 << 1;
const PWQ: u64 = 1 << 2;
const LINKED: u64 = 1 << 3;
const COLOR_SHIFT: u32 = 4;
const COLOR_MASK: u64 = 0xf << COLOR_SHIFT;
const POOL_SHIFT: u32 = 8;
const POOL_MASK: u64 = 0xff_ffff << POOL_SHIFT;
const PWQ_SHIFT: u32 = 32;
const OFFQ_BH: u64 = 1 << 4;
const OFFQ_DISABLE_SHIFT: u32 = 5;
const OFFQ_DISABLE_MASK: u64 = 0xffff << OFFQ_DISABLE_SHIFT;
const OFFQ_POOL_SHIFT: u32 = 21;
const OFFQ_POOL_NONE: u64 = 0x7fff_ffff;

/// A snapshot of a work word. Transitions are pure; [`WorkItem`](crate::WorkItem) applies them
/// atomically.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WorkWord(u64);

impl WorkWord {
    /// The word of an item that was never queued (`WORK_STRUCT_NO_POOL`).
    pub const INIT: Self = Self(OFFQ_POOL_NONE << OFFQ_POOL_SHIFT);
    /// The word of a queued item has room for the ids of so many pools, from 0 on.
    pub const NR_POOLS: u32 = ((POOL_MASK >> POOL_SHIFT) + 1) as u32;
    pub(crate) const PENDING_MASK: u64 = PENDING;

    /// A snapshot of raw bits.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The raw bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Queueing is owned: the item is queued, armed on a timer, or in transit.
    #[inline]
    #[must_use]
    pub const fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    /// The item is on a list of the pool that [`pwq`](Self::pwq) names.
    #[inline]
    #[must_use]
    pub const fn is_queued(self) -> bool {
        self.0 & PWQ != 0
    }

    /// Not counted in `nr_active`: waiting behind `max_active`, or a barrier.
    #[inline]
    #[must_use]
    pub const fn is_inactive(self) -> bool {
        self.0 & INACTIVE != 0
    }

    /// The next entry of the list belongs to this one.
    #[inline]
    #[must_use]
    pub const fn is_linked(self) -> bool {
        self.0 & LINKED != 0
    }

    /// The flush colour; meaningful only while queued.
    #[inline]
    #[must_use]
    pub const fn color(self) -> u8 {
        ((self.0 & COLOR_MASK) >> COLOR_SHIFT) as u8
    }

    /// Where the item is queued, if it is.
    #[inline]
    #[must_use]
    pub const fn pwq(self) -> Option<PwqRef> {
        if !self.is_queued() {
            return None;
        }
        Some(PwqRef {
            pool: PoolId(((self.0 & POOL_MASK) >> POOL_SHIFT) as u32),
            pwq: PwqId((self.0 >> PWQ_SHIFT) as u32),
        })
    }

    /// The pool that holds the item, or that last ran it.
    #[inline]
    #[must_use]
    pub const fn pool(self) -> Option<PoolId> {
        if self.is_queued() {
            return Some(PoolId(((self.0 & POOL_MASK) >> POOL_SHIFT) as u32));
        }
        self.last_pool()
    }

    /// The pool where an item was last that is not queued, or that it is in transit to.
    #[inline]
    #[must_use]
    pub const fn last_pool(self) -> Option<PoolId> {
        debug_assert!(!self.is_queued(), "a queued item is in a pool");
        let pool = self.0 >> OFFQ_POOL_SHIFT;
        if pool == OFFQ_POOL_NONE { None } else { Some(PoolId(pool as u32)) }
    }

    /// Whether the item is neither pending, hence not queued, nor disabled.
    #[inline]
    #[must_use]
    pub const fn is_idle(self) -> bool {
        self.0 & (PENDING | OFFQ_DISABLE_MASK) == 0
    }

    /// Of an item that is to be queued at `chosen`: the other pool that may still run it, and is to
    /// be asked first ([`PoolState::executing_on`](crate::PoolState::executing_on)), since only it
    /// can keep the item from running twice at once. An ordered queue (`is_ordered`) runs one item
    /// at a time anyway, and its order would be lost.
    ///
    /// KERNEL: `__queue_work` — same.
    #[inline]
    #[must_use]
    pub fn may_run_at(self, chosen: PoolId, is_ordered: bool) -> Option<PoolId> {
        self.pool().filter(|&last| last != chosen && !is_ordered)
    }

    /// How often the item is disabled; 0 while it is queued, because a disabled item cannot be.
    #[inline]
    #[must_use]
    pub const fn disable_depth(self) -> u32 {
        if self.is_queued() {
            return 0;
        }
        ((self.0 & OFFQ_DISABLE_MASK) >> OFFQ_DISABLE_SHIFT) as u32
    }

    /// Whether an item is disabled that is not queued.
    #[inline]
    #[must_use]
    pub const fn is_disabled(self) -> bool {
        debug_assert!(!self.is_queued(), "a disabled item cannot be queued");
        self.0 & OFFQ_DISABLE_MASK != 0
    }

    /// The last pool was a BH pool (decides how `cancel_sync` waits).
    #[inline]
    #[must_use]
    pub const fn is_bh(self) -> bool {
        !self.is_queued() && self.0 & OFFQ_BH != 0
    }

    /// The word of an item queued on `at`, owned by the queue.
    #[inline]
    #[must_use]
    pub(crate) const fn queued(at: PwqRef, color: u8, inactive: bool) -> Self {
        debug_assert!(at.pool.0 < Self::NR_POOLS, "there is no room for this pool's id");
        Self(
            PENDING
                | PWQ
                | if inactive { INACTIVE } else { 0 }
                | (color as u64) << COLOR_SHIFT
                | (at.pool.0 as u64) << POOL_SHIFT
                | (at.pwq.0 as u64) << PWQ_SHIFT,
        )
    }

    /// The idle word left behind by an item that leaves `pool` (`set_work_pool_and_clear_pending`).
    #[inline]
    #[must_use]
    pub(crate) const fn off_queue(pool: PoolId, bh: bool) -> Self {
        Self((pool.0 as u64) << OFFQ_POOL_SHIFT | if bh { OFFQ_BH } else { 0 })
    }

    /// The word of this item, which is not queued, in transit to `pool`.
    #[inline]
    #[must_use]
    pub(crate) const fn in_transit(self, pool: PoolId) -> Self {
        debug_assert!(!self.is_queued(), "a queued item is on no way");
        Self((pool.0 as u64) << OFFQ_POOL_SHIFT | self.0 & OFFQ_BH | PENDING)
    }

    /// The word of an item that was queued or left in another process, claimed here: its last pool
    /// is `nowhere`. It stays as disabled as it was.
    #[inline]
    #[must_use]
    pub(crate) const fn taken_over(self, nowhere: PoolId) -> Self {
        let disabled = if self.is_queued() { 0 } else { self.0 & OFFQ_DISABLE_MASK };
        Self((nowhere.0 as u64) << OFFQ_POOL_SHIFT | disabled | PENDING)
    }

    /// The same word with `PENDING` set or cleared.
    #[inline]
    #[must_use]
    pub(crate) const fn with_pending(self, pending: bool) -> Self {
        Self(if pending { self.0 | PENDING } else { self.0 & !PENDING })
    }

    #[inline]
    pub(crate) const fn with_inactive(self, inactive: bool) -> Self {
        Self(if inactive { self.0 | INACTIVE } else { self.0 & !INACTIVE })
    }

    #[inline]
    pub(crate) const fn with_linked(self, linked: bool) -> Self {
        Self(if linked { self.0 | LINKED } else { self.0 & !LINKED })
    }

    /// The same off-queue word with another disable depth.
    #[must_use]
    pub const fn with_disable_depth(self, depth: u32) -> Self {
        debug_assert!(!self.is_queued());
        Self(self.0 & !OFFQ_DISABLE_MASK | (depth as u64) << OFFQ_DISABLE_SHIFT)
    }
}

impl fmt::Debug for WorkWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("WorkWord");
        s.field("pending", &self.is_pending());
        if let Some(at) = self.pwq() {
            s.field("queued_on", &at)
                .field("inactive", &self.is_inactive())
                .field("linked", &self.is_linked())
                .field("color", &self.color());
        } else {
            s.field("last_pool", &self.pool()).field("disable_depth", &self.disable_depth());
            if self.is_bh() {
                s.field("bh", &true);
            }
        }
        s.finish()
    }
}
