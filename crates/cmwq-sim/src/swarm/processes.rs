//! Items that stand for processes.

use crate::plan::{Op, Plan};
use crate::rng::Rng;
use crate::scenario::Flag;

/// In every third plan, some items leave what they do to a process. Items of BH queues cannot.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(350_000) {
        return;
    }
    let share = rng.magnitude(50_000, 1_000_000) as u32;
    let queues = &plan.queues;
    for item in plan.items.iter_mut().filter(|item| !queues[item.queue].flags.has(Flag::Bh)) {
        let is_own = |op: &Op| matches!(op, Op::Burn(_) | Op::BurnUntil(_) | Op::Sleep(_));
        let Some(first) = item.ops.iter().position(is_own) else { continue };
        if !rng.chance(share) {
            continue;
        }
        let nr = item.ops[first..].iter().take_while(|op| is_own(op)).count();
        let mut ops = item.ops.to_vec();
        ops.insert(first + nr, Op::Process(false));
        ops.insert(first, Op::Process(true));
        item.ops = ops.into();
    }
}
