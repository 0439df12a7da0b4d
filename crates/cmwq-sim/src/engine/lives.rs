//! Queues come and go, and change their attributes; and the owners that do that.
//!
//! As the runtime's `wq::links`: a change leads the queue to its new pools first, then retires the
//! pwqs of the old ones, and removes each when it has drained. An ordered queue's new pwq is
//! plugged until all older ones have gone. A pwq that cannot be removed yet, because a slot of the
//! node is on its way to it or the rescuer visits, is tried again.

use cmwq_core::Closed;

use super::{Due, Engine, Waiter};
use crate::Nanos;
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
use crate::machine::Place;
use crate::places::{Kind, Life, Link, PoolKind};
use crate::plan::{ItemId, Op, QueueId};
use crate::topology::Scope;

/// Pause before a pwq that could not be removed is tried again.
const REST: Nanos = 10_000;

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
        let closed = match self.queues[queue].life {
            Life::Open => Closed::NOT,
            Life::Dropping(_) => Closed::DESTROYING,
            Life::Gone => return false,
        };
        closed.lets_in(|| from == Some(queue))
    }

    // ---- attributes

    pub(super) fn set_attrs(&mut self, queue: QueueId, nice: u8, scope: Scope) {
        let it = &mut self.queues[queue];
        if it.life != Life::Open || !it.kind.is_replaceable() {
            return;
        }
        (it.nice, it.scope) = (nice, scope);
        self.note(What::AttrsSet(queue));
        let links = self.queues[queue].links.iter().filter(|link| !link.is_retired);
        let replaced = links.copied().filter(|link| !self.still_leads(queue, link));
        let replaced: Vec<_> = replaced.collect();
        // The new links are there before the old pwqs are retired.
        for link in &replaced {
            self.link(queue, self.first_cpu(link.pool));
        }
        for link in replaced {
            self.retire(queue, link);
        }
        self.unplug_oldest(queue);
    }

    fn first_cpu(&self, pool: PoolNo) -> u32 {
        match self.pools.list[pool].kind.place() {
            Place::Cpu(cpu) => cpu,
            Place::Domain(domain) => self.machine.domains().cpus(domain).start,
        }
    }

    fn still_leads(&self, queue: QueueId, link: &Link) -> bool {
        let cpu = self.first_cpu(link.pool);
        self.queues[queue].pool_kind(cpu, &self.machine) == self.pools.list[link.pool].kind
    }

    fn retire(&mut self, queue: QueueId, link: Link) {
        self.queues[queue].retire_link(link);
        let is_idle = self.pools.list[link.pool].lock().retire_pwq(link.pwq);
        self.check_pool(link.pool);
        if is_idle && !self.remove(queue, link) {
            self.agenda.add(self.now + REST, Rank::Wake, Due::Release(queue));
        }
    }

    /// Retired pwqs of the queue may have drained.
    pub(super) fn release(&mut self, queue: QueueId) {
        let retired = self.queues[queue].links.iter().filter(|link| link.is_retired);
        for link in retired.copied().collect::<Vec<_>>() {
            let has_drained = self.pools.list[link.pool].lock().has_drained(link.pwq);
            self.check_pool(link.pool);
            if has_drained && !self.remove(queue, link) {
                self.agenda.add(self.now + REST, Rank::Wake, Due::Release(queue));
            }
        }
        self.unplug_oldest(queue);
    }

    /// The oldest pwq of an ordered queue may start items.
    fn unplug_oldest(&mut self, queue: QueueId) {
        let it = &self.queues[queue];
        let oldest = it.links.first().filter(|_| it.kind == Kind::Ordered).copied();
        if let Some(Link { pool, pwq, .. }) = oldest
            && self.config.sabotage != Some(Sabotage::StayPlugged)
        {
            let kick = self.pools.list[pool].lock().unplug_pwq(pwq);
            self.kick(pool, kick);
        }
    }

    /// Removes a pwq that has nothing in flight, and closes its pool if it was the last one there.
    /// `false`: the pwq has to stay for now, and this is to be tried again.
    fn remove(&mut self, queue: QueueId, link: Link) -> bool {
        let pool = link.pool;
        let removed = self.pools.list[pool].lock().remove_pwq(link.pwq);
        self.check_pool(pool);
        if removed.is_none() {
            return false;
        }
        self.pools.list[pool].nr_listed -= 1;
        self.queues[queue].remove_link(pool, link.pwq);
        self.note_link(queue, pool, false);
        self.close_if_unused(pool);
        true
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
        self.note(What::DropBegan(queue));
        // Timers keep a queue in being, so its delayed items are taken back before.
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
                self.agenda.add(self.now + REST, Rank::Wake, Due::Drop(queue));
            }
            return;
        }
        if is_early && self.is_busy(queue) {
            self.note(What::QueueGone(queue));
        }
        for link in self.queues[queue].links.clone() {
            self.remove(queue, link);
        }
        if !self.queues[queue].links.is_empty() {
            return self.agenda.add(self.now + REST, Rank::Wake, Due::Drop(queue));
        }
        self.forget_calls(queue);
        self.queues[queue].life = Life::Gone;
        self.note(What::QueueGone(queue));
        if let Some(owner) = owner {
            self.agenda.add(self.now, Rank::Wake, Due::Owner(owner));
        }
    }

    /// Whether the queue has items, or is being flushed by a thread with a reference to it.
    fn is_busy(&mut self, queue: QueueId) -> bool {
        let it = &self.queues[queue];
        if it.flush.first().is_some() {
            return true;
        }
        it.links.clone().into_iter().any(|link| {
            let load = self.pools.list[link.pool].lock().pwq_load(link.pwq);
            self.check_pool(link.pool);
            load.is_some_and(|(_, _, is_busy)| is_busy)
        })
    }

    pub(super) fn make_queue(&mut self, queue: QueueId) {
        if self.queues[queue].life != Life::Gone {
            return;
        }
        self.queues[queue].renew(&self.plan.queues[queue], self.config);
        self.note(What::QueueMade(queue));
        let max_active = self.queues[queue].limits.max_active();
        self.note(What::MaxActiveSet(queue, max_active));
    }
}
