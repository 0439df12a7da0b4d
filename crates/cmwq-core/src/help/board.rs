//! What every pod sees of the others, and what each publishes of itself.
//!
//! # The protocol
//!
//! A pool that gets a backlog publishes it first and then looks for a pod with a CPU to spare. A
//! pod that gets a CPU to spare publishes that first and then looks for a backlog. In a driver with
//! threads, writing and looking must be ordered as by full fences, so that of two pods that do this
//! at once at least one sees the other. A pod's bit is written under its pool's lock, and only when
//! it changes. (`CallerComputes` is written without the lock, by the thread that finds out.)
//!
//! Why: docs/decisions/board.md

use super::layout::Layout;

/// Sets of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Set {
    /// Pods with a CPU to spare on which no thread outside of the pools computes; also pods that
    /// were never used. Not pods that have been asked and have not come yet.
    Spare,
    /// The same, of pods on whose CPU a thread outside of the pools computes: the CPU's sentinel
    /// calls them when the CPU is idle.
    Reserve,
    /// Pods with more work than they may start, whose items take long enough to be worth help.
    Backlog,
    /// Pods that may start nothing, and learn of more items only when one of their workers looks
    /// into the inbox: there may be some already.
    Saturated,
    /// Pods that may help at all. The driver keeps this set, since it knows which CPUs there are.
    Open,
    /// Pods on whose CPU a thread outside of the pools computes.
    CallerComputes,
}

impl Set {
    /// How many sets there are.
    pub const COUNT: usize = 6;
    /// The sets that pools keep themselves, and that have summaries. They come first.
    pub const SUMMED: [Self; 4] = [Self::Spare, Self::Reserve, Self::Backlog, Self::Saturated];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Sets of pods, as words of bits that a [`Layout`] explains.
pub trait Board {
    /// Where each pod's bit is.
    fn layout(&self) -> &Layout;

    /// One word of a set.
    fn word(&self, set: Set, word: usize) -> u64;

    /// For 64 words of a set from word `at * 64` on, which words are not empty. A bit may be set
    /// although its word is empty. It may be clear although its word is not empty only during a
    /// [`retire`](Self::retire).
    fn summary(&self, set: Set, at: usize) -> u64;

    /// A word that the summary names is empty: takes the word out of the summary, and returns it as
    /// it is *then*. If a pod was put into the word meanwhile, the summary names it again.
    fn retire(&self, set: Set, word: usize) -> u64;
}

/// Which sets of [`Set::SUMMED`] a pod is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry(u8);

impl Entry {
    const NONE: Self = Self(0);
    /// The entry of a pod that was not made yet, if it may help.
    pub const UNMADE: Self = Self(Set::Spare.bit());

    /// Whether the pod is in this set.
    #[inline]
    #[must_use]
    pub const fn has(self, set: Set) -> bool {
        self.0 & set.bit() != 0
    }

    /// What has changed since `before`: the sets, and whether the pod is in them now.
    #[inline]
    pub fn changes(self, before: Self) -> impl Iterator<Item = (Set, bool)> {
        let changed = self.0 ^ before.0;
        let sets = Set::SUMMED.into_iter().filter(move |set| changed & set.bit() != 0);
        sets.map(move |set| (set, self.has(set)))
    }
}

/// Whether pushing into a watched pool's inbox may be enough. If other pods help the pool
/// (`has_others`), only where a tick looks at it (`has_tick`): a pod that becomes idle does not
/// ask saturated pods, and is not asked for items that are pushed there afterwards.
#[must_use]
pub const fn may_saturate(has_others: bool, has_tick: bool) -> bool {
    has_tick || !has_others
}

/// What a pod's pool knows of itself.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// [`PoolState::work_waits`](crate::PoolState::work_waits).
    pub work_waits: bool,
    /// [`PoolState::is_at_capacity`](crate::PoolState::is_at_capacity).
    pub is_at_capacity: bool,
    /// [`PoolState::is_starved`](crate::PoolState::is_starved).
    pub is_starved: bool,
    /// Its items are too short for others to help, see [`short_items`](super::short_items).
    pub has_short_items: bool,
    /// Items are pushed into its inbox without its lock.
    pub is_saturated: bool,
    /// One of its workers was asked to help others, and has not come yet.
    pub is_asked_to_help: bool,
    /// Its CPUs have gone, or are isolated.
    pub is_closed: bool,
    /// A thread outside of the pools computes on its CPU.
    pub caller_computes: bool,
    /// Its workers are watched, so that a sentinel calls the pool when its CPU is idle.
    pub is_watched: bool,
}

impl Facts {
    /// What the pod publishes on the board.
    #[inline]
    #[must_use]
    pub const fn entry(self) -> Entry {
        let set = if self.is_at_capacity || self.is_starved {
            // Items that nobody runs take long.
            match (self.has_short_items && !self.is_starved, self.work_waits, self.is_saturated) {
                (false, true, _) => Set::Backlog,
                (false, false, true) => Set::Saturated,
                _ => return Entry::NONE,
            }
        } else if self.work_waits || self.is_asked_to_help || self.is_closed {
            return Entry::NONE;
        } else if !self.caller_computes {
            Set::Spare
        } else if !self.is_watched {
            Set::Reserve
        } else {
            // The CPU's sentinel calls the pool when the CPU is idle.
            return Entry::NONE;
        };
        Entry(set.bit())
    }
}
