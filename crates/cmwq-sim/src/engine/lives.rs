//! Queues come and go, and change their attributes; and the owners that do that.
//!
//! As the runtime's `wq::cpu_pwqs`: a change leads the queue to its new pools first, then retires
//! the pwqs of the old ones, and removes each when it has drained. A pwq that cannot be removed
//! yet is tried again, unless the rescuer visits, which will remove it.

use std::collections::HashSet;
use std::iter::successors;

use cmwq_core::{Backoff, Closed, LockFor, PoolId, PwqRef, Pwqs, Stays};

use super::{Due, Engine, Waiter};
use crate::Nanos;
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
use crate::places::{Kind, Life, PoolKind};
use crate::plan::{Attrs, ItemId, Op, QueueId};

/// CPUs from which something came to a queue, and where each leads.
type Slots = Vec<(u32, PwqRef)>;

impl Engine<'_> {
    // ---- owners

    pub(super) fn set_up_owners(&mut self) {
        for (index, owner) in self.plan.owners.iter().enumerate() {
            self.agenda.add(owner.at, Rank::Wake, Due::Owner(index));
        }
    }

    /// The owner does its steps until it has to wait.
    pub(super) fn owner_goes_on(&mut self, index: usize) {
        while self.violation.is_none() {
            let Some(&op) = self.plan.owners[index].ops.get(self.owners[index]) else {
                self.owners_left -= 1;
                return;
            };
            self.owners[index] += 1;
            if let Op::Sleep(ns) = op {
                return self.agenda.add(self.now + ns, Rank::Wake, Due::Owner(index));
            }
            if self.do_from_outside(op, Waiter::Owner(index)) {
                return;
            }
        }
    }

    /// Whether the item's queue takes it: while it is dropped, only from its own items.
    pub(super) fn lets_in(&self, item: ItemId, from: Option<QueueId>) -> bool {
        let queue = self.plan.items[item].queue;
        self.closed(queue).is_some_and(|closed| closed.lets_in(|| from == Some(queue)))
    }

    /// Whether a timer may be armed for the item; with no `delay`, whether its queue takes it.
    pub(super) fn lets_arm(&self, item: ItemId, delay: Nanos, from: Option<QueueId>) -> bool {
        let closed = self.closed(self.plan.items[item].queue);
        if delay == 0 { self.lets_in(item, from) } else { closed.is_some_and(Closed::lets_arm) }
    }

    /// `None`: it has gone, and nobody has a handle to it.
    fn closed(&self, queue: QueueId) -> Option<Closed> {
        match self.queues[queue].life {
            Life::Open => Some(Closed::NOT),
            Life::Dropping(_) => Some(Closed::DESTROYING),
            Life::Gone => None,
        }
    }

    // ---- attributes

    pub(super) fn set_attrs(&mut self, queue: QueueId, attrs: Attrs) {
        let it = &self.queues[queue];
        if it.life != Life::Open || !it.kind.is_replaceable() {
            return;
        }
        let slots = self.slots(queue);
        self.queues[queue].attrs = attrs;
        self.lay_out(queue);
        self.note(What::AttrsSet(queue, attrs));
        self.relink(queue, slots);
        self.follow_cpus(queue);
    }

    /// The queue's attributes are others, or it is new.
    pub(super) fn lay_out(&mut self, queue: QueueId) {
        self.queues[queue].layout = self.queues[queue].laid_out(&mut self.machine);
    }

    /// A CPU has left or come back, so the queue's pods may be others.
    pub(super) fn follow_pods(&mut self, queue: QueueId) {
        if self.config.sabotage == Some(Sabotage::KeepPods) {
            return;
        }
        let layout = self.queues[queue].laid_out(&mut self.machine);
        if layout == self.queues[queue].layout {
            return;
        }
        let slots = self.slots(queue);
        self.queues[queue].layout = layout;
        if !slots.is_empty() {
            self.relink(queue, slots);
        }
    }

    /// Leads slots, which have led there so far, to the pools that serve them now.
    fn relink(&mut self, queue: QueueId, slots: Slots) {
        let (mut is_led, mut moves) = (HashSet::new(), false);
        for (cpu, now) in slots {
            let wanted = self.queues[queue].pool_kind(cpu, &self.machine);
            let wanted = self.pool(wanted, self.queues[queue].is_high);
            if Pwqs::moves(now.pool, PoolId(wanted as u32)) {
                self.runs_stay_behind |= self.queues[queue].kind.leaves_runs_behind();
                is_led.insert(self.cpu_pwq(queue, cpu, true).at());
                moves = true;
            } else {
                is_led.insert(now);
            }
        }
        if moves {
            self.note(What::Led(queue));
        }
        for at in self.queues[queue].pwqs.replaced(|at| is_led.contains(&at)) {
            self.retire(queue, at);
        }
        self.unplug_oldest(queue);
    }

    fn slots(&self, queue: QueueId) -> Slots {
        let it = &self.queues[queue];
        let leads = |cpu| {
            let pool = self.pools.find(it.pool_kind(cpu, &self.machine), it.is_high)?;
            Some((cpu, it.cpu_pwq(pool)?.at()))
        };
        let cpus = successors(it.cpus.next_from(0), |&cpu| it.cpus.next_from(cpu + 1));
        cpus.filter_map(|cpu| leads(cpu as u32)).collect()
    }

    fn retire(&mut self, queue: QueueId, at: PwqRef) {
        let pool = at.pool.0 as usize;
        self.queues[queue].retire_link(at);
        let is_idle = self.pools.list[pool].lock(LockFor::Find).retire_pwq(at.pwq);
        self.check_pool(pool);
        if is_idle {
            self.remove_retired(queue, at);
        }
    }

    /// Retired pwqs of the queue may have drained.
    pub(super) fn release(&mut self, queue: QueueId) {
        for at in self.queues[queue].pwqs.retired().collect::<Vec<_>>() {
            let pool = at.pool.0 as usize;
            let has_drained = self.pools.list[pool].lock(LockFor::Find).has_drained(at.pwq);
            self.check_pool(pool);
            if has_drained {
                self.remove_retired(queue, at);
            }
        }
        self.unplug_oldest(queue);
    }

    fn remove_retired(&mut self, queue: QueueId, at: PwqRef) {
        match self.remove(queue, at) {
            Ok(()) => self.queues[queue].backoff = Backoff::new(),
            Err(Stays::Visited) => {}
            Err(Stays::AwaitsSlot | Stays::InUse) => self.try_again(queue, Due::Release(queue)),
        }
    }

    /// What could not be done with the queue yet is due again after a pause.
    fn try_again(&mut self, queue: QueueId, due: Due) {
        let pause = self.queues[queue].backoff.after_failure();
        self.agenda.add(self.now + pause, Rank::Wake, due);
    }

    /// The oldest pwq of an ordered queue may start items.
    fn unplug_oldest(&mut self, queue: QueueId) {
        let it = &self.queues[queue];
        if let Some(at) = it.pwqs.to_unplug(it.kind == Kind::Ordered)
            && self.config.sabotage != Some(Sabotage::StayPlugged)
        {
            let pool = at.pool.0 as usize;
            let kick = self.pools.list[pool].lock(LockFor::Find).unplug_pwq(at.pwq);
            self.kick(pool, kick);
        }
    }

    /// Removes a pwq that has nothing in flight, and closes its pool if it was the last one there.
    fn remove(&mut self, queue: QueueId, at: PwqRef) -> Result<(), Stays> {
        let pool = at.pool.0 as usize;
        let removed = self.pools.list[pool].lock(LockFor::Find).remove_pwq(at.pwq);
        self.check_pool(pool);
        self.queues[queue].removed += removed?;
        self.pools.list[pool].nr_listed -= 1;
        self.queues[queue].remove_link(at);
        self.note_link(queue, pool, false);
        self.close_if_unused(pool);
        Ok(())
    }

    pub(super) fn note_link(&mut self, queue: QueueId, pool: PoolNo, is_made: bool) {
        if !matches!(self.pools.list[pool].kind, PoolKind::Own { .. }) {
            return;
        }
        let what = if is_made { What::Linked } else { What::Unlinked };
        self.note(what(queue, pool));
    }

    // ---- the end of a queue, and another beginning

    /// Begins to drop a queue. `true`: the caller has to wait.
    pub(super) fn drop_queue(&mut self, queue: QueueId, who: Waiter) -> bool {
        if self.queues[queue].life != Life::Open {
            return false;
        }
        let owner = if let Waiter::Owner(owner) = who { Some(owner) } else { None };
        self.queues[queue].life = Life::Dropping(owner);
        self.queues[queue].backoff = Backoff::new();
        self.note(What::DropBegan(queue));
        // Timers keep a queue in being, so its delayed items are taken back before. Those that are
        // armed from now on are waited for.
        for item in 0..self.plan.items.len() {
            if self.plan.items[item].queue == queue && self.arena.word(item).is_pending() {
                self.disarm(item);
            }
        }
        // Flushes at least once: another flush may be over whose flusher was not told yet.
        if !self.flush_queue(queue, Waiter::Drop(queue)) {
            self.go_on_dropping(queue);
        }
        true
    }

    /// Waits for the queue's items, and for those that they queue; then the queue leaves all pools.
    pub(super) fn go_on_dropping(&mut self, queue: QueueId) {
        let Life::Dropping(owner) = self.queues[queue].life else { return };
        let is_early = self.config.sabotage == Some(Sabotage::DropEarly);
        if self.is_busy(queue) && !is_early {
            if !self.flush_queue(queue, Waiter::Drop(queue)) {
                self.try_again(queue, Due::Drop(queue));
            }
            return;
        }
        if is_early && self.is_busy(queue) {
            self.note(What::QueueGone(queue));
        }
        if self.queues[queue].nr_timers > 0 {
            self.queues[queue].awaits_timers = true;
            return;
        }
        // The rescuer ends its visit first, also one that has not begun: it knows its pool already.
        self.forget_calls(queue);
        if self.is_rescuer_away(queue) && !is_early {
            self.queues[queue].awaits_rescuer = true;
            return;
        }
        for at in self.queues[queue].pwqs.iter().collect::<Vec<_>>() {
            // One that stays for now is tried again below.
            let _ = self.remove(queue, at);
        }
        if !self.queues[queue].pwqs.is_empty() {
            return self.try_again(queue, Due::Drop(queue));
        }
        self.queues[queue].life = Life::Gone;
        self.note(What::QueueGone(queue));
        if let Some(owner) = owner {
            self.agenda.add(self.now, Rank::Wake, Due::Owner(owner));
        }
    }

    /// A timer of one of the queue's items is not armed any more.
    pub(super) fn timer_is_off(&mut self, item: ItemId) {
        let number = self.plan.items[item].queue;
        let queue = &mut self.queues[number];
        queue.nr_timers -= 1;
        if queue.nr_timers == 0 && std::mem::take(&mut queue.awaits_timers) {
            self.agenda.add(self.now, Rank::Wake, Due::Drop(number));
        }
    }

    /// Whether the queue has items, or is being flushed by a thread with a reference to it.
    fn is_busy(&mut self, queue: QueueId) -> bool {
        let it = &self.queues[queue];
        if it.flush.first().is_some() {
            return true;
        }
        it.cpu_pwqs.clone().into_iter().any(|cpu_pwq| {
            let load = self.pools.list[cpu_pwq.pool].lock(LockFor::Find).pwq_load(cpu_pwq.pwq);
            self.check_pool(cpu_pwq.pool);
            load.is_some_and(|(_, _, is_busy)| is_busy)
        })
    }

    pub(super) fn make_queue(&mut self, queue: QueueId) {
        if self.queues[queue].life != Life::Gone {
            return;
        }
        self.queues[queue].renew(&self.plan.queues[queue], self.config);
        self.lay_out(queue);
        self.note(What::QueueMade(queue));
        let max_active = self.queues[queue].limits.max_active();
        self.note(What::MaxActiveSet(queue, max_active));
    }
}
