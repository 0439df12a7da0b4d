//! Items that are too short for help: a guest that finds them short leaves, and no other pod is
//! called until the tick finds that the pool's own workers take longer for an item.

use cmwq_core::help::{self, Progress};

use super::Engine;
use crate::event::PoolNo;

impl Engine<'_> {
    /// See [`help::may_be_helped`].
    pub(super) fn may_be_helped(&self, pool: PoolNo) -> bool {
        let it = &self.pools.list[pool];
        let board = &self.pools.boards[usize::from(it.is_high)];
        self.lends(pool) && help::may_be_helped(board, || it.has_short_items)
    }

    /// Measures the items again, if they were found short. By the tick.
    pub(super) fn detect_short_items(&mut self, pool: PoolNo) {
        if self.pools.list[pool].has_short_items
            && let Some(is_short) = self.pools.list[pool].measured.was_short(self.progress_of(pool))
        {
            self.set_short(pool, is_short);
            self.check_pool(pool);
        }
    }

    /// Work begins to wait: forgets that the items were short, if that was found long ago.
    pub(super) fn forget_short_items(&mut self, pool: PoolNo) {
        if self.pools.list[pool].has_short_items {
            let is_old = self.pools.list[pool].measured.is_old(self.progress_of(pool));
            self.set_short(pool, !is_old);
        }
    }

    pub(super) fn set_short(&mut self, pool: PoolNo, is_short: bool) {
        let now = self.progress_of(pool);
        let it = &mut self.pools.list[pool];
        (it.measured, it.has_short_items) = (now, is_short);
    }

    /// How many items it has started by now.
    pub(super) fn progress_of(&self, pool: PoolNo) -> Progress {
        Progress { at: self.now, started: self.pools.list[pool].read().nr_started() }
    }
}
