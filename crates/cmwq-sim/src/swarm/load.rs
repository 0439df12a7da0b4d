//! Random queues, items and calls.
//!
//! Items may wait for others only on queues with a higher number than their own, and those of the
//! highest number wait for nothing: a plan cannot deadlock by itself, so whatever never ends is
//! somebody's mistake.

use super::{MS, Options, US};
use crate::Nanos;
use crate::config::Config;
use crate::plan::{Call, Item, Op, Plan};
use crate::rng::Rng;
use crate::scenario::{Flag, Flags, QueueSpec};
use crate::topology::Scope;

/// How much of what this seed's plan has.
struct Taste {
    /// Of the steps of items, in millionths: sleeping, announced waits, queueing, waiting,
    /// cancelling.
    sleep: u32,
    announced: u32,
    queue: u32,
    wait: u32,
    cancel: u32,
    /// Of the calls: delayed, waiting, cancelling, changing limits.
    delayed: u32,
    flush: u32,
    take_back: u32,
    relimit: u32,
    /// A CPU is named.
    names_cpu: u32,
    /// The longest burn and sleep.
    burn: Nanos,
    pause: Nanos,
    /// Steps per item at most.
    steps: u64,
    /// The longest time between two calls.
    gap: Nanos,
    /// How many flushes begin at once, now and then: more than there are flush colours, sometimes.
    storm: u64,
}

impl Taste {
    fn draw(rng: &mut Rng) -> Self {
        let mut some = |most: u64| if rng.chance(600_000) { rng.below(most) as u32 } else { 0 };
        let (sleep, announced, queue) = (some(600_000), some(300_000), some(300_000));
        let (wait, cancel, delayed) = (some(300_000), some(200_000), some(400_000));
        let (flush, take_back, relimit) = (some(200_000), some(300_000), some(50_000));
        Self {
            sleep,
            announced,
            queue,
            wait,
            cancel,
            delayed,
            flush,
            take_back,
            relimit,
            names_cpu: rng.below(1_000_000) as u32,
            burn: rng.magnitude(US, 2 * MS),
            pause: rng.magnitude(US, 5 * MS),
            steps: rng.between(1, 6),
            gap: rng.magnitude(1, 500 * US),
            storm: if rng.chance(300_000) { rng.between(2, 40) } else { 0 },
        }
    }
}

/// A random plan for the machine of `config`.
pub(super) fn plan(rng: &mut Rng, config: &Config, options: &Options) -> Plan {
    let taste = Taste::draw(rng);
    let nr_queues = options.queues.unwrap_or(rng.between(1, 6) as usize).max(1);
    let nr_items = options.items.unwrap_or(rng.magnitude(4, 1_000) as usize).max(1);
    let queues: Vec<_> = (0..nr_queues).map(|n| queue(rng, n)).collect();
    let of_queue: Vec<_> = (0..nr_items).map(|_| rng.below(nr_queues as u64) as usize).collect();
    let mut maker = Maker { rng, taste, config, queues: &queues, of_queue: &of_queue };
    let items = (0..nr_items).map(|id| maker.item(id)).collect();
    let calls = maker.calls();
    Plan { queues, items, calls, ..Plan::default() }
}

/// In every other plan unbound queues have scopes of their own.
pub(super) fn draw_scopes(rng: &mut Rng, plan: &mut Plan, options: &Options) {
    if !rng.chance(500_000) || options.scope.is_some() {
        return;
    }
    for queue in &mut plan.queues {
        let (scope, _) = *rng.pick(&Scope::ALL);
        queue.scope = (queue.flags.has(Flag::Unbound) && rng.chance(700_000)).then_some(scope);
    }
}

fn queue(rng: &mut Rng, number: usize) -> QueueSpec {
    let kinds = [
        Flag::Percpu,
        Flag::Percpu,
        Flag::Unbound,
        Flag::Managed,
        Flag::Managed,
        Flag::Ordered,
        Flag::Bh,
    ];
    let kind = *rng.pick(&kinds);
    let mut flags = Flags::NONE.with(kind);
    if rng.chance(200_000) {
        flags = flags.with(Flag::Highpri);
    }
    if rng.chance(200_000) && kind != Flag::Bh {
        flags = flags.with(Flag::CpuIntensive);
    }
    // Of a stream of its own, as are the outages that make it matter.
    if rng.fork(number as u64).chance(300_000) && kind != Flag::Bh {
        flags = flags.with(Flag::MemReclaim);
    }
    let max_active = match kind {
        Flag::Ordered | Flag::Bh => 0,
        _ if rng.chance(400_000) => 0,
        _ => rng.magnitude(1, 64) as u32,
    };
    QueueSpec { name: format!("q{number}"), flags, max_active, ..QueueSpec::default() }
}

