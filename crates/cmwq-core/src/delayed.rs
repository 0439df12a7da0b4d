//! Timers for delayed work: an intrusive hierarchical timing wheel.
//!
//! Owns nothing but the wheel's slots; timers are embedded in their users' objects and linked while
//! armed, so arming allocates nothing and both arming and cancelling are O(1). Seven levels of 64
//! slots: a timer hangs on the level of the highest bit in which its expiry differs from now, and
//! moves down when its slot comes up, so expiry is exact to one tick at any distance. Never early:
//! deadlines are rounded up to ticks.
//!
//! Lock: one lock of the driver around the whole wheel (TimerState).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::mem::offset_of;
use core::ptr::NonNull;

use crate::ids::Nanos;
use crate::list::{self, List, ListHead, Node};

/// The wheel's resolution: 2^18 ns, about 262 µs.
pub const TICK_NS: Nanos = 1 << TICK_SHIFT;
const TICK_SHIFT: u32 = 18;
const LEVELS: usize = 7;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Further away than the wheel reaches (36 years): parked at the far end and looked at again there.
const REACH: u64 = 1 << (SLOT_BITS * LEVELS as u32);
const EXPIRED: u16 = u16::MAX;

/// A timer, embedded in what it delays.
#[repr(C)]
#[derive(Debug)]
pub struct Timer {
    entry: ListHead,
    /// In ticks.
    expires: u64,
    slot: u16,
}

impl Timer {
    /// A timer that is not armed.
    #[must_use]
    pub const fn new() -> Self {
        Self { entry: ListHead::unlinked(), expires: 0, slot: EXPIRED }
    }

    fn node(timer: NonNull<Self>) -> Node {
        // SAFETY: stays inside the timer.
        unsafe { timer.byte_add(offset_of!(Self, entry)).cast() }
    }

    /// # Safety
    /// `node` must come from [`node`](Self::node).
    unsafe fn of_node(node: Node) -> NonNull<Self> {
        // SAFETY: the caller promises that the node is a member of a timer.
        unsafe { node.byte_sub(offset_of!(Self, entry)).cast() }
    }
}

impl Default for Timer {
    fn default() -> Self {
        Self::new()
    }
}

/// See the module header.
pub struct Wheel {
    elapsed: u64,
    occupied: [u64; LEVELS],
    slots: Box<[List]>,
    expired: List,
    /// Always empty between calls: what a slot is swapped with while it is emptied.
    spare: List,
    len: usize,
}

impl Wheel {
    /// An empty wheel whose time is `now`.
    #[must_use]
    pub fn new(now: Nanos) -> Self {
        let slots: Vec<List> = (0..LEVELS * SLOTS).map(|_| List::new()).collect();
        Self {
            elapsed: now >> TICK_SHIFT,
            occupied: [0; LEVELS],
            slots: slots.into_boxed_slice(),
            expired: List::new(),
            spare: List::new(),
            len: 0,
        }
    }

    /// Armed timers, expired ones that were not collected yet included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no timer is armed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Arms a timer: [`expire`](Self::expire) returns it at or after `at`, rounded up to a tick.
    ///
    /// # Safety
    /// `timer` must be valid, not armed, and stay where it is until it is cancelled or returned.
    pub unsafe fn arm(&mut self, timer: NonNull<Timer>, at: Nanos) {
        let expires = at.div_ceil(TICK_NS);
        // SAFETY: valid and not armed, so ours alone.
        unsafe { (*timer.as_ptr()).expires = expires };
        self.len += 1;
        // SAFETY: as promised by the caller.
        unsafe { self.link(timer) };
    }

    /// Disarms a timer. `false`: it was not armed (never, or returned by [`expire`](Self::expire)
    /// already).
    ///
    /// # Safety
    /// `timer` must be valid and, if armed, armed on this wheel.
    pub unsafe fn cancel(&mut self, timer: NonNull<Timer>) -> bool {
        let node = Timer::node(timer);
        // SAFETY: valid; linked only on this wheel.
        unsafe {
            if !list::is_linked(node) {
                return false;
            }
            list::unlink(node);
        }
        self.len -= 1;
        // SAFETY: valid.
        let slot = unsafe { (*timer.as_ptr()).slot };
        self.note_removed(slot);
        true
    }

    /// Whether the timer is armed.
    ///
    /// # Safety
    /// As for [`cancel`](Self::cancel).
    #[must_use]
    pub unsafe fn is_armed(&self, timer: NonNull<Timer>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { list::is_linked(Timer::node(timer)) }
    }

