//! The pwqs of a queue, and what a change of its attributes or of the CPUs does to them.
//!
//! A queue's *slots*, one for each CPU that items are queued for, each lead to a pwq of some pool.
//! A change leads slots to other pools ([`Pwqs::moves`]): their new pwqs are added, and then those
//! to which no slot leads any more are replaced ([`Pwqs::replaced`]), and retired one after the
//! other. A replaced pwq finishes the items it has, those behind a limit included, in its own pool;
//! when it has none left it is removed.
//!
//! Of an ordered queue's pwqs only the oldest starts items, so that order holds: items of an older
//! pwq were queued earlier. A new one begins [plugged](Pwqs::begins_plugged), and with the removal
//! of the oldest the next one is [unplugged](Pwqs::to_unplug).
//!
//! KERNEL: `apply_wqattrs_commit`, `pwq_release_workfn`, `unplug_oldest_pwq` — same.
//!
//! Why: docs/decisions/replaced-pwqs.md

use alloc::vec::Vec;

use crate::ids::{PoolId, PwqRef};

/// See the module header. Lock: WQ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pwqs {
    /// Oldest first.
    all: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: PwqRef,
    is_retired: bool,
}

/// Why a pwq cannot be [removed](crate::PoolState::remove_pwq) now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// It has items, or is not there (any more).
    InUse,
    /// A slot of the node is on its way to it, and must not be lost. Who brings the slot needs only
    /// the pool's lock, so ask again.
    AwaitsSlot,
    /// Its rescuer visits, and keeps it in being. The removal is left to the rescuer, who asks when
    /// it leaves ([`has_drained`](crate::PoolState::has_drained)): it may be waiting for a lock of
    /// the caller's.
    Visited,
}

/// A look whether a queue that takes in only what its own items queue is empty: if so, it stays
/// empty.
///
/// Its pwqs are read one after the other. Meanwhile an item of one that is still to be read may
/// queue another item to one that was read, and end: each was idle when it was read, though the
/// queue never was. So there must be no [progress](crate::PwqStats::progress) meanwhile either.
/// Then all were idle at once, when the look began.
///
/// KERNEL: `drain_workqueue` — differs: it looks once, and `destroy_workqueue` once more, with all
/// locks.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyCheck {
    progress: u64,
}

impl EmptyCheck {
    /// `progress`: of all pwqs, removed ones included, before the first is read.
    pub const fn begin(progress: u64) -> Self {
        Self { progress }
    }

    /// `is_busy`: whether a pwq was when it was read. `progress`: again, after the last was read.
    #[must_use]
    pub fn finds_it_empty(self, is_busy: bool, progress: impl FnOnce() -> u64) -> bool {
        !is_busy && progress() == self.progress
    }
}

impl Pwqs {
    /// A queue that was not used yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { all: Vec::new() }
    }

    /// Whether the queue has none: it was not used yet, or has left all pools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = PwqRef> + '_ {
        self.all.iter().map(|entry| entry.at)
    }

    /// All, oldest first, and whether each was replaced.
    pub fn entries(&self) -> impl Iterator<Item = (PwqRef, bool)> + '_ {
        self.all.iter().map(|entry| (entry.at, entry.is_retired))
    }

    /// Those to which slots lead, oldest first.
    pub fn in_use(&self) -> impl DoubleEndedIterator<Item = PwqRef> + '_ {
        self.all.iter().filter(|entry| !entry.is_retired).map(|entry| entry.at)
    }

    /// Those that were replaced and are not removed yet, oldest first.
    pub fn retired(&self) -> impl Iterator<Item = PwqRef> + '_ {
        self.all.iter().filter(|entry| entry.is_retired).map(|entry| entry.at)
    }

    /// Whether this one was replaced.
    #[must_use]
    pub fn is_retired(&self, at: PwqRef) -> bool {
        self.retired().any(|other| other == at)
    }

    /// Whether the next pwq has to wait for others: it is to be
    /// [plugged](crate::PoolState::plug_pwq) before a slot leads to it.
    #[must_use]
    pub fn begins_plugged(&self, is_ordered: bool) -> bool {
        is_ordered && !self.all.is_empty()
    }

    /// A new pwq.
    pub fn add(&mut self, at: PwqRef) {
        debug_assert!(self.iter().all(|other| other != at), "a pwq is added once");
        self.all.push(Entry { at, is_retired: false });
    }

    /// Whether a slot that leads to the pool `now` has to be led elsewhere. `wanted`: where the
    /// queue's attributes and the CPUs want its items. While that pool cannot be made, the slot
    /// leads where it did; one that leads nowhere yet stays so until its first item comes.
    #[must_use]
    pub fn moves(now: PoolId, wanted: PoolId) -> bool {
        wanted != now
    }

    /// The pwqs to retire after slots were led elsewhere, oldest first. `is_led`: whether a slot
    /// leads to a pwq now.
    pub fn replaced(&self, is_led: impl Fn(PwqRef) -> bool) -> Vec<PwqRef> {
        self.in_use().filter(|&at| !is_led(at)).collect()
    }

    /// The pool [knows](crate::PoolState::retire_pwq) that this one takes no new items.
    pub fn retire(&mut self, at: PwqRef) {
        self.all
            .iter_mut()
            .filter(|entry| entry.at == at)
            .for_each(|entry| entry.is_retired = true);
    }

    /// This one is not there any more.
    pub fn remove(&mut self, at: PwqRef) {
        self.all.retain(|entry| entry.at != at);
    }

    /// The queue leaves all pools: these pwqs are to be removed.
    #[must_use]
    pub fn take_all(&mut self) -> Vec<PwqRef> {
        core::mem::take(&mut self.all).into_iter().map(|entry| entry.at).collect()
    }

    /// Which pwq [may start items](crate::PoolState::unplug_pwq) now, after others were retired and
    /// removed; it may have been told already.
    #[must_use]
    pub fn to_unplug(&self, is_ordered: bool) -> Option<PwqRef> {
        self.iter().next().filter(|_| is_ordered)
    }
}
