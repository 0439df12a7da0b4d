//! The per-node limit of an unbound queue: `max_active` is for the whole system, split over NUMA
//! nodes, and the pools of one node share that node's part (`wq_node_nr_active`).
//!
//! Owns [`NodeState`], a lock domain of its own (the kernel's LN), taken inside a pool's lock.
//! Where the kernel frees a slot and lets the waiter race for it, a slot here is *handed over*:
//! [`NodeState::put`] returns the pwq that now owns the slot, so nothing can be lost between the
//! two pools' locks.

use alloc::collections::VecDeque;
use core::fmt;

use crate::ids::PwqRef;

/// How a pool reaches the limit it shares with other pools: the driver's lock around a
/// [`NodeState`].
pub trait NodeSlots: Send + Sync + fmt::Debug {
    /// Takes a slot for `who`; if there is none, `who` waits in line and `false` is returned.
    fn try_get(&self, who: PwqRef) -> bool;
    /// Whether a pwq that frees a slot may use it for its own next item: nobody else waits for one,
    /// or it has kept fewer than its turn since it gave one back; and the limit is not exceeded.
    /// `is_waiting`: that pwq is itself in line. Asking costs less than giving the slot back.
    fn may_keep(&self, is_waiting: bool, kept: u32) -> bool {
        let _ = (is_waiting, kept);
        false
    }
    /// Gives a slot back; `Some(pwq)`: the slot now belongs to that pwq, see
    /// [`PoolState::grant`](crate::PoolState::grant).
    fn put(&self) -> Option<PwqRef>;
    /// Takes `who` out of the line. `false`: it is not in it, because a slot was given to it that
    /// it does not know of yet. An implementation that cannot do it may say `false`; then a pwq
    /// that waits for a slot it no longer needs cannot be removed before it gets one.
    fn leave(&self, _who: PwqRef) -> bool {
        false
    }
}

/// One node's share of a queue's `max_active`. Lock: LN.
#[derive(Debug, Default)]
pub struct NodeState {
    nr: u32,
    max: u32,
    pending: VecDeque<PwqRef>,
}

impl NodeState {
    /// A node that admits `max` items.
    #[must_use]
    pub const fn new(max: u32) -> Self {
        Self { nr: 0, max, pending: VecDeque::new() }
    }

    /// Items admitted now.
    #[must_use]
    pub const fn nr(&self) -> u32 {
        self.nr
    }

    /// The limit.
    #[must_use]
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// See [`NodeSlots::try_get`]. No queue jumping: while others wait, the caller waits behind
    /// them.
    pub fn try_get(&mut self, who: PwqRef) -> bool {
        if self.pending.is_empty() && self.nr < self.max {
            self.nr += 1;
            return true;
        }
        debug_assert!(!self.pending.contains(&who), "{who:?} waits twice");
        self.pending.push_back(who);
        false
    }

    /// See [`NodeSlots::may_keep`].
    #[must_use]
    pub fn may_keep(&self, is_waiting: bool, kept: u32) -> bool {
        let is_alone = self.pending.len() <= usize::from(is_waiting);
        Self::keeps(self.nr, self.max, is_alone, kept)
    }

    /// The decision of [`NodeSlots::may_keep`], of `nr` slots that are taken and `max` that there
    /// are. `is_alone`: nobody else waits.
    #[must_use]
    pub const fn keeps(nr: u32, max: u32, is_alone: bool, kept: u32) -> bool {
        (is_alone || kept < Self::turn(max)) && nr <= max
    }

    /// How many slots a pwq keeps, one after the other, before one of its slots goes to who waits:
    /// a 64th of them all. Handing one over costs two pools' locks. Who waits does so until some
    /// pwq has had its turn: at worst, until 1.6 % more of what is active has finished for each pwq
    /// that waits.
    ///
    /// KERNEL: `pwq_dec_nr_active` — differs: there each slot goes to who waits longest; so it does
    /// here where there are fewer than 64.
    const fn turn(max: u32) -> u32 {
        max / 64
    }

    /// See [`NodeSlots::put`].
    #[must_use]
    pub fn put(&mut self) -> Option<PwqRef> {
        debug_assert!(self.nr > 0, "a slot was returned twice");
        self.nr -= 1;
        self.next_granted()
    }

    /// See [`NodeSlots::leave`].
    pub fn leave(&mut self, who: PwqRef) -> bool {
        let Some(at) = self.pending.iter().position(|&pwq| pwq == who) else { return false };
        self.pending.remove(at);
        true
    }

    /// Changes the limit. The pwqs returned one by one by [`next_granted`](Self::next_granted) own
    /// slots.
    pub fn set_max(&mut self, max: u32) {
        self.max = max;
    }

    /// The next waiting pwq that can be given a slot, which it then owns.
    #[must_use]
    pub fn next_granted(&mut self) -> Option<PwqRef> {
        if self.nr >= self.max {
            return None;
        }
        let who = self.pending.pop_front()?;
        self.nr += 1;
        Some(who)
    }

    /// The share of a node with `cpus` of `total` CPUs: proportional, rounded up, within
    /// `min..=max`.
    ///
    /// KERNEL: `wq_update_node_max_active` — same, with 0 CPUs giving `min`.
    #[must_use]
    pub const fn share(max: u32, min: u32, cpus: u32, total: u32) -> u32 {
        if total == 0 || cpus == 0 {
            return if min < max { min } else { max };
        }
        let part = ((max as u64 * cpus as u64).div_ceil(total as u64)) as u32;
        let low = if min < max { min } else { max };
        if part < low {
            low
        } else if part > max {
            max
        } else {
            part
        }
    }
}
