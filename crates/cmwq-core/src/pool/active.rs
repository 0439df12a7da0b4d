//! `max_active`: which items have a slot, which are inactive, and what an item that leaves gives
//! back.

use super::{Effects, Kick, PoolState, Rule};
use crate::ids::{PwqId, PwqRef};
use crate::list;
use crate::pwq::Pwq;
use crate::work::WorkItem;

/// How an item has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Its function has returned. A barrier's, too, if that was run.
    Finished,
    /// It is a barrier, and was [passed](PoolState::pass_barrier).
    Passed,
    /// It was taken back.
    Cancelled,
}

impl PoolState {
    #[inline(never)]
    pub(super) unsafe fn insert_inactive(&mut self, pwq: PwqId, node: list::Node) {
        let p = self.pwq(pwq);
        let is_first = p.inactive.is_empty();
        // SAFETY: (alive) by the caller's promise, (locked) by `&mut self`.
        unsafe { p.inactive.push_back(node) };
        if is_first {
            self.touch(pwq);
        }
        self.had_inactive = true;
    }

    /// Activates inactive items of a pwq as long as it gets slots.
    pub(crate) fn activate_inactive(&mut self, pwq: PwqId) {
        let (at, keeps_plug) = (self.pwq_ref(pwq), self.keeps(Rule::PluggedStartsNothing));
        loop {
            let p = self.pwq(pwq);
            if p.inactive.is_empty() || !p.try_activate_one(at, keeps_plug) {
                return;
            }
            self.activate_first(pwq);
        }
    }

    /// Moves the first inactive item, with its barriers, to the worklist. The slot is already
    /// taken.
    fn activate_first(&mut self, pwq: PwqId) {
        let first = self.pwq(pwq).inactive.first().expect("nothing to activate");
        // SAFETY: `first` is a linked item of this pool.
        let at = unsafe { WorkItem::of_node(first) };
        // SAFETY: as above.
        let item = unsafe { at.as_ref() };
        item.update_queued(item.word().with_inactive(false));
        // SAFETY: as above.
        unsafe { self.move_chain_to_worklist(first) };
        self.record_activation(pwq, at);
        if self.pwq(pwq).inactive.is_empty() {
            self.touch(pwq);
        }
    }

    /// The last step of an item that has left: counters, colours, flushes, slots.
    ///
    /// KERNEL: `pwq_dec_nr_in_flight` — same, but a freed slot of the node is handed to another
    /// pool by the returned effect instead of under two locks.
    #[inline(always)]
    pub(crate) fn dec_in_flight(
        &mut self,
        pwq: PwqId,
        color: u8,
        inactive: bool,
        how: Left,
    ) -> Effects {
        let mut effects = Effects::NONE;
        let (flushed, retired) = (self.keeps(Rule::FlushedTells), self.keeps(Rule::RetiredTells));
        let p = self.pwq(pwq);
        match how {
            Left::Finished => p.counts.count_completed(),
            Left::Passed => p.counts.count_batch(1),
            Left::Cancelled => {}
        }
        if inactive && how != Left::Cancelled {
            p.nr_barriers -= 1;
        }
        let n = &mut p.nr_in_flight[usize::from(color)];
        *n -= 1;
        if *n == 0 && p.flush_color == Some(color) {
            p.flush_color = None;
            effects.flush_done = flushed.then_some(p.wq);
        }
        if p.retired && p.is_idle() && retired {
            effects.retired = Some(p.wq);
        }
        if !inactive {
            if p.node.is_none() && p.inactive.is_empty() {
                p.set_active(p.nr_active - 1);
            } else {
                effects.grant = self.dec_active(pwq);
            }
        }
        effects
    }

