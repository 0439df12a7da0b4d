//! What every driver does with a pool's [`Inbox`]: when pushing into it is enough, and how it is
//! emptied.
//!
//! KERNEL: none; `__queue_work` always takes the pool's lock.

use super::{Kick, PoolState};
use crate::inbox::Inbox;

impl PoolState {
    /// Whether pushing into the pool's inbox is enough to queue an item: as many workers run as
    /// may, or one has been woken and will look. To be asked before the lock is dropped wherever
    /// the number of running workers may have changed, or whether the pool is watched.
    /// `is_watched`: blocked workers of this pool will be noticed. `may_be_helped`: another pod has
    /// a CPU to spare for items of this pool, so the pool must call that pod for each item, under
    /// its lock.
    #[inline(always)]
    #[must_use]
    pub fn is_saturated(&self, is_watched: bool, may_be_helped: impl FnOnce() -> bool) -> bool {
        if !self.config.may_saturate {
            return false;
        }
        if self.is_at_capacity() {
            return is_watched && !may_be_helped();
        }
        // Not for one item alone: saying so, and no longer, costs more than the lock.
        !self.arrived.is_empty() && self.is_one_woken()
    }

    /// Queues the items of the pool's inbox, oldest first. Returns what to do for them once the
    /// lock is dropped.
    #[inline(never)]
    pub fn empty_inbox(&mut self, inbox: &Inbox) -> Kick {
        let (mut items, mut kick) = (inbox.take(), Kick::None);
        while !items.is_empty() {
            if self.is_behind_others() {
                return kick.or(self.queue_behind(items));
            }
            let Some((pwq, item)) = items.pop() else { break };
            // SAFETY: the thread that pushed the item owned its PENDING and keeps it alive.
            kick = kick.or(unsafe { self.enqueue_now(pwq, item) });
        }
        kick
    }

    /// As [`empty_inbox`](Self::empty_inbox), but if a running worker comes for the items, they
    /// only arrive and are not listed. `None`: they have arrived, and the pool has to be watched
    /// unless the caller is that worker.
    #[inline]
    #[must_use]
    pub fn take_inbox(&mut self, inbox: &Inbox) -> Option<Kick> {
        if self.makes_batches() && self.is_at_capacity() {
            self.arrive(inbox.take());
            return None;
        }
        Some(self.empty_inbox(inbox))
    }
}
