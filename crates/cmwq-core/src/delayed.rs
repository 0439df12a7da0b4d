//! Timers for delayed work: an intrusive hierarchical timing wheel.
//!
//! Owns nothing but the wheel's slots; timers are embedded in their users' objects and linked while
//! armed, so arming allocates nothing and both arming and cancelling are O(1). Expiry is exact to
//! one tick at any distance, and never early: deadlines are rounded up to ticks.
//!
//! Seven levels; a slot of one level spans as long as 64 slots of the level below. A timer hangs on
//! the lowest level that reaches far enough, and moves down when its slot comes up. So that a slot
//! with a million timers delays no other timer, it comes up *ahead* of its time, by half of what it
//! spans, and its timers are moved evenly during that time. The level below must then reach them:
//! one and a half slots, 96 of its own. It reaches 113, and has places for 128, so that a timer's
//! slot is never taken for one of a round before.
//!
//! Lock: one lock of the driver around the whole wheel (TimerState).
//!
//! Why: docs/decisions/timers-ahead.md

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::mem::offset_of;
use core::ptr::NonNull;

use crate::ids::Nanos;
use crate::list::{self, List, ListHead, Node};

mod together;

pub use together::{Destination, Hold, going_together, holds};

/// The wheel's resolution: 2^18 ns, about 262 µs.
pub const TICK_NS: Nanos = 1 << TICK_SHIFT;
/// Timers that are moved or taken off the wheel per hold of its lock, as a budget for
/// [`Wheel::expire_some`]: a few microseconds.
pub const FIRE_BATCH: usize = 64;
const TICK_SHIFT: u32 = 18;
const LEVELS: usize = 7;
const SLOTS: usize = 128;
const ROUND_BITS: u32 = 6;
/// A timer beyond the wheel's reach is parked so many ticks ahead (36 years) and linked again
/// there.
const REACH: u64 = 1 << (ROUND_BITS * LEVELS as u32);
/// So many timers of a slot that came up are moved at once; the others are spread over the ticks
/// until they can be due. More at once means fewer wake-ups, and longer work at one tick.
const MOVED_AT_ONCE: usize = 512;
const EXPIRED: u16 = u16::MAX;

/// A timer, embedded in what it delays.
#[repr(C)]
#[derive(Debug)]
pub struct Timer {
    entry: ListHead,
    /// In ticks.
    expires: u64,
    /// The tag of the wheel that it was armed on last.
    tag: u32,
    slot: u16,
    is_deferrable: bool,
    /// 0, so that it may get a meaning later: programs make timers, too.
    _spare: u8,
}

// The C header says the same, and so makes timers without calling us.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
const _: () = {
    assert!(size_of::<Timer>() == 32 && align_of::<Timer>() == 8);
    assert!(offset_of!(Timer, entry) == 0);
    assert!(offset_of!(Timer, expires) == 16);
    assert!(offset_of!(Timer, tag) == 24);
    assert!(offset_of!(Timer, slot) == 28);
    assert!(offset_of!(Timer, is_deferrable) == 30);
    assert!(offset_of!(Timer, _spare) == 31);
};

impl Timer {
    /// A timer that is not armed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entry: ListHead::unlinked(),
            expires: 0,
            tag: 0,
            slot: EXPIRED,
            is_deferrable: false,
            _spare: 0,
        }
    }

    /// A timer that is no reason to wake up. The driver keeps such timers on a wheel of their own.
    ///
    /// KERNEL: `TIMER_DEFERRABLE`.
    #[must_use]
    pub const fn deferrable() -> Self {
        Self { is_deferrable: true, ..Self::new() }
    }

    /// Whether it is [`deferrable`](Self::deferrable).
    #[must_use]
    pub const fn is_deferrable(&self) -> bool {
        self.is_deferrable
    }

    fn node(timer: NonNull<Self>) -> Node {
        // SAFETY: stays inside the timer.
        unsafe { timer.byte_add(offset_of!(Self, entry)).cast() }
    }

    /// Whether it is armed, on whatever wheel. An unlinked timer's link is null, in C, too.
    ///
    /// # Safety
    /// `timer` must be valid, and nobody else may change it.
    #[inline]
    unsafe fn is_linked(timer: NonNull<Self>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { !(*timer.as_ptr()).entry.is_unlinked() }
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
    tag: u32,
    elapsed: u64,
    /// Which slots have timers: a bit for each place, two words for each level.
    occupied: [u64; 2 * LEVELS],
    slots: Box<[Bucket; LEVELS * SLOTS]>,
    expired: List,
    /// For each level, the slot that came up, while its timers are being moved down.
    moving: [Moving; LEVELS],
    /// The tick that the quotas in `moving` are for.
    paced_at: u64,
    len: usize,
}

