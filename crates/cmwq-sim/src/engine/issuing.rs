//! Issuers: threads outside the pools that keep so many blocks in flight, prepare each and look at
//! what became of it. A block that is in another cache costs a transfer, for the worker as for the
//! issuer.

use std::collections::VecDeque;

use super::working::Turn;
use super::{Due, Engine, Mode};
use crate::Nanos;
use crate::agenda::Rank;
use crate::event::PoolNo;
use crate::machine::{Place, State, Tid, WHOLE};
use crate::places::PoolKind;
use crate::plan::ItemId;
use crate::topology::Scope;
use cmwq_core::WorkerId;

/// What issuers do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issuers {
    /// How many; the plan's items are dealt out to them in equal parts, each item a block.
    pub(crate) nr: usize,
    /// CPU time of an issuer for each block, on average; it varies by an eighth.
    pub(crate) work: Nanos,
    /// How long one stays near a CPU on average before it is put near another, at random.
    pub(crate) stay: Nanos,
    /// They stop then.
    pub(crate) until: Nanos,
}

/// What came through.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Blocks that went round.
    pub(crate) blocks: u64,
    /// CPU time, of all CPUs, workers and issuers.
    pub(crate) busy: Nanos,
    /// Blocks that had to be fetched from another cache.
    pub(crate) transfers: u64,
}

/// A block.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    issuer: usize,
    /// The CPU near which it was written last.
    cpu: u32,
}

#[derive(Debug)]
struct Issuer {
    tid: Tid,
    /// Blocks to look at, or to begin with.
    ready: VecDeque<ItemId>,
    /// The one that it works on.
    current: Option<ItemId>,
    /// When it is put elsewhere.
    moves_at: Nanos,
    /// Where it queued last.
    queued_on: u32,
}

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Issuing {
    issuers: Option<Issuers>,
    list: Vec<Issuer>,
    blocks: Vec<Block>,
    /// By CPU, whether it is going to look for something to run.
    looks: Vec<bool>,
    traffic: Traffic,
}

impl<'a> Engine<'a> {
    /// The same with issuers, who begin at once.
    pub(crate) fn with_issuers(mut self, issuers: Issuers) -> Self {
        let nr_items = self.plan.items.len();
        let share = nr_items / issuers.nr;
        let caches = self.config.shape.pods(Scope::Cache);
        for issuer in 0..issuers.nr {
            // As new threads are dealt out: to one cache after the other.
            let pod = &caches[issuer % caches.len()];
            let cpu = pod.start + (issuer / caches.len()) as u32 % (pod.end - pod.start);
            let tid = self.machine.spawn(Place::Domain(WHOLE), false);
            self.machine.threads[tid].cpu = cpu;
            self.spawn_thread(PoolNo::MAX, WorkerId(0), Mode::Issuer(issuer));
            let mine = issuer * share..(issuer + 1) * share;
            self.issuing.blocks.extend(mine.clone().map(|_| Block { issuer, cpu }));
            let ready = mine.collect();
            let moves_at = self.stay(issuers.stay);
            self.issuing.list.push(Issuer { tid, ready, current: None, moves_at, queued_on: cpu });
            self.agenda.add(0, Rank::Wake, Due::Wake(tid));
        }
        self.issuing.issuers = Some(issuers);
        self
    }

    pub(crate) const fn traffic(&self) -> Traffic {
        self.issuing.traffic
    }

