//! What every driver does with a pool's [`Inbox`]: when pushing into it is enough, and how it is
//! emptied.
//!
//! KERNEL: none; `__queue_work` always takes the pool's lock.

use super::{Kick, PoolState};
use crate::inbox::Inbox;

impl PoolState {
    /// Whether pushing into the pool's inbox is enough to queue an item. To be asked by whoever may
    /// have changed the number of running workers or the watching, before the lock is dropped.
    /// `is_watched`: somebody looks for running workers that block. `may_be_helped`: another pool
    /// has a CPU to spare for items of this one, so that each must be told of.
    #[inline(always)]
    #[must_use]
    pub fn is_saturated(&self, is_watched: bool, may_be_helped: impl FnOnce() -> bool) -> bool {
        is_watched && self.config.may_saturate && self.is_at_capacity() && !may_be_helped()
    }

    /// Queues what is in the pool's inbox, oldest first. Returns what that demands once the lock is
    /// dropped.
    #[inline]
    pub fn empty_inbox(&mut self, inbox: &Inbox) -> Kick {
        let mut kick = Kick::None;
        for (pwq, item) in inbox.take() {
            // SAFETY: who pushed the item owned its PENDING and keeps it alive.
            kick = kick.or(unsafe { self.enqueue(pwq, item) });
        }
        kick
    }

    /// As [`empty_inbox`](Self::empty_inbox), but leaves what is in the inbox to the worker that
    /// runs, if there is one that comes for it. `None`: it was left, and the pool has to be
    /// watched unless the caller is that worker.
    #[inline]
    #[must_use]
    pub fn take_inbox(&mut self, inbox: &Inbox) -> Option<Kick> {
        if self.may_arrive() {
            self.arrive(inbox.take());
            return None;
        }
        Some(self.empty_inbox(inbox))
    }
}