/// The timers of one slot.
#[derive(Debug, Default)]
struct Bucket {
    timers: List,
    /// So many were armed since it was empty: at least as many as there are.
    armed: usize,
}

/// What is left of a slot that came up. The slot's place is used again only when all its timers
/// have been moved.
#[derive(Default)]
struct Moving {
    left: Bucket,
    /// The first tick at which one of the timers can be due: they are all moved before time passes
    /// it.
    start: u64,
    /// How many may be moved at this tick.
    quota: usize,
}

impl Moving {
    /// Time has come to `elapsed`.
    fn pace(&mut self, elapsed: u64) {
        let ticks = usize::try_from(self.start.saturating_sub(elapsed)).unwrap_or(usize::MAX);
        self.quota = self.left.armed.div_ceil(ticks.max(1)).max(MOVED_AT_ONCE);
    }
}

/// A slot that holds timers.
#[derive(Clone, Copy)]
struct Slot {
    level: usize,
    /// The tick at which its timers are to be moved, or are due.
    deadline: u64,
}

impl Slot {
    /// The first tick that it spans.
    fn start(self) -> u64 {
        self.deadline + lead(self.level)
    }

    fn place(self) -> usize {
        place(self.level, self.start() >> shift(self.level))
    }
}

impl Wheel {
    /// No timer is due later: 584 years after the clock's beginning.
    pub const LATEST: Nanos = Nanos::MAX & !(TICK_NS - 1);

    /// An empty wheel whose time is `now`.
    #[must_use]
    pub fn new(now: Nanos) -> Self {
        Self::tagged(now, 0)
    }

