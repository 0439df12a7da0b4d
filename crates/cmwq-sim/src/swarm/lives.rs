//! Random lives of queues: owners that make and drop them, and change their attributes.
//!
//! Two sorts. Some take the queues of the load away and bring them back while it goes on. Others
//! have a queue of their own, with items that wait for each other, and use, change and drop it over
//! and over as a program would; several have the same attributes, so that pools are closed and
//! opened again all the time. Those queues have the highest numbers, so a plan still cannot
//! deadlock: an item waits for items of queues with higher numbers, or for later ones of its own
//! queue, all of which may run at once.

use super::{MS, Options, US};
use crate::config::Config;
use crate::plan::{Attrs, Item, Op, Owner, Plan};
use crate::rng::Rng;
use crate::scenario::{Flag, Flags, QueueSpec};
use crate::topology::Scope;

/// Items of an owner's queue at most: so many may run and be queued again within the smallest
/// `min_active` of a node.
const MOST_ITEMS: u64 = 4;

/// Adds owners to two plans of three.
pub(super) fn add(rng: &mut Rng, plan: &mut Plan, config: &Config, options: &Options) {
    let (has_own, has_others) = (rng.chance(450_000), rng.chance(350_000));
    // How many differ by this, the fewer the more of them share pools.
    let nices = rng.between(1, 3);
    if has_others {
        for _ in 0..rng.between(1, 3) {
            let owner = Maker { rng, config, nices }.others(plan);
            plan.owners.push(owner);
        }
    }
    // Where the number of queues or items was asked for, there are no others.
    if has_own && options.queues.is_none() && options.items.is_none() {
        let first = plan.items.len();
        for _ in 0..rng.between(1, 4) {
            Maker { rng, config, nices }.queue(plan);
        }
        Maker { rng, config, nices }.wait_for_others(plan, first);
    }
}

struct Maker<'a> {
    rng: &'a mut Rng,
    config: &'a Config,
    nices: u64,
}