    /// The issuer has a CPU: it queues the block that it worked on and takes the next.
    pub(super) fn issue(&mut self, tid: Tid, issuer: usize) -> Turn {
        let Some(issuers) = self.issuing.issuers.filter(|issuers| self.now < issuers.until) else {
            return Turn::Off;
        };
        let cpu = self.machine.threads[tid].cpu;
        if let Some(item) = self.issuing.list[issuer].current.take() {
            self.issuing.blocks[item].cpu = cpu;
            self.issuing.traffic.blocks += 1;
            let before = std::mem::replace(&mut self.issuing.list[issuer].queued_on, cpu);
            if before != cpu {
                self.give_back(self.plan.items[item].queue, before);
            }
            self.queue_from_outside(item, None, cpu);
        }
        if self.now >= self.issuing.list[issuer].moves_at {
            self.issuing.list[issuer].moves_at = self.now + self.stay(issuers.stay);
            return Turn::Move(self.rng.below(self.machine.nr_cpus().into()) as u32);
        }
        let Some(item) = self.issuing.list[issuer].ready.pop_front() else { return Turn::Off };
        self.issuing.list[issuer].current = Some(item);
        let (least, most) = (issuers.work / 8 * 7, issuers.work / 8 * 9);
        Turn::Burn(self.rng.between(least, most) + self.fetch(item, cpu))
    }

    /// How long an issuer stays where it is, with this mean.
    fn stay(&mut self, mean: Nanos) -> Nanos {
        self.rng.below(2 * mean + 1)
    }

    /// What it costs on `cpu` to get hold of an item's data.
    pub(super) fn fetch(&mut self, item: ItemId, cpu: u32) -> Nanos {
        let Some(block) = self.issuing.blocks.get(item) else { return 0 };
        let cache = |cpu| self.machine.domains().pod(Scope::Cache, cpu);
        if cache(block.cpu) == cache(cpu) {
            return 0;
        }
        self.issuing.traffic.transfers += 1;
        self.config.caches.map_or(0, |caches| caches.transfer)
    }

    /// The item was run on `cpu`, near which its data is now.
    pub(super) fn tell_issuer(&mut self, item: ItemId, cpu: u32) {
        let Some(block) = self.issuing.blocks.get_mut(item) else { return };
        block.cpu = cpu;
        let issuer = &mut self.issuing.list[block.issuer];
        issuer.ready.push_back(item);
        let tid = issuer.tid;
        let is_over = self.issuing.issuers.is_none_or(|issuers| self.now >= issuers.until);
        if !is_over && self.machine.threads[tid].state == State::Off {
            self.wake(tid);
        }
    }

    // ---- caches

    pub(super) fn set_up_caches(&mut self) {
        if let Some(caches) = &self.config.caches {
            self.machine.mind_caches(caches);
            self.issuing.looks = vec![false; self.machine.nr_cpus() as usize];
        }
    }

    /// A new worker of an unbound pool may leave its pod.
    pub(super) fn loosen(&mut self, tid: Tid, pool: PoolNo) {
        let is_loose = self.config.caches.is_some_and(|caches| caches.is_loose);
        let kind = self.pools.list[pool].kind;
        // Of a usual one also if its pod is all CPUs: it stays near where it is.
        let pod = match kind {
            PoolKind::Unbound(pod) => Some((pod, WHOLE)),
            _ => kind.pod_to_leave(),
        };
        if let Some((pod, cpus)) = pod.filter(|_| is_loose) {
            self.machine.track(cpus);
            self.machine.move_to(tid, Place::Domain(cpus));
            self.machine.keep_near(tid, pod);
        }
    }

    /// The CPU has found nothing to run.
    pub(super) fn plan_look(&mut self, cpu: u32) {
        let Some(caches) = &self.config.caches else { return };
        let is_idle = self.machine.is_idle(cpu) && !self.is_done();
        if is_idle && !std::mem::replace(&mut self.issuing.looks[cpu as usize], true) {
            self.agenda.add(self.now + caches.look, Rank::Wake, Due::Look(cpu));
        }
    }

    pub(super) fn look_around(&mut self, cpu: u32) {
        self.issuing.looks[cpu as usize] = false;
        self.dispatch(cpu);
    }

    fn is_done(&self) -> bool {
        self.is_quiet() && self.issuing.issuers.is_none_or(|issuers| self.now >= issuers.until)
    }

    pub(super) fn count_busy(&mut self, wall: Nanos) {
        if let Some(issuers) = &self.issuing.issuers {
            self.issuing.traffic.busy += wall.min(issuers.until.saturating_sub(self.now));
        }
    }
}