    /// As [`new`](Self::new), for a process that was forked: this wheel takes a timer that a wheel
    /// with another tag has armed for unarmed, and never touches its link's neighbours.
    #[must_use]
    pub fn tagged(now: Nanos, tag: u32) -> Self {
        // Not by way of an array, for which stacks may be too small.
        let slots = (0..LEVELS * SLOTS).map(|_| Bucket::default()).collect::<Vec<_>>();
        let slots = slots.into_boxed_slice().try_into().expect("that many were made");
        Self {
            tag,
            elapsed: now >> TICK_SHIFT,
            occupied: [0; 2 * LEVELS],
            slots,
            expired: List::new(),
            moving: Default::default(),
            paced_at: 0,
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
    /// One for later than [`LATEST`](Self::LATEST), which is as good as never, is due then.
    ///
    /// Returns when `expire` must be called for this timer: the new
    /// [`next_deadline`](Self::next_deadline), unless that was earlier already.
    ///
    /// # Safety
    /// `timer` must be valid, not armed, and stay where it is until it is cancelled or returned.
    #[inline(always)]
    pub unsafe fn arm(&mut self, timer: NonNull<Timer>, at: Nanos) -> Nanos {
        let expires = at.saturating_add(TICK_NS - 1) >> TICK_SHIFT;
        // SAFETY: valid and not armed, so ours alone.
        unsafe {
            if (*timer.as_ptr()).tag != self.tag {
                (*timer.as_ptr()).entry = ListHead::unlinked();
                (*timer.as_ptr()).tag = self.tag;
            }
            (*timer.as_ptr()).expires = expires;
        }
        self.len += 1;
        // SAFETY: as promised by the caller.
        unsafe { self.link(timer, expires) << TICK_SHIFT }
    }

    /// As [`arm`](Self::arm), of a timer that may be armed: then it is all along, also for those
    /// who look without the lock. KERNEL: `detach_timer` without `clear_pending` — same.
    ///
    /// # Safety
    /// As for `arm`; if it is armed, then on this wheel.
    pub unsafe fn arm_anew(&mut self, timer: NonNull<Timer>, at: Nanos) -> Nanos {
        // SAFETY: valid; linked only on this wheel; and the caller's promise.
        unsafe {
            if self.is_armed(timer) {
                list::take_off(Timer::node(timer));
                self.len -= 1;
                self.has_left((*timer.as_ptr()).slot);
            }
            self.arm(timer, at)
        }
    }

    /// Disarms a timer. `false`: it was not armed (never, or returned by [`expire`](Self::expire)
    /// already).
    ///
    /// # Safety
    /// `timer` must be valid and, if armed, armed on this wheel.
    #[inline(always)]
    pub unsafe fn cancel(&mut self, timer: NonNull<Timer>) -> bool {
        let node = Timer::node(timer);
        // SAFETY: valid; linked only on this wheel.
        unsafe {
            if !Timer::is_linked(timer) || (*timer.as_ptr()).tag != self.tag {
                return false;
            }
            list::unlink(node);
        }
        self.len -= 1;
        // SAFETY: valid.
        let slot = unsafe { (*timer.as_ptr()).slot };
        self.has_left(slot);
        true
    }

    /// Whether a wheel with another tag has the timer armed.
    ///
    /// # Safety
    /// `timer` must be valid.
    #[must_use]
    pub unsafe fn is_foreign(&self, timer: NonNull<Timer>) -> bool {
        // SAFETY: valid.
        unsafe { Timer::is_linked(timer) && (*timer.as_ptr()).tag != self.tag }
    }

    /// As [`is_foreign`](Self::is_foreign); such a timer is disarmed. Only where the other wheel is
    /// never used again.
    ///
    /// # Safety
    /// `timer` must be valid.
    #[must_use]
    pub unsafe fn forget_foreign(&self, timer: NonNull<Timer>) -> bool {
        // SAFETY: valid; the other wheel is never used again, so the link is ours.
        unsafe {
            let is_foreign = self.is_foreign(timer);
            if is_foreign {
                (*timer.as_ptr()).entry = ListHead::unlinked();
            }
            is_foreign
        }
    }

    /// Whether the timer is armed.
    ///
    /// # Safety
    /// As for [`cancel`](Self::cancel).
    #[must_use]
    pub unsafe fn is_armed(&self, timer: NonNull<Timer>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { Timer::is_linked(timer) && (*timer.as_ptr()).tag == self.tag }
    }

    /// Whether there is an armed timer at this address. The address may be of anything. Walks the
    /// whole wheel: for debugging.
    #[must_use]
    pub fn has_at(&self, timer: usize) -> bool {
        let wanted = timer + offset_of!(Timer, entry);
        let lists = self.slots.iter().chain(self.moving.iter().map(|moving| &moving.left));
        lists
            .map(|bucket| &bucket.timers)
            .chain([&self.expired])
            .any(|list| list.iter().any(|node| node.as_ptr() as usize == wanted))
    }

    /// When a timer is due.
    ///
    /// # Safety
    /// `timer` must be valid.
    #[must_use]
    pub unsafe fn due(timer: NonNull<Timer>) -> Nanos {
        // SAFETY: the caller's promise.
        unsafe { (*timer.as_ptr()).expires << TICK_SHIFT }
    }

    /// Takes the next timer that is due at `now`; call until `None`.
    pub fn expire(&mut self, now: Nanos) -> Option<NonNull<Timer>> {
        let mut unlimited = usize::MAX;
        self.expire_some(now, &mut unlimited)
    }

    /// As [`expire`](Self::expire), for a caller that must not hold the lock for long: each timer
    /// that is returned or moved takes one off `budget`. `None` with a budget of 0 says nothing;
    /// [`next_deadline`](Self::next_deadline) has passed while there is more to do.
    pub fn expire_some(&mut self, now: Nanos, budget: &mut usize) -> Option<NonNull<Timer>> {
        let now = (now >> TICK_SHIFT).max(self.elapsed);
        while *budget > 0 {
            if let Some(node) = self.expired.first() {
                *budget -= 1;
                self.len -= 1;
                // SAFETY: linked on a list of this wheel, hence a member of a timer.
                unsafe {
                    list::unlink(node);
                    return Some(Timer::of_node(node));
                }
            }
            let next = self.next_slot().filter(|slot| slot.deadline <= now);
            let until = next.map_or(now, |slot| slot.deadline);
            if let Some(level) = self.first_move(|moving| moving.start <= until) {
                self.move_some(level, usize::MAX, budget);
            } else if let Some(slot) = next {
                *budget -= 1;
                self.come_up(slot);
            } else {
                self.pass_time(now);
                let level = self.first_move(|moving| moving.quota > 0)?;
                let moved = self.move_some(level, self.moving[level].quota, budget);
                self.moving[level].quota -= moved;
            }
        }
        None
    }

    /// When [`expire`](Self::expire) should be called next. That call may return no timer, but
    /// moves timers on.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        let to_move = self.first_move(|_| true).map(|_| {
            let is_paced = self.paced_at == self.elapsed;
            let is_waiting = is_paced && self.first_move(|moving| moving.quota > 0).is_none();
            self.elapsed + u64::from(is_waiting)
        });
        let expired = (!self.expired.is_empty()).then_some(self.elapsed);
        let slot = self.next_slot().map(|slot| slot.deadline);
        let first = [to_move, expired, slot].into_iter().flatten().min()?;
        Some(first << TICK_SHIFT)
    }

    /// Returns the tick at which the timer's place comes up. `expires`: when it is due.
    ///
    /// # Safety
    /// `timer` must be valid, unlinked and counted.
    #[inline]
    unsafe fn link(&mut self, timer: NonNull<Timer>, expires: u64) -> u64 {
        let (list, slot, deadline) = if expires <= self.elapsed {
            (&mut self.expired, EXPIRED, self.elapsed)
        } else {
            let (level, at) = match level_of(expires - self.elapsed) {
                level if level < LEVELS => (level, expires),
                _ => self.parked(),
            };
            let index = at >> shift(level);
            let slot = place(level, index);
            let deadline = (index << shift(level)) - lead(level);
            let (word, bit) = bit(slot);
            self.occupied[word] |= bit;
            let bucket = &mut self.slots[slot];
            bucket.armed += 1;
            (&mut bucket.timers, slot as u16, deadline)
        };
        // SAFETY: valid, unlinked, and alive until cancelled or returned.
        unsafe {
            (*timer.as_ptr()).slot = slot;
            list.push_back(Timer::node(timer));
        }
        deadline
    }

    /// Where and until when a timer is parked that is due beyond the wheel's reach.
    #[cold]
    #[inline(never)]
    fn parked(&self) -> (usize, u64) {
        (LEVELS - 1, self.elapsed + REACH)
    }

    /// A timer has left its slot. If that has come up since, what is here now is of another slot,
    /// and is right already.
    #[inline]
    fn has_left(&mut self, slot: u16) {
        let slot = usize::from(slot);
        // `EXPIRED` is no place.
        let Some(bucket) = self.slots.get_mut(slot) else { return };
        if bucket.timers.is_empty() {
            bucket.armed = 0;
            let (word, bit) = bit(slot);
            self.occupied[word] &= !bit;
        }
    }

    /// The slot that comes up first.
    fn next_slot(&self) -> Option<Slot> {
        let of_level = |level: usize| {
            let [low, high] = [0, 1].map(|half| u128::from(self.occupied[2 * level + half]));
            let occupied = low | high << u64::BITS;
            if occupied == 0 {
                return None;
            }
            // The slot at the hand has timers only while a slot of another level comes up first at
            // the same tick.
            let hand = hand(self.elapsed, level);
            let ahead = occupied.rotate_right(hand as u32 % SLOTS as u32).trailing_zeros();
            let start = (hand + u64::from(ahead)) << shift(level);
            Some(Slot { level, deadline: start - lead(level) })
        };
        (0..LEVELS).filter_map(of_level).min_by_key(|slot| slot.deadline)
    }

    /// Of the levels with timers to be moved for which `is_wanted` holds, the one whose timers are
    /// due first.
    fn first_move(&self, is_wanted: impl Fn(&Moving) -> bool) -> Option<usize> {
        let mut first: Option<usize> = None;
        for level in 1..LEVELS {
            let moving = &self.moving[level];
            let is_unfinished = !moving.left.timers.is_empty() && is_wanted(moving);
            let is_first = |first: usize| moving.start < self.moving[first].start;
            if is_unfinished && first.is_none_or(is_first) {
                first = Some(level);
            }
        }
        first
    }

    /// The slot's time has come: its timers are due, or are to be moved to lower levels.
    fn come_up(&mut self, slot: Slot) {
        self.elapsed = slot.deadline;
        let place = slot.place();
        let (word, bit) = bit(place);
        self.occupied[word] &= !bit;
        let bucket = &mut self.slots[place];
        if slot.level == 0 {
            debug_assert!(self.expired.is_empty(), "time went on over uncollected timers");
            core::mem::swap(&mut self.expired, &mut bucket.timers);
            bucket.armed = 0;
        } else {
            let moving = &mut self.moving[slot.level];
            debug_assert!(moving.left.timers.is_empty(), "time went on over unmoved timers");
            moving.left.armed = 0;
            core::mem::swap(&mut moving.left, bucket);
            moving.start = slot.start();
            moving.quota = 0;
            self.paced_at = 0;
        }
    }

    /// Nothing more happens until `now`: timers may be moved.
    fn pass_time(&mut self, now: u64) {
        self.elapsed = now;
        if self.paced_at != now {
            self.paced_at = now;
            self.moving.iter_mut().for_each(|moving| moving.pace(now));
        }
    }

    /// Moves at most `most` timers of a slot that came up. Returns how many were moved.
    fn move_some(&mut self, level: usize, most: usize, budget: &mut usize) -> usize {
        let most = most.min(*budget);
        let mut moved = 0;
        while moved < most
            && let Some(node) = self.moving[level].left.timers.first()
        {
            moved += 1;
            // SAFETY: linked on a list of this wheel, hence a member of a timer.
            unsafe {
                // C looks whether it is armed, without the lock.
                list::take_off(node);
                let timer = Timer::of_node(node);
                self.link(timer, (*timer.as_ptr()).expires);
            }
        }
        let left = &mut self.moving[level].left.armed;
        *left = left.saturating_sub(moved);
        *budget -= moved;
        moved
    }
}

