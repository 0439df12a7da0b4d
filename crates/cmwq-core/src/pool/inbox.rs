//! What every driver does with a pool's [`Inbox`], with what has arrived from there, and with a
//! batch that is out: when it takes the pool's lock ([`LockFor`]), when an item has ended, and
//! before it drops the lock.
//!
//! KERNEL: none; `__queue_work` always takes the pool's lock.

use super::{Kick, PoolState};
use crate::inbox::Inbox;

/// What a pool's lock is taken for. It decides what becomes of the items that are on no list yet:
///
/// | | items in the inbox | that have arrived | of a [batch](crate::Batch) that is out |
/// |---|---|---|---|
/// | `Find` | are listed | are listed | are called back and listed |
/// | `Queue` | are listed, or arrive behind others | stay so | stay there |
/// | `Counts` | stay there | stay so | are called back: have arrived |
/// | `NextItem` | stay there | stay so | stay there |
/// | `Decide` | arrive, or are listed if no running worker comes for them | the first that may start is listed | are called back: have arrived |
/// | `Inbox` | as for `Decide` | stay so | stay there |
///
/// Who only looks takes the lock, and asks a [`Reading`](super::Reading).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockFor {
    /// To find an item on a list: cancelling, flushing an item, rescuing.
    Find,
    /// To queue, and nothing else: what is queued now is younger than what is in the inbox.
    Queue,
    /// For right counts, by callers to whom waiting items do not matter.
    Counts,
    /// To end an item and claim the next one, by a worker of the pool: items that wait are older
    /// than those of the inbox, and its own batch is not to be called back. Counts may lag.
    NextItem,
    /// To decide because items wait, or to ask whether they do, and look for none: workers,
    /// detectors, helpers, flushers of a queue.
    Decide,
    /// Because pushing into the inbox was not enough.
    Inbox,
}

impl PoolState {
    /// The first call under each hold of the pool's lock, or one for something more under the same.
    /// Returns what to do for the items of the inbox once the lock is dropped.
    #[inline(always)]
    pub fn begin_hold(&mut self, inbox: &Inbox, what_for: LockFor) -> Kick {
        match what_for {
            LockFor::Find => {
                let kick = self.list_inbox(inbox);
                self.catch_up();
                kick
            }
            LockFor::Queue => self.list_inbox(inbox),
            LockFor::Counts => {
                if self.has_batch_out() {
                    self.call_back();
                }
                Kick::None
            }
            LockFor::NextItem => Kick::None,
            LockFor::Decide => {
                let kick = if inbox.is_empty() { Kick::None } else { self.relieve(inbox) };
                self.catch_up_to_first();
                kick
            }
            LockFor::Inbox => self.relieve(inbox),
        }
    }

    /// Takes the inbox; has the pool watched where its items have only arrived.
    #[inline(always)]
    fn relieve(&mut self, inbox: &Inbox) -> Kick {
        self.take_inbox(inbox).unwrap_or(Kick::Watch)
    }

    /// A worker of the pool, or its BH context, has ended an item and asks for the next one under
    /// this hold of the lock: takes the inbox if nothing else waits, since what waits is older.
    /// Returns what to do once the lock is dropped.
    #[inline(always)]
    pub fn take_inbox_after_item(&mut self, inbox: &Inbox) -> Kick {
        if self.work_waits() || inbox.is_empty() {
            return Kick::None;
        }
        // Who claims the first of what has arrived is told to watch.
        self.take_inbox(inbox).unwrap_or(Kick::None)
    }

    /// Has the inbox say whether pushing into it is enough to queue an item. To be called before
    /// the lock is dropped wherever the number of running workers may have changed, or whether the
    /// pool is watched; an inbox that says "not enough" for too long is only slower. `is_watched`:
    /// blocked workers of this pool will be noticed. `may_be_helped`: another pod has a CPU to
    /// spare for items of this pool, so the pool must ask that pod for each item, under its lock.
    ///
    /// `None`: it says what it has said before. Otherwise what to do once the lock is dropped.
    #[inline(always)]
    #[must_use]
    pub fn update_saturation(
        &mut self,
        inbox: &Inbox,
        is_watched: bool,
        may_be_helped: impl FnOnce() -> bool,
    ) -> Option<Kick> {
        let is_saturated = self.is_saturated(is_watched, may_be_helped);
        (is_saturated != self.lets_push).then(|| self.turn_saturation(inbox, is_saturated))
    }

    /// Whether the inbox says that pushing is enough.
    #[inline]
    #[must_use]
    pub fn lets_push(&self) -> bool {
        self.lets_push
    }

    #[inline(never)]
    fn turn_saturation(&mut self, inbox: &Inbox, is_saturated: bool) -> Kick {
        self.lets_push = is_saturated;
        if is_saturated {
            inbox.saturate();
            return Kick::None;
        }
        inbox.desaturate();
        self.list_inbox(inbox)
    }

    /// Whether pushing is enough: as many workers run as may, blocked ones will be noticed, and
    /// nobody could help; or one has been woken and will look.
    #[inline(always)]
    pub(crate) fn is_saturated(
        &self,
        is_watched: bool,
        may_be_helped: impl FnOnce() -> bool,
    ) -> bool {
        if !self.config.may_saturate {
            return false;
        }
        if self.is_at_capacity() {
            return is_watched && !may_be_helped();
        }
        // Not for one item alone: saying so, and no longer, costs more than the lock.
        !self.arrived.is_empty() && self.is_one_woken()
    }

    #[inline(always)]
    fn list_inbox(&mut self, inbox: &Inbox) -> Kick {
        if inbox.is_empty() { Kick::None } else { self.empty_inbox(inbox) }
    }

    /// Queues the items of the pool's inbox, oldest first.
    #[inline(never)]
    pub(crate) fn empty_inbox(&mut self, inbox: &Inbox) -> Kick {
        let (mut items, mut kick) = (inbox.take(), Kick::None);
        while !items.is_empty() {
            if self.has_to_arrive() {
                return kick.or(self.queue_to_arrive(items));
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
    pub(crate) fn take_inbox(&mut self, inbox: &Inbox) -> Option<Kick> {
        if self.makes_batches() && self.is_at_capacity() {
            self.arrive(inbox.take());
            return None;
        }
        Some(self.empty_inbox(inbox))
    }
}