impl Maker<'_> {
    fn set_attrs(&mut self, queue: usize, least: u64) -> Op {
        let (scope, _) = *self.rng.pick(&Scope::ALL);
        let scope = if self.rng.chance(700_000) { self.config.scope } else { scope };
        let nice = self.rng.between(least, self.nices) as u8;
        // A part of the CPUs, now and then.
        let cpus = self.rng.chance(200_000).then(|| {
            let (scope, _) = *self.rng.pick(&Scope::ALL);
            (scope, self.rng.below(self.config.shape.cpus().into()) as u32)
        });
        let is_strict = self.rng.chance(200_000);
        Op::SetAttrs { queue, attrs: Attrs { nice, scope, cpus, is_strict } }
    }

    /// Somebody who changes queues that others use.
    fn others(&mut self, plan: &Plan) -> Owner {
        let end = plan.calls.last().map_or(MS, |call| call.at).max(US);
        let nr = self.rng.magnitude(1, 30);
        let mut ops = Vec::new();
        for _ in 0..nr {
            ops.push(Op::Sleep(self.rng.magnitude(1, 2 * end / nr)));
            let queue = self.rng.below(plan.queues.len() as u64) as usize;
            if self.rng.chance(600_000) {
                ops.push(self.set_attrs(queue, 0));
                continue;
            }
            ops.push(Op::DropQueue(queue));
            if self.rng.chance(300_000) {
                ops.push(Op::Sleep(self.rng.magnitude(1, MS)));
            }
            ops.push(Op::MakeQueue(queue));
            if self.rng.chance(500_000) {
                ops.push(self.set_attrs(queue, 0));
            }
        }
        Owner { at: self.rng.below(end), ops }
    }

    /// A queue with its items, and its owner.
    fn queue(&mut self, plan: &mut Plan) {
        let queue = plan.queues.len();
        let is_ordered = self.rng.chance(250_000);
        let mut flags = Flags::NONE.with(if is_ordered { Flag::Ordered } else { Flag::Unbound });
        if self.rng.chance(150_000) {
            flags = flags.with(Flag::MemReclaim);
        }
        let name = format!("q{queue}");
        plan.queues.push(QueueSpec { name, flags, ..QueueSpec::default() });
        let first = plan.items.len();
        let nr_items = self.rng.between(1, MOST_ITEMS) as usize;
        for nr in 0..nr_items {
            let later = (nr + 1 < nr_items && !is_ordered)
                .then(|| first + self.rng.between(nr as u64 + 1, nr_items as u64 - 1) as usize);
            plan.items.push(self.item(queue, later));
        }
        let owner = self.owner(queue, first..first + nr_items);
        plan.owners.push(owner);
    }

    /// An item that waits for a `later` one.
    fn item(&mut self, queue: usize, later: Option<usize>) -> Item {
        let mut ops = Vec::new();
        if self.rng.chance(400_000) {
            ops.push(Op::Burn(self.rng.magnitude(1, 100 * US)));
        }
        if let Some(later) = later.filter(|_| self.rng.chance(800_000)) {
            ops.push(Op::FlushItem(later));
        }
        if self.rng.chance(300_000) {
            ops.push(Op::Sleep(self.rng.magnitude(1, 200 * US)));
        }
        Item { queue, ops: ops.into(), nr_queueings: 0 }
    }

    fn owner(&mut self, queue: usize, items: std::ops::Range<usize>) -> Owner {
        let mut ops = Vec::new();
        // Each closing costs the pool its workers; where those can hardly be had, the next round
        // takes seconds.
        let most = if self.config.faults.creation_is_sure() { 60 } else { 12 };
        for _ in 0..self.rng.magnitude(1, most) {
            if self.rng.chance(900_000) {
                ops.push(self.set_attrs(queue, 1));
            }
            self.use_queue(&items, &mut ops);
            if self.rng.chance(250_000) {
                ops.push(self.set_attrs(queue, 0));
                self.use_queue(&items, &mut ops);
            }
            self.wait(queue, &items, &mut ops);
            ops.push(Op::DropQueue(queue));
            if self.rng.chance(250_000) {
                ops.push(Op::Sleep(self.rng.magnitude(1, 200 * US)));
            }
            ops.push(Op::MakeQueue(queue));
        }
        // Mostly it has gone in the end, and its workers with it.
        ops.truncate(ops.len() - usize::from(self.rng.chance(800_000)));
        Owner { at: self.rng.below(MS), ops }
    }

    fn use_queue(&mut self, items: &std::ops::Range<usize>, ops: &mut Vec<Op>) {
        for item in items.clone() {
            let cpu = self.rng.chance(200_000);
            let cpu = cpu.then(|| self.rng.below(u64::from(self.config.shape.cpus())) as u32);
            ops.push(Op::Queue { item, cpu });
        }
        if self.rng.chance(200_000) {
            ops.push(Op::Sleep(self.rng.magnitude(1, 200 * US)));
        }
    }

    /// Joins what was queued, or leaves that to the drop.
    fn wait(&mut self, queue: usize, items: &std::ops::Range<usize>, ops: &mut Vec<Op>) {
        match self.rng.below(4) {
            0 => ops.push(Op::FlushQueue(queue)),
            1 => ops.extend(items.clone().map(Op::FlushItem)),
            2 => ops.extend(items.clone().map(Op::CancelSync)),
            _ => {}
        }
    }

    /// Some items of the load, and of owners, wait for items of owners' queues with higher numbers.
    fn wait_for_others(&mut self, plan: &mut Plan, first: usize) {
        for item in 0..plan.items.len() {
            let other = self.rng.between(first as u64, plan.items.len() as u64 - 1) as usize;
            let queue = plan.items[item].queue;
            let is_bh = plan.queues[queue].flags.has(Flag::Bh);
            let chance = if item < first { 50_000 } else { 300_000 };
            if is_bh || plan.items[other].queue <= queue || !self.rng.chance(chance) {
                continue;
            }
            let mut ops = plan.items[item].ops.to_vec();
            ops.push(Op::FlushItem(other));
            plan.items[item].ops = ops.into();
        }
    }
}