/// Ticks, as a power of two, that a slot of the level spans.
#[inline]
const fn shift(level: usize) -> u32 {
    ROUND_BITS * level as u32
}

/// How many ticks ahead of its time a slot of the level comes up: half of what it spans. On the
/// lowest level 0: its timers are due.
#[inline]
const fn lead(level: usize) -> u64 {
    (1 << shift(level)) >> 1
}

/// The last slot of a level that has come up, counted from the beginning of time.
#[inline]
fn hand(elapsed: u64, level: usize) -> u64 {
    (elapsed + lead(level)) >> shift(level)
}

/// The word of `occupied`, and its bit, that say whether a slot has timers.
#[inline]
fn bit(place: usize) -> (usize, u64) {
    (place / u64::BITS as usize, 1 << (place % u64::BITS as usize))
}

/// Where a level's slot is kept.
#[inline]
fn place(level: usize, index: u64) -> usize {
    level * SLOTS + index as usize % SLOTS
}

/// The lowest level that reaches so many ticks ahead; [`LEVELS`] or more: none does.
///
/// `ticks` and an eighth of it have to be less than 128 slots: a level reaches 113 slots ahead. A
/// slot of level `n` spans `2^6n` ticks, so `n` is a sixth of the logarithm, less one.
#[inline]
fn level_of(ticks: u64) -> usize {
    let log = ((ticks + (ticks >> 3)) | 0b11).ilog2() as usize;
    sixth(log - 1)
}

