//! Queueing, cancelling, limits, and acting on what the core says.

use std::sync::Arc;

use cmwq_core::place::{self, StandIn};
use cmwq_core::{Creator, Effects, Enqueued, Grab, Kick, LockFor, PwqId, PwqRef, WorkWord};

use super::Engine;
use super::pushing::Push;
use crate::checkers::Gauge;
use crate::config::Sabotage;
use crate::event::{PoolNo, Queueing, Site, What};
use crate::machine::{Place, WHOLE};
use crate::places::{CpuPwq, Kind, Life, NodeLimit, PoolKind};
use crate::plan::{ItemId, QueueId};

impl Engine<'_> {
    /// Queues an item for `cpu`, or for the caller's CPU `here`. `false`: it was pending already.
    pub(super) fn queue(&mut self, item: ItemId, cpu: Option<u32>, here: u32) -> bool {
        let held_back = self.held_back.take();
        let queued = self.queue_now(item, cpu, here);
        if let Some((item, cpu_pwq)) = held_back {
            let kick = self.arena.enqueue(
                self.pools.list[cpu_pwq.pool].lock(LockFor::Queue),
                cpu_pwq.pwq,
                item,
            );
            self.kick(cpu_pwq.pool, kick);
        }
        queued
    }

    /// What a sabotaged driver does with an item instead of queueing it.
    fn mishandle(&mut self, item: ItemId, queue: QueueId, cpu_pwq: CpuPwq) -> bool {
        let is_lost = self.strikes(Sabotage::LoseItem, 7);
        // A held-back item finds its pwq again later only if no pwq is removed.
        let follows_cpus =
            self.config.hotplug.is_some() && self.queues[queue].kind.is_replaceable();
        let stays = self.plan.owners.is_empty() && !follows_cpus;
        let is_held = !is_lost && stays && self.strikes(Sabotage::Reorder, 5);
        if !is_lost && !is_held {
            return false;
        }
        let _ = self.arena.claim(item);
        let ticket = self.new_ticket(item);
        self.note_queued(Queueing { item, ticket, queue }, cpu_pwq);
        if is_held {
            self.held_back = Some((item, cpu_pwq));
        }
        true
    }

    fn queue_now(&mut self, item: ItemId, cpu: Option<u32>, here: u32) -> bool {
        let queue = self.plan.items[item].queue;
        let seen = self.arena.word(item);
        let cpu_pwq = self.cpu_pwq(queue, cpu.unwrap_or(here), cpu.is_some());
        if self.config.sabotage.is_some()
            && !seen.is_pending()
            && self.mishandle(item, queue, cpu_pwq)
        {
            return true;
        }
        let is_at_home = seen.pool().is_none_or(|pool| pool.0 as usize == cpu_pwq.pool);
        if is_at_home
            && !seen.is_pending()
            && seen.disable_depth() == 0
            && self.queue_at_home(item, cpu_pwq, seen)
        {
            return true;
        }
        let was = self.arena.claim(item);
        if was.is_pending() {
            return false;
        }
        if was.disable_depth() != 0 {
            self.arena.release(item, was);
            return false;
        }
        self.new_ticket(item);
        self.queue_claimed(item, cpu, here);
        true
    }

    /// Queues an item whose last pool is the chosen one; without the lock if the pool is saturated.
    fn queue_at_home(&mut self, item: ItemId, cpu_pwq: CpuPwq, seen: WorkWord) -> bool {
        let queue = self.plan.items[item].queue;
        let pool = &mut self.pools.list[cpu_pwq.pool];
        if pool.inbox.is_saturated() {
            self.arena.claim_for(item, seen, pool.read().id());
            let ticket = self.new_ticket(item);
            self.begin_push(Push { what: Queueing { item, ticket, queue }, cpu_pwq });
            return true;
        }
        let enqueued = self.arena.enqueue_idle(pool.lock(LockFor::Queue), cpu_pwq.pwq, item, seen);
        let Enqueued::Queued(kick) = enqueued else {
            self.check_pool(cpu_pwq.pool);
            return false;
        };
        let ticket = self.new_ticket(item);
        self.note_queued(Queueing { item, ticket, queue }, cpu_pwq);
        self.kick(cpu_pwq.pool, kick);
        true
    }

    /// Queues an item whose `PENDING` the caller owns.
    pub(super) fn queue_claimed(&mut self, item: ItemId, cpu: Option<u32>, here: u32) {
        let queue = self.plan.items[item].queue;
        let word = self.arena.word(item);
        let mut cpu_pwq = self.cpu_pwq(queue, cpu.unwrap_or(here), cpu.is_some());
        // Non-reentrance: a pool that still runs the item for this queue runs it again.
        let is_ordered = self.queues[queue].kind == Kind::Ordered;
        let elsewhere = word.may_run_at(self.pools.list[cpu_pwq.pool].read().id(), is_ordered);
        if let Some(last) = elsewhere
            && self.config.sabotage != Some(Sabotage::IgnoreRedirect)
        {
            let last = last.0 as usize;
            let key = self.queues[queue].key;
            match self.arena.executing_on(self.pools.list[last].lock(LockFor::Counts), item, key) {
                Some(pwq) => cpu_pwq = self.cpu_pwq_of(last, queue, pwq),
                None => self.check_pool(last),
            }
        }
        let ticket = self.items[item].pending.unwrap_or_default();
        self.note_queued(Queueing { item, ticket, queue }, cpu_pwq);
        let kick = self.arena.enqueue(
            self.pools.list[cpu_pwq.pool].lock(LockFor::Queue),
            cpu_pwq.pwq,
            item,
        );
        self.kick(cpu_pwq.pool, kick);
    }

    /// Queues items whose `PENDING` the caller owns under one hold of the pool's lock.
    pub(super) fn queue_together(
        &mut self,
        cpu_pwq: CpuPwq,
        items: impl Iterator<Item = ItemId> + Clone,
    ) {
        for item in items.clone() {
            let ticket = self.items[item].pending.unwrap_or_default();
            let queue = self.plan.items[item].queue;
            self.note_queued(Queueing { item, ticket, queue }, cpu_pwq);
        }
        let core = self.pools.list[cpu_pwq.pool].lock(LockFor::Queue);
        let enqueue = |kick: Kick, item| kick.or(self.arena.enqueue(core, cpu_pwq.pwq, item));
        let kick = items.fold(Kick::None, enqueue);
        self.kick(cpu_pwq.pool, kick);
    }

    pub(super) fn new_ticket(&mut self, item: ItemId) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.outstanding += 1;
        self.items[item].pending = Some(ticket);
        ticket
    }

    pub(super) fn note_queued(&mut self, what: Queueing, cpu_pwq: CpuPwq) {
        self.pools.list[cpu_pwq.pool].nr_listed += 1;
        self.note(What::Queued(what, Site { pool: cpu_pwq.pool, group: cpu_pwq.group }));
    }

    /// The queue's pwq that `pwq` of `pool` belongs to.
    fn cpu_pwq_of(&self, pool: PoolNo, queue: QueueId, pwq: PwqId) -> CpuPwq {
        self.queues[queue].cpu_pwq_at(pool, pwq).expect("the pool runs an item of the queue")
    }

    /// The queue's pwq to the pool that serves items that are queued for `cpu` (`is_named`), or
    /// callers there.
    pub(super) fn cpu_pwq(&mut self, queue: QueueId, cpu: u32, is_named: bool) -> CpuPwq {
        let cpu = self.stand_in(queue, cpu, is_named);
        self.queues[queue].cpus.set(cpu as usize, true);
        let is_high = self.queues[queue].is_high;
        let kind = self.queues[queue].pool_kind(cpu, &self.machine);
        let pool = self.pool(kind, is_high);
        match self.queues[queue].cpu_pwq(pool) {
            Some(cpu_pwq) => cpu_pwq,
            None => self.make_cpu_pwq(queue, pool),
        }
    }

    /// `cpu`, or its stand-in, if the CPU's pod has no CPU that the queue may use.
    pub(super) fn stand_in(&self, queue: QueueId, cpu: u32, is_named: bool) -> u32 {
        let (it, domains) = (&self.queues[queue], self.machine.domains());
        let pod = domains.pod(it.attrs.scope, cpu);
        let (nr_left, all) = match it.kind.stand_in(is_named) {
            // Callers are on CPUs that are online.
            StandIn::Own => return cpu,
            StandIn::Present if it.kind != Kind::Managed => return cpu,
            StandIn::Present => (domains.nr_online(pod), WHOLE),
            StandIn::Managed => (domains.nr_managed(pod), domains.managed()),
        };
        if nr_left > 0 {
            return cpu;
        }
        let nth = place::stand_in(cpu as usize, domains.nr_online(all) as usize);
        nth.and_then(|nth| self.machine.nth_online(all, nth)).unwrap_or(cpu)
    }

    /// The pool of this kind, made when it is first needed.
    pub(super) fn pool(&mut self, kind: PoolKind, is_high: bool) -> PoolNo {
        if let Some(pool) = self.pools.find(kind, is_high) {
            return pool;
        }
        if let Place::Domain(domain) = kind.place() {
            self.machine.track(domain);
        }
        let gauge = Gauge::new(kind, is_high, kind.expected(&self.machine));
        if let Some(pool) = self.pools.renew(kind, is_high) {
            self.check_pool(pool);
            self.gauges[pool] = gauge;
            self.create_first(pool);
            return pool;
        }
        let belonging = kind.belonging(&self.machine);
        let has_others = kind.has_others(&self.machine);
        let pool = self.pools.make(kind, is_high, belonging.concurrency, has_others, self.config);
        self.gauges.push(gauge);
        self.cover_bh(pool);
        self.pools.set_may_help(pool, belonging.may_help());
        self.checkers.touch(pool);
        self.create_first(pool);
        pool
    }

    #[cold]
    fn make_cpu_pwq(&mut self, queue: QueueId, pool: PoolNo) -> CpuPwq {
        let kind = self.pools.list[pool].kind;
        let it = &self.queues[queue];
        let limit = it.own_limit();
        let node = it.node_of(kind, &self.machine);
        let is_plugged = it.pwqs.begins_plugged(it.kind == Kind::Ordered);
        // All pwqs of an ordered queue share one limit.
        let known = self.queues[queue].cpu_pwqs.first().map(|cpu_pwq| cpu_pwq.group);
        let slots = self.shared_limit(queue, node);
        let group = match (&slots, known.filter(|_| is_plugged)) {
            (Some(slots), _) => slots.memory().group,
            (None, Some(group)) => group,
            (None, None) => self.new_group(limit),
        };
        let raised = u32::from(self.config.sabotage == Some(Sabotage::RaiseLimit));
        let queue = &mut self.queues[queue];
        let config = queue.pwq_config(slots, raised);
        let pwq = self.pools.list[pool].lock(LockFor::Counts).add_pwq(config);
        queue.add_cpu_pwq(CpuPwq { pool, pwq, group, limit });
        let cpu_pwq = queue.cpu_pwq(pool).expect("just added");
        let number = queue.key.0 as QueueId;
        self.pools.list[pool].nr_listed += 1;
        if is_plugged && self.config.sabotage != Some(Sabotage::NeverPlug) {
            self.pools.list[pool].lock(LockFor::Counts).plug_pwq(pwq);
        }
        // As in the runtime this changes nothing that others see of the pool: whether pushing is
        // enough is looked at when something is queued.
        self.check_core(pool);
        self.note_link(number, pool, true);
        self.create_first(pool);
        cpu_pwq
    }

    fn shared_limit(&mut self, queue: QueueId, node: Option<u32>) -> Option<Arc<NodeLimit>> {
        let group = self.nr_groups;
        let slots = self.queues[queue].shared_limit(node, group, &self.machine)?;
        if slots.memory().group == group {
            self.new_group(slots.max());
            if self.config.sabotage == Some(Sabotage::RaiseLimit) {
                slots.set_max(slots.max().saturating_add(1));
            }
        }
        Some(slots)
    }

    fn new_group(&mut self, max_active: u32) -> usize {
        let group = self.nr_groups;
        self.nr_groups += 1;
        self.note(What::LimitSet(group, max_active));
        group
    }

    // ---- acting

    /// Acts on a decision of the core.
    pub(super) fn kick(&mut self, pool: PoolNo, kick: Kick) {
        self.update_pool(pool);
        match kick.or(self.pools.list[pool].take_owed()) {
            Kick::None => self.plan_mayday(pool),
            Kick::Wake(id) => {
                if !self.strikes(Sabotage::DropWake, 3) {
                    self.unpark_worker(pool, id);
                }
            }
            Kick::Watch => self.watch(pool),
            Kick::NeedFirst => self.create_from_outside(pool, Creator::First, false),
        }
    }

    /// Acts on what finishing or cancelling an item demands.
    pub(super) fn act(&mut self, pool: PoolNo, kick: Kick, effects: Effects) {
        self.kick(pool, kick);
        // The slot first: a removal of the pwq to which it is going waits for it.
        if let Some(to) = effects.grant {
            self.grant(to);
        }
        if let Some(wq) = effects.flush_done {
            self.flush_pwq_done(wq.0 as usize);
        }
        if let Some(wq) = effects.retired {
            self.release(wq.0 as usize);
        }
    }

    fn grant(&mut self, to: PwqRef) {
        if self.strikes(Sabotage::DropGrant, 1) {
            return;
        }
        let mut grant = Some(to);
        while let Some(to) = grant {
            let pool = to.pool.0 as usize;
            let (kick, next) = self.pools.list[pool].lock(LockFor::Decide).grant(to.pwq);
            self.kick(pool, kick);
            grant = next;
        }
    }

    // ---- cancelling, limits

    /// Takes an item back. `false`: it was not pending.
    pub(super) fn cancel(&mut self, item: ItemId) -> bool {
        if self.disarm(item) {
            return true;
        }
        let word = self.arena.word(item);
        let Some(pool) = word.pool().filter(|_| word.is_pending()) else { return false };
        let pool = pool.0 as usize;
        let core = self.pools.list[pool].lock(LockFor::Find);
        let Grab::Taken(kick, effects) = self.arena.try_grab(core, item) else {
            self.check_pool(pool);
            // An item that a sabotaged driver has lost is nowhere.
            if self.config.sabotage.is_none() {
                self.complain("core", format!("item {item} is at pool {pool}, which denies it"));
            }
            return false;
        };
        self.pools.list[pool].nr_listed -= 1;
        self.cancelled(item, self.arena.word(item));
        self.act(pool, kick, effects);
        true
    }

    /// Takes an item back whose timer has not expired.
    pub(super) fn disarm(&mut self, item: ItemId) -> bool {
        let was_armed = self.arena.disarm(&mut self.wheel, item);
        if was_armed {
            self.timer_is_off(item);
            self.cancelled(item, self.arena.word(item));
        }
        was_armed
    }

    /// It was pending, or on its way to a queue that refuses it, and is idle.
    pub(super) fn cancelled(&mut self, item: ItemId, word: WorkWord) {
        self.arena.release(item, word);
        let ticket = self.items[item].pending.take().unwrap_or_default();
        self.outstanding -= 1;
        let queue = self.plan.items[item].queue;
        self.note(What::Cancelled(Queueing { item, ticket, queue }));
    }

    pub(super) fn set_max_active(&mut self, queue: QueueId, max_active: u32) {
        if self.queues[queue].life != Life::Open {
            return;
        }
        let limits = &mut self.queues[queue].limits;
        limits.set_max_active(max_active);
        let taken = limits.max_active();
        self.note(What::MaxActiveSet(queue, taken));
        self.split_limit(queue, false);
    }

    pub(super) fn set_min_active(&mut self, queue: QueueId, min_active: u32) {
        if self.queues[queue].life == Life::Open {
            self.queues[queue].limits.set_min_active(min_active);
            self.note(What::MinActiveSet(queue, min_active));
            self.split_limit(queue, false);
        }
    }

    /// KERNEL: `freeze_workqueues_begin`, `thaw_workqueues` — same, for one queue.
    pub(super) fn set_frozen(&mut self, queue: QueueId, is_frozen: bool) {
        self.queues[queue].is_frozen = is_frozen;
        self.note(What::Frozen(queue, is_frozen));
        self.split_limit(queue, false);
        // The watchdog does not watch it while it is frozen.
        self.something_waits();
    }

    /// CPUs or the queue's attributes have changed.
    pub(super) fn follow_cpus(&mut self, queue: QueueId) {
        if self.queues[queue].limits.follow_cpus()
            && self.config.sabotage != Some(Sabotage::ForgetNodes)
        {
            self.split_limit(queue, true);
        }
    }

    /// Gives every pwq and node of the queue its part of the limit. `only_changes`: leaves
    /// unchanged parts alone.
    pub(super) fn split_limit(&mut self, queue: QueueId, only_changes: bool) {
        let it = &self.queues[queue];
        let own = it.own_limit();
        let nr_own = if it.limits.tells_each() { it.cpu_pwqs.len() } else { 0 };
        for index in 0..nr_own {
            let cpu_pwq = self.queues[queue].cpu_pwqs[index];
            if only_changes && own == cpu_pwq.limit {
                continue;
            }
            self.queues[queue].cpu_pwqs[index].limit = own;
            self.note(What::LimitSet(cpu_pwq.group, own));
            let kick =
                self.pools.list[cpu_pwq.pool].lock(LockFor::Find).set_max_active(cpu_pwq.pwq, own);
            self.kick(cpu_pwq.pool, kick);
        }
        let before: Vec<u32> = self.queues[queue].shared.iter().map(|slots| slots.max()).collect();
        let shared = self.queues[queue].adjust_shared(&self.machine);
        for (slots, before) in shared.into_iter().zip(before) {
            if only_changes && slots.max() == before {
                continue;
            }
            self.note(What::LimitSet(slots.memory().group, slots.max()));
            while let Some(to) = slots.hand_over() {
                self.grant(to);
            }
        }
    }
}
