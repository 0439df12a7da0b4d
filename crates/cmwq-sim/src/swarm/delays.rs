//! Delayed items that are timed anew, or waited for before their time.

use crate::plan::{Call, Op, Plan};
use crate::rng::Rng;

use super::MS;

/// In every other plan. What is changed is what the plan has: another sort of queueing or of wait;
/// and some calls more, while timers are armed.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(500_000) {
        return;
    }
    for item in &mut plan.items {
        item.ops = item.ops.iter().map(|&op| other(rng, op)).collect();
    }
    let mut more = Vec::new();
    for call in &mut plan.calls {
        if let Op::QueueDelayed { item, cpu, delay } = call.op
            && rng.chance(300_000)
        {
            let at = call.at + rng.below(delay);
            let op = if rng.chance(500_000) {
                let delay = if rng.chance(200_000) { 0 } else { rng.magnitude(1, 20 * MS) };
                Op::ModDelayed { item, cpu, delay }
            } else {
                Op::FlushDelayed(item)
            };
            more.push(Call { at, op });
        }
        call.op = other(rng, call.op);
    }
    plan.calls.extend(more);
    plan.calls.sort_by_key(|call| call.at);
}

fn other(rng: &mut Rng, op: Op) -> Op {
    match op {
        Op::QueueDelayed { item, cpu, delay } if rng.chance(300_000) => {
            Op::ModDelayed { item, cpu, delay }
        }
        Op::FlushItem(item) if rng.chance(500_000) => Op::FlushDelayed(item),
        _ => op,
    }
}