/// `n / 6` of a logarithm, in fewer instructions.
#[inline]
const fn sixth(n: usize) -> usize {
    (n * 43) >> 8
}

impl fmt::Debug for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel").field("elapsed", &self.elapsed).field("len", &self.len).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{LEVELS, REACH, ROUND_BITS, SLOTS, lead, level_of, shift, sixth};

    /// The levels whose limits are looked at from both sides.
    fn limits() -> impl Iterator<Item = (usize, u64)> {
        (0..LEVELS).map(|level| {
            let slot = 1 << shift(level);
            let reached = |ticks: &u64| level_of(*ticks) <= level;
            let limit = (0..SLOTS as u64).rev().map(|slots| slots * slot).find(reached);
            (level, limit.expect("a level reaches something"))
        })
    }

    #[test]
    fn a_level_reaches_a_slot_of_the_next_that_comes_up_and_no_place_twice() {
        for (level, limit) in limits() {
            let slot = 1 << shift(level);
            let next_comes_up = (slot * 64) + lead(level + 1);
            assert!(limit >= next_comes_up, "level {level}: timers move down");
            // The hand is half a slot ahead, and a timer somewhere in its slot.
            assert!(limit / slot + 2 < SLOTS as u64, "level {level}: a place has one slot");
        }
        for log in 0..u64::BITS as usize {
            assert_eq!(sixth(log), log / ROUND_BITS as usize);
        }
        assert_eq!(level_of(REACH), LEVELS - 1, "a timer beyond the reach is parked");
        assert!(level_of(1 << 46) >= LEVELS, "and is known to be");
    }

    #[test]
    fn a_slot_comes_up_behind_the_hand() {
        for (level, limit) in limits().take(LEVELS - 1) {
            // The first that is of the level above comes up later than now.
            let first = (limit..).find(|&ticks| level_of(ticks) > level).expect("there is one");
            let start = first >> shift(level + 1) << shift(level + 1);
            assert!(start > lead(level + 1), "level {level}");
        }
    }
}
