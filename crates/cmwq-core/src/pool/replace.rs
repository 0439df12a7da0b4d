//! Replacing a queue's pwq by another, mostly of another pool: what a change of attributes or of
//! the CPUs does.
//!
//! The new pwq is published first, then the old one is *retired* under its pool's lock. A thread
//! that queues checks under that lock whether the pwq it has found still
//! [accepts](PoolState::accepts) items; if not, it looks the queue's pwq up again, and finds the
//! new one. A retired pwq works off its items and counts in flushes. When its last item has gone,
//! an [effect](super::Effects) reports that, and the pwq is removed.
//!
//! An ordered queue must not start an item of its new pwq before the last one of the old pwq has
//! finished: its new pwq is *plugged* until then.
//!
//! Why: docs/decisions/replaced-pwqs.md

use super::{Kick, PoolState, Rule};
use crate::ids::{PwqId, WqKey};

impl PoolState {
    /// Whether an item of `wq` may be queued here: the pwq exists, is still that queue's (its id
    /// may have been used again), and is not retired. For an item that the pool is running it does
    /// not matter: see [`executing_on`](Self::executing_on).
    ///
    /// KERNEL: the check for a refcount of zero in `__queue_work` — same purpose, but recognizes a
    /// replaced pwq at once instead of when it has drained.
    #[inline]
    #[must_use]
    pub fn accepts(&self, pwq: PwqId, wq: WqKey) -> bool {
        self.pwqs
            .get(pwq.0)
            .is_some_and(|p| p.wq == wq && !(p.retired && self.keeps(Rule::RetiredRefuses)))
    }

    /// Whether the way to a pwq of `wq` that a thread has read leads to another one by now, so that
    /// the thread has to read again. `leads_here`: whether the slot still has that way.
    ///
    /// An ordered queue looks at its slot, too. The id of a removed pwq may belong to a new pwq of
    /// the same queue that the slot does not lead to yet: an item that used the old way would run
    /// after items that are queued later.
    #[inline]
    #[must_use]
    pub fn is_replaced(
        &self,
        pwq: PwqId,
        wq: WqKey,
        is_ordered: bool,
        leads_here: impl FnOnce() -> bool,
    ) -> bool {
        !self.accepts(pwq, wq) || is_ordered && !leads_here()
    }

    /// Lets a pwq work off its items. `true`: it has none, so it can be [removed](Self::remove_pwq)
    /// at once; otherwise [`Effects::retired`](super::Effects::retired) says when.
    #[must_use]
    pub fn retire_pwq(&mut self, pwq: PwqId) -> bool {
        let p = self.pwq(pwq);
        p.retired = true;
        p.is_idle()
    }

    /// Whether a retired pwq has no items left. [`Effects::retired`](super::Effects::retired)
    /// reports that, too, but a visiting rescuer has to ask once more when it leaves.
    #[must_use]
    pub fn has_drained(&self, pwq: PwqId) -> bool {
        self.pwqs.get(pwq.0).is_some_and(|p| p.retired && p.is_idle())
    }

    /// Keeps a pwq from starting anything until [`unplug_pwq`](Self::unplug_pwq): everything queued
    /// is inactive. To be called before the first item is queued.
    pub fn plug_pwq(&mut self, pwq: PwqId) {
        let p = self.pwq(pwq);
        debug_assert!(p.is_idle(), "plugged too late");
        p.plugged = true;
    }

    /// The older pwq has drained: the items that were queued on this one meanwhile start, in order.
    ///
    /// KERNEL: `unplug_oldest_pwq` — same.
    pub fn unplug_pwq(&mut self, pwq: PwqId) -> Kick {
        self.pwq(pwq).plugged = false;
        if self.keeps(Rule::UnplugActivates) {
            self.activate_inactive(pwq);
        }
        self.kick()
    }

    /// How many pwqs lead here, retired ones included. A pool without any has no work and gets
    /// none.
    #[must_use]
    pub fn nr_pwqs(&self) -> usize {
        self.pwqs.iter().count()
    }
}