    /// When a timer is due.
    ///
    /// # Safety
    /// `timer` must be valid.
    #[must_use]
    pub unsafe fn due(timer: NonNull<Timer>) -> Nanos {
        // SAFETY: the caller's promise.
        unsafe { (*timer.as_ptr()).expires.saturating_mul(TICK_NS) }
    }

    /// Takes the next timer that is due at `now`; call until `None`.
    pub fn expire(&mut self, now: Nanos) -> Option<NonNull<Timer>> {
        let now = now >> TICK_SHIFT;
        loop {
            if let Some(node) = self.expired.first() {
                // SAFETY: linked on a list of this wheel, hence a member of a timer.
                unsafe {
                    list::unlink(node);
                    self.len -= 1;
                    return Some(Timer::of_node(node));
                }
            }
            match self.next_slot() {
                Some((level, slot, deadline)) if deadline <= now => {
                    self.elapsed = deadline;
                    self.cascade(level, slot);
                }
                _ => {
                    self.elapsed = self.elapsed.max(now);
                    return None;
                }
            }
        }
    }

    /// When [`expire`](Self::expire) should be called next; it may then return nothing, but has
    /// moved timers on.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        if !self.expired.is_empty() {
            return Some(self.elapsed << TICK_SHIFT);
        }
        self.next_slot().map(|(_, _, deadline)| deadline.saturating_mul(TICK_NS))
    }

    /// # Safety
    /// `timer` must be valid, unlinked and counted.
    unsafe fn link(&mut self, timer: NonNull<Timer>) {
        // SAFETY: valid.
        let expires = unsafe { (*timer.as_ptr()).expires };
        let (list, slot) = if expires <= self.elapsed {
            (&mut self.expired, EXPIRED)
        } else {
            let at = expires.min(self.elapsed + REACH - 1);
            let level = level_of(self.elapsed, at);
            let index = (at >> (SLOT_BITS * level as u32)) as usize % SLOTS;
            self.occupied[level] |= 1 << index;
            let slot = level * SLOTS + index;
            (&mut self.slots[slot], slot as u16)
        };
        // SAFETY: valid, unlinked, and alive until cancelled or returned.
        unsafe {
            (*timer.as_ptr()).slot = slot;
            list.push_back(Timer::node(timer));
        }
    }

    fn note_removed(&mut self, slot: u16) {
        if slot == EXPIRED {
            return;
        }
        let (level, index) = (usize::from(slot) / SLOTS, usize::from(slot) % SLOTS);
        if self.slots[usize::from(slot)].is_empty() {
            self.occupied[level] &= !(1 << index);
        }
    }

    /// The first occupied slot in time: the lowest level that has one, because a level's slots all
    /// come before the next level's.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let level = (0..LEVELS).find(|&level| self.occupied[level] != 0)?;
        let shift = SLOT_BITS * level as u32;
        // The slot at the hand itself comes last: what lies there is a whole round ahead.
        let ahead = (self.elapsed >> shift) as usize % SLOTS + 1;
        let skipped = self.occupied[level].rotate_right(ahead as u32).trailing_zeros();
        let slot = (ahead + skipped as usize) % SLOTS;
        let round = REACH_OF[level];
        let mut deadline = (self.elapsed & !(round - 1)) + ((slot as u64) << shift);
        if deadline <= self.elapsed {
            // Only the top level wraps: what lies at its hand or behind it is a round ahead.
            debug_assert_eq!(level, LEVELS - 1, "a slot was passed over");
            deadline += round;
        }
        Some((level, slot, deadline))
    }

    /// The slot's time has come: its timers are due or belong to a lower level now.
    fn cascade(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !(1 << slot);
        core::mem::swap(&mut self.spare, &mut self.slots[level * SLOTS + slot]);
        while let Some(node) = self.spare.first() {
            // SAFETY: linked on a list of this wheel, hence a member of a timer.
            unsafe {
                list::unlink(node);
                self.link(Timer::of_node(node));
            }
        }
    }
}

/// Ticks that one round of each level spans.
const REACH_OF: [u64; LEVELS] = {
    let mut reach = [0; LEVELS];
    let mut level = 0;
    while level < LEVELS {
        reach[level] = 1 << (SLOT_BITS * (level as u32 + 1));
        level += 1;
    }
    reach
};

fn level_of(elapsed: u64, at: u64) -> usize {
    let differs = (elapsed ^ at) | (SLOTS as u64 - 1);
    let level = (63 - differs.leading_zeros()) / SLOT_BITS;
    (level as usize).min(LEVELS - 1)
}

impl fmt::Debug for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel").field("elapsed", &self.elapsed).field("len", &self.len).finish()
    }
}
