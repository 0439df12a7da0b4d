//! Bursts of short items of one queue: what goes around a pool's lock, and is taken along.

use super::{MS, US};
use crate::config::Config;
use crate::plan::{Call, Item, Op, Plan};
use crate::rng::Rng;
use crate::scenario::Flag;

/// In every other plan there are some more items than usual, of this kind.
pub(super) fn add(rng: &mut Rng, plan: &mut Plan, config: &Config) {
    if !rng.chance(500_000) {
        return;
    }
    for _ in 0..rng.between(1, 3) {
        add_one(rng, plan, config);
    }
    plan.calls.sort_by_key(|call| call.at);
}

fn add_one(rng: &mut Rng, plan: &mut Plan, config: &Config) {
    let queue = rng.below(plan.queues.len() as u64) as usize;
    let items = plan.items.len()..plan.items.len() + rng.magnitude(8, 300) as usize;
    // Among all else, or when that may be over.
    let last = plan.calls.iter().map(|call| call.at).max().unwrap_or_default();
    let is_alone = rng.chance(700_000);
    let at = if is_alone { last + rng.magnitude(US, 100 * MS) } else { rng.below(last + 1) };
    let cpu = rng.chance(700_000).then(|| rng.below(u64::from(config.shape.cpus())) as u32);
    let is_bh = plan.queues[queue].flags.has(Flag::Bh);
    let odd_ones = if rng.chance(500_000) { 30_000 } else { 0 };
    for item in items.clone() {
        let is_odd = rng.chance(odd_ones) && !is_bh;
        let length = rng.magnitude(1, 5 * US);
        let op = if is_odd { Op::Sleep(100 * length) } else { Op::Burn(length) };
        plan.items.push(Item { queue, ops: [op].into(), nr_queueings: 0 });
        plan.calls.push(Call { at, op: Op::Queue { item, cpu } });
        if rng.chance(odd_ones) {
            let other = items.start + rng.below(items.len() as u64) as usize;
            let op = match rng.below(4) {
                0 => Op::Cancel(other),
                1 => Op::CancelSync(other),
                2 => Op::FlushItem(other),
                _ => Op::FlushQueue(queue),
            };
            plan.calls.push(Call { at: at + rng.below(100 * US), op });
        }
    }
}