struct Maker<'a> {
    rng: &'a mut Rng,
    taste: Taste,
    config: &'a Config,
    queues: &'a [QueueSpec],
    of_queue: &'a [usize],
}

impl Maker<'_> {
    fn item(&mut self, id: usize) -> Item {
        let queue = self.of_queue[id];
        let nr_steps = self.rng.between(0, self.taste.steps);
        let ops = (0..nr_steps).map(|_| self.step(id, queue)).collect();
        Item { queue, ops, nr_queueings: self.rng.below(6) as u32 }
    }

    fn step(&mut self, id: usize, queue: usize) -> Op {
        let is_bh = self.queues[queue].flags.has(Flag::Bh);
        let pause = self.rng.magnitude(1, self.taste.pause);
        if self.rng.chance(self.taste.queue) {
            // Itself, oftener than others: requeueing while running is where reentrance could creep
            // in.
            let item = if self.rng.chance(400_000) { id } else { self.any_item() };
            return self.queueing(item);
        }
        if self.rng.chance(self.taste.cancel) {
            return Op::Cancel(self.any_item());
        }
        if !is_bh {
            if self.rng.chance(self.taste.sleep) {
                return Op::Sleep(pause);
            }
            if self.rng.chance(self.taste.announced) {
                return Op::Announced(pause);
            }
            if self.rng.chance(self.taste.wait)
                && let Some(op) = self.wait_above(queue)
            {
                return op;
            }
        }
        Op::Burn(self.rng.magnitude(1, self.taste.burn))
    }

    /// A wait for something on a queue with a higher number.
    fn wait_above(&mut self, queue: usize) -> Option<Op> {
        let item = self.any_item();
        let above = self.of_queue[item];
        if above <= queue {
            return None;
        }
        Some(match self.rng.below(3) {
            0 => Op::FlushQueue(above),
            1 => Op::FlushItem(item),
            _ => Op::CancelSync(item),
        })
    }

    fn any_item(&mut self) -> usize {
        self.rng.below(self.of_queue.len() as u64) as usize
    }

    fn queueing(&mut self, item: usize) -> Op {
        let cpu = self.rng.chance(self.taste.names_cpu);
        let cpu = cpu.then(|| self.rng.below(u64::from(self.config.shape.cpus())) as u32);
        if self.rng.chance(self.taste.delayed) {
            return Op::QueueDelayed { item, cpu, delay: self.rng.magnitude(1, 20 * MS) };
        }
        Op::Queue { item, cpu }
    }

    /// Every item is queued once or oftener, in any order, with other calls in between.
    fn calls(&mut self) -> Vec<Call> {
        let nr_items = self.of_queue.len();
        let nr_calls = nr_items + self.rng.below(nr_items as u64 + 1) as usize;
        let mut at = 0;
        let mut calls = Vec::with_capacity(nr_calls);
        for n in 0..nr_calls {
            // Bursts: every other call comes together with the one before.
            if self.rng.chance(500_000) {
                at += self.rng.below(self.taste.gap);
            }
            let item = if n < nr_items { n } else { self.any_item() };
            calls.push(Call { at, op: self.call(item) });
            if self.taste.storm > 0 && self.rng.chance(20_000) {
                self.storm(at, self.of_queue[item], &mut calls);
            }
        }
        calls
    }

    /// Many flushes of one queue, with items queued in between.
    fn storm(&mut self, at: Nanos, queue: usize, calls: &mut Vec<Call>) {
        for _ in 0..self.taste.storm {
            calls.push(Call { at, op: Op::FlushQueue(queue) });
            let item = self.any_item();
            let op = self.queueing(item);
            calls.push(Call { at, op });
        }
    }

    fn call(&mut self, item: usize) -> Op {
        let queue = self.of_queue[item];
        if self.rng.chance(self.taste.flush) {
            return if self.rng.chance(500_000) {
                Op::FlushQueue(queue)
            } else {
                Op::FlushItem(item)
            };
        }
        if self.rng.chance(self.taste.take_back) {
            return if self.rng.chance(500_000) { Op::Cancel(item) } else { Op::CancelSync(item) };
        }
        let has_limit =
            !self.queues[queue].flags.has(Flag::Ordered) && !self.queues[queue].flags.has(Flag::Bh);
        if has_limit && self.rng.chance(self.taste.relimit) {
            let limit = self.rng.magnitude(1, 32) as u32;
            return if limit.is_multiple_of(4) {
                Op::SetMinActive { queue, min_active: limit / 4 - 1 }
            } else {
                Op::SetMaxActive { queue, max_active: limit }
            };
        }
        self.queueing(item)
    }
}