    #[inline]
    fn dec_active(&mut self, pwq: PwqId) -> Option<PwqRef> {
        let p = self.pwq(pwq);
        p.set_active(p.nr_active - 1);
        if let Some(node) = &p.node {
            let has_use = !p.inactive.is_empty() && !p.plugged && p.nr_active < p.max_active;
            if !has_use || !node.may_keep(p.node_waiting, p.kept) {
                p.kept = 0;
                let has_inactive = !p.inactive.is_empty();
                let grant = self.put_shared_slot(pwq);
                if has_inactive {
                    // Items that the pwq's own limit held up stand in line now.
                    self.activate_inactive(pwq);
                }
                return grant;
            }
            p.kept = p.kept.saturating_add(1);
            p.set_active(p.nr_active + 1);
            self.activate_first(pwq);
            self.leave_line(pwq);
            return None;
        }
        if self.keeps(Rule::SlotsActivate) {
            self.activate_inactive(pwq);
        }
        None
    }

    /// A pwq without inactive items leaves the line for slots: its later items go to the end of the
    /// line.
    #[inline]
    fn leave_line(&mut self, pwq: PwqId) {
        let at = self.pwq_ref(pwq);
        let p = self.pwq(pwq);
        if p.node_waiting && p.inactive.is_empty() {
            // If the pwq is not in the line any more, a slot is on its way to it.
            p.node_waiting = !p.node.as_ref().is_some_and(|node| node.leave(at));
        }
    }

    fn put_shared_slot(&mut self, pwq: PwqId) -> Option<PwqRef> {
        let p = self.pwqs.get(pwq.0)?;
        let mut granted = p.node.as_ref()?.put()?;
        // A slot that comes back to this pool is used at once; `grant` may pass it on.
        while granted.pool == self.config.id {
            granted = self.accept_slot(granted.pwq)?;
        }
        Some(granted)
    }

    /// A pwq of this pool was given a slot of its node (by
    /// [`NodeSlots::put`](crate::NodeSlots::put) or a raised limit). Returns which worker to wake,
    /// and the next pwq, of another pool, if this one does not need the slot any more.
    ///
    /// KERNEL: `node_activate_pending_pwq` — same fairness: one item, then to the end of the line.
    pub fn grant(&mut self, pwq: PwqId) -> (Kick, Option<PwqRef>) {
        let mut grant = self.accept_slot(pwq);
        while let Some(next) = grant.filter(|next| next.pool == self.config.id) {
            grant = self.accept_slot(next.pwq);
        }
        (self.kick(), grant)
    }

    fn accept_slot(&mut self, pwq: PwqId) -> Option<PwqRef> {
        let passes_on = self.keeps(Rule::GrantsArePassedOn);
        let Some(p) = self.pwqs.get_mut(pwq.0) else {
            debug_assert!(false, "a removed pwq waited for a slot");
            return None;
        };
        p.node_waiting = false;
        if p.inactive.is_empty() || p.plugged || p.nr_active >= p.max_active {
            return p.node.as_ref().filter(|_| passes_on)?.put();
        }
        if let Some(node) = p.node.as_ref().filter(|node| node.is_exceeded()) {
            let grant = node.put();
            // It stands in line again.
            self.activate_inactive(pwq);
            return grant;
        }
        p.set_active(p.nr_active + 1);
        self.activate_first(pwq);
        self.activate_inactive(pwq);
        None
    }

    /// Changes `max_active` of a pwq with a limit of its own; inactive items start in order if it
    /// rose.
    pub fn set_max_active(&mut self, pwq: PwqId, max_active: u32) -> Kick {
        self.pwq(pwq).max_active = max_active;
        self.activate_inactive(pwq);
        self.kick()
    }
}

impl Pwq {
    /// Takes a slot for one item. KERNEL: `pwq_tryinc_nr_active` — same.
    #[inline]
    pub(super) fn try_activate_one(&mut self, at: PwqRef, keeps_plug: bool) -> bool {
        if (self.plugged && keeps_plug) || self.nr_active >= self.max_active {
            return false;
        }
        let got = match &self.node {
            None => true,
            Some(_) if self.node_waiting => false,
            Some(node) => {
                let got = node.try_get(at);
                self.node_waiting = !got;
                got
            }
        };
        if got {
            self.set_active(self.nr_active + 1);
        }
        got
    }
}
