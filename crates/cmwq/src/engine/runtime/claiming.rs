//! Claiming an item's PENDING, and what a forked child makes of the words that it has inherited.
//!
//! A child has copies of the parent's items: queued on pools that are not there, armed on the
//! parent's wheel, in a grace period, or claimed by a thread that is not there. None of that ends
//! here, so none of it is waited for, and who queues such an item here claims it.
//!
//! One rule tells them: **a word that names an earlier process's pool, or no pool, is from before
//! the fork**, and so is its PENDING. That holds because no thread of a child leaves such a word
//! behind: who claims an item there names a pool in the same step, the one that the item goes to,
//! or [`nowhere`](crate::engine::tools::table::Table::nowhere), an id that no pool has. (Only who
//! has made an item, and told nobody of it, claims it as everywhere.)

use cmwq_core::{WorkItem, WorkWord};

use super::Runtime;
use crate::os::generation;

/// What became of a claim.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// The item was idle; the caller owns PENDING.
    Idle,
    /// The same, but it was pending in the parent of this forked process.
    Inherited,
    /// Somebody else owns PENDING.
    Not,
}

impl Claimed {
    fn of(was: WorkWord) -> Self {
        if was.is_pending() { Self::Not } else { Self::Idle }
    }
}

/// Claims an item. `runtime` is asked in a child only.
#[inline(always)]
pub(crate) fn claim(item: &WorkItem, runtime: impl FnOnce() -> &'static Runtime) -> Claimed {
    if generation::is_child() {
        return runtime().claim_in_child(item);
    }
    Claimed::of(item.claim())
}

impl Runtime {
    #[cold]
    fn claim_in_child(&self, item: &WorkItem) -> Claimed {
        loop {
            let word = item.word();
            if !self.is_from_before(word) {
                return Claimed::of(item.claim());
            }
            // SAFETY: from before the fork, and the lists of the parent's pools are never walked
            // here.
            if unsafe { item.take_over(word, self.pools.nowhere()) } {
                return if word.is_pending() { Claimed::Inherited } else { Claimed::Idle };
            }
        }
    }

    /// Whether this process is a forked child, and the word is as its parent left it, or as an
    /// item is made.
    pub(crate) fn is_from_before(&self, word: WorkWord) -> bool {
        generation::is_child() && word.pool().is_none_or(|pool| self.pools.is_earlier(pool))
    }

    /// Whether an item is pending for the parent of this forked process, and not here.
    pub(crate) fn is_inherited(&self, word: WorkWord) -> bool {
        word.is_pending() && self.is_from_before(word)
    }
}
