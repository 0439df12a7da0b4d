//! Whether the items of a pool wait before they compute.
//!
//! At capacity a pool starts nothing until a worker blocks. That is right for items that compute,
//! and wrong for items that first fetch something: a worker that comes back from its wait has the
//! CPU, so no new item begins its wait meanwhile, and when the last one is done the CPU is idle for
//! as long as the next items wait. Before its wait such an item needs the CPU only for a short
//! time, or at least for no longer than after it. So while a managed pool's items wait first, a
//! worker that has finished an item takes another one although enough workers run: one item begins
//! for each that ends, so their number does not grow.
//!
//! That is too little for items that compute for a while before they wait: they share the CPU with
//! those that are back, so the last ones begin late, and then the CPUs are idle while they wait. Of
//! such items one more begins with each tick, as long as more workers wait than run. So the number
//! under way stops growing where it no longer helps: when half of the workers that have an item are
//! back.
//!
//! The CPU time of an item before its first wait is measured when the item is found blocked. The
//! pool believes that its items wait first after a few such items in a row, and no longer after the
//! first one that did not wait, or computed before.
//!
//! KERNEL: `keep_working` — differs: there `nr_running` alone decides.
//!
//! Why: docs/decisions/items-that-wait-first.md

use super::{Kick, PoolState, Rule};
use crate::consts::{COMPUTES_AFTER_WAIT_NS, MANY_FIRST_WAITS, WAITS_FIRST_NS, WAITS_SOON_NS};
use crate::ids::{Nanos, WorkerId};

/// CPU time of an item that was found blocked, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waited {
    /// Until it was first found blocked.
    pub before: Nanos,
    /// Since then.
    pub after: Nanos,
}

impl Waited {
    /// By the CPU time of the item's thread: when the last such item had `ended` there, when this
    /// one was first `found` blocked, and now that it has ended. What ran in between without being
    /// found blocked counts as before.
    #[must_use]
    pub const fn of(ended: Nanos, found: Nanos, now: Nanos) -> Self {
        Self { before: found.saturating_sub(ended), after: now.saturating_sub(found) }
    }

    /// Whether it costs little to begin such an item while others compute. Nothing is gained with
    /// an item that computes, waits and ends: when it is back it needs no CPU, and keeps no other
    /// item from beginning.
    const fn is_first(self) -> bool {
        self.before < WAITS_FIRST_NS || (self.before < WAITS_SOON_NS && self.before <= self.after)
    }
}

impl PoolState {
    /// An item has ended that was `found` blocked, or whose [`Claim`](crate::Claim) asks for a
    /// report: then `has_slept` says whether it waited at all.
    pub fn learn_wait(&mut self, found: Option<Waited>, has_slept: bool) {
        match found {
            Some(waited) => self.item_waited(waited),
            // It may have waited while nobody looked.
            None if has_slept => {}
            None => self.item_did_not_wait(),
        }
    }

    /// An item has ended whose worker was found blocked in it. Only managed pools learn from that.
    pub(crate) fn item_waited(&mut self, waited: Waited) {
        if !self.config.is_managed() {
            return;
        }
        let count = |counts: bool, so_far: u8| if counts { so_far.saturating_add(1) } else { 0 };
        self.short_wakes = count(waited.after < COMPUTES_AFTER_WAIT_NS, self.short_wakes);
        self.first_waits = count(waited.is_first(), self.first_waits);
        let is_soon = waited.is_first() && waited.before >= WAITS_FIRST_NS;
        self.soon_waits = count(is_soon, self.soon_waits);
    }

    /// An item that never waited has ended, although the pool believed that it would.
    pub(crate) fn item_did_not_wait(&mut self) {
        self.first_waits = 0;
    }

    /// Whom to wake to begin an item although enough workers run. A driver calls
    /// [`tick`](Self::tick).
    pub fn begin_another(&mut self) -> Kick {
        let nr_waiting = self.nr_working - self.nr_running;
        let is_wanted = self.items_wait_soon() && self.may_begin_another();
        if !is_wanted || self.nr_running >= nr_waiting {
            return Kick::None;
        }
        let kick = self.wake_idle();
        if let Kick::Wake(id) = kick {
            self.worker(id).begins_anyway = true;
        }
        kick
    }

    /// Whether work waits although enough workers run, and none is about to begin an item anyway:
    /// one that was woken by an earlier tick or alarm may have got no CPU since it has created a
    /// standby.
    pub(super) fn may_begin_another(&self) -> bool {
        self.work_waits() && self.is_at_capacity() && self.nr_coming() == 0
    }

    /// Whether the worker was woken to begin an item although enough run, by the tick or an alarm,
    /// and there is one still.
    pub(super) fn begins_anyway(&self, id: WorkerId) -> bool {
        let begins_anyway = self.workers.get(id.0).is_some_and(|worker| worker.begins_anyway);
        let may_begin = self.items_wait_first()
            || (self.processes_wait_soon() && self.keeps(Rule::AlarmedBegin));
        begins_anyway && may_begin && self.work_waits()
    }

    /// Whether the pool's items wait first, and compute for a while before they do.
    fn items_wait_soon(&self) -> bool {
        self.items_wait_first() && self.soon_waits >= MANY_FIRST_WAITS
    }

    /// Whether workers that have finished an item take another one although enough workers run.
    /// While this holds, each item that this pool's workers begin, here or in another pool, has to
    /// be [reported](Self::learn_wait).
    #[inline]
    #[must_use]
    pub fn items_wait_first(&self) -> bool {
        self.first_waits >= MANY_FIRST_WAITS
    }
}
