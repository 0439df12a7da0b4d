//! What every pod sees of the others, and what each says of itself.
//!
//! # The protocol
//!
//! Who posts a backlog does so first and then looks for a pod with a CPU to spare; who has become
//! one to spare says so first and then looks for a backlog. In a driver with threads, writing and
//! looking must be ordered as by full fences, so that of two that do this at once at least one sees
//! the other. A pod's bit is written under its pool's lock, and only when it changes.
//! (`CallerComputes` is written without the lock, by whoever finds out.)

use super::layout::Layout;

/// Sets of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Those with a CPU to spare that nobody outside of the pools computes on. A pod that was never
    /// used is one. Not those that have been called and have not come yet.
    Spare,
    /// The same, of pods whose CPU somebody computes on: their sentinel calls them when it is idle.
    Reserve,
    /// Those with more work than they may start, that takes long enough to be worth help.
    Backlog,
    /// Those that may start nothing, and get to know of more work only when one of their workers
    /// looks: it may be there already.
    Saturated,
    /// Those that may help at all. Kept by whoever knows which CPUs there are.
    Open,
    /// Those on whose CPU somebody outside of the pools computes.
    CallerComputes,
}

impl Set {
    /// How many sets there are.
    pub const COUNT: usize = 6;
    /// The sets that a pool keeps itself; of these there are summaries. They come first.
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

    /// For 64 words of a set from word `at * 64` on, which of them are not empty. One that is not
    /// may not be missing, but for the moment of a [`retire`](Self::retire); one that is empty may
    /// be there.
    fn summary(&self, set: Set, at: usize) -> u64;

    /// A word that the summary names is empty: takes it out, and returns the word as it is
    /// *then*: if somebody has put a pod in meanwhile, the summary names it again.
    fn retire(&self, set: Set, word: usize) -> u64;
}

/// What a pod is in, of [`Set::SUMMED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry(u8);

impl Entry {
    const NONE: Self = Self(0);
    /// What a pod is in that was not made yet, if it may help.
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

/// Whether pushing into a watched pool's inbox may be enough. If others help it (`has_others`) only
/// where somebody looks at intervals (`has_tick`): a pod that becomes idle does not tell those that
/// are saturated, and nobody tells it what is pushed there afterwards.
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
    /// Its items are too short for others to help, see [`short_items`](super::short_items).
    pub has_short_items: bool,
    /// Who queues does not tell.
    pub is_saturated: bool,
    /// A worker of it was called to help others, and has not come yet.
    pub is_called: bool,
    /// Its CPUs have gone, or are kept free for who asks for them.
    pub is_closed: bool,
    /// Somebody outside of the pools computes on its CPU.
    pub caller_computes: bool,
    /// Its workers are watched, so that a sentinel calls it when its CPU is idle.
    pub is_watched: bool,
}

impl Facts {
    /// What it says on the board.
    #[inline]
    #[must_use]
    pub const fn entry(self) -> Entry {
        let set = if self.is_at_capacity {
            match (self.has_short_items, self.work_waits, self.is_saturated) {
                (false, true, _) => Set::Backlog,
                (false, false, true) => Set::Saturated,
                _ => return Entry::NONE,
            }
        } else if self.work_waits || self.is_called || self.is_closed {
            return Entry::NONE;
        } else if !self.caller_computes {
            Set::Spare
        } else if !self.is_watched {
            Set::Reserve
        } else {
            // Its sentinel calls it when its CPU is idle.
            return Entry::NONE;
        };
        Entry(set.bit())
    }
}
