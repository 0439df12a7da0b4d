//! Which queues and items there are, and sequences of operations on them.

use std::iter;

use cmwq::Workqueue;

use super::model::{Delay, HELD, Inside, Kind, Model, Op};
use crate::support::load::Random;
use crate::support::sys;

pub(super) const LENGTH: usize = 60;

/// Which items have a timer.
pub(super) const ITEMS: [bool; 5] = [true, true, true, false, false];

/// Queues of all kinds, and the operations that make them so.
pub(super) fn kinds() -> Vec<(Kind, cmwq::Builder)> {
    let builder = || Workqueue::builder("reference");
    let kind = |limit, pool| Kind {
        limit,
        has_limit: true,
        is_freezable: false,
        has_attrs: false,
        is_brief: false,
        pool,
    };
    let ordered = Kind { has_limit: false, has_attrs: true, ..kind(1, 1) };
    let unbound = Kind { has_attrs: true, ..kind(2, 2) };
    let brief = |kind| Kind { is_brief: true, ..kind };
    let freezable = Kind { is_freezable: true, ..kind(2, HELD) };
    vec![
        (kind(1, HELD), builder().percpu().max_active(1)),
        (kind(1024, HELD), builder().percpu()),
        (freezable, builder().percpu().freezable().max_active(2)),
        (ordered, builder().ordered()),
        (unbound, builder().unbound().max_active(2)),
        (kind(1, 3), builder().managed().max_active(1)),
        (Kind { is_freezable: true, ..ordered }, builder().ordered().freezable()),
        // Their pools are no other's.
        (brief(unbound), builder().unbound().nice(sys::nicer(5)).max_active(2)),
        (brief(ordered), builder().ordered().nice(sys::nicer(7))),
        (brief(kind(2, HELD)), builder().percpu().max_active(2)),
    ]
    .into_iter()
    .enumerate()
    // Pools of different kinds of queue are told apart by number; equal or not, an item is never
    // queued across while it runs.
    .map(|(at, (kind, builder))| {
        let pool = if kind.pool == HELD { HELD } else { at };
        (Kind { pool, ..kind }, builder)
    })
    .collect()
}

pub(super) fn fresh_model() -> Model {
    let kinds: Vec<_> = kinds().into_iter().map(|(kind, _)| kind).collect();
    Model::new(&kinds, &ITEMS)
}

/// What seed `seed` does, decided by it alone.
pub(super) fn of_seed(seed: u64) -> Vec<Op> {
    let mut random = Random(seed);
    let ops = iter::repeat_with(|| any(|n| random.below(n)));
    allowed(ops).take(LENGTH).collect()
}

/// The operations that the model allows, one after the other.
pub(super) fn allowed(ops: impl Iterator<Item = Op>) -> impl Iterator<Item = Op> {
    let mut model = fresh_model();
    ops.filter(move |&op| {
        let is_allowed = model.allows(op);
        if is_allowed {
            model.apply(op);
            model.ended_waits();
        }
        is_allowed
    })
}

/// Any operation; `below(n)` chooses a number below `n`.
pub(super) fn any(mut below: impl FnMut(usize) -> usize) -> Op {
    let item = below(ITEMS.len());
    let wq = below(kinds().len());
    let delay = [Delay::Zero, Delay::Zero, Delay::Soon, Delay::Far][below(4)];
    match below(58) {
        0..=9 if ITEMS[item] => Op::QueueDelayed(item, wq, delay),
        0..=9 => Op::Queue(item, wq),
        10..=13 => Op::Mod(item, wq, delay),
        14..=16 => Op::Cancel(item),
        17 => Op::Disable(item),
        18..=20 => Op::Enable(item),
        21 => Op::EnableAndQueue(item, wq),
        22 | 23 => Op::CancelSync(item),
        24 => Op::DisableSync(item),
        25..=27 => Op::Flush(item),
        28 | 29 => Op::FlushQueue(wq),
        30 => Op::Drain(wq),
        31 | 32 => Op::SetMaxActive(wq, 1 + below(3) as u32),
        33 => Op::Freeze,
        34 | 35 => Op::Thaw,
        36 => Op::Hold,
        37 | 38 => Op::Release,
        39 | 40 => Op::Make(wq),
        41 => Op::Drop(wq),
        42 => Op::Attrs(wq, below(3)),
        43..=46 => Op::WaitFor(item, below(ITEMS.len()), Inside::Flush),
        47 | 48 => Op::WaitFor(item, below(ITEMS.len()), Inside::CancelSync),
        _ => Op::Finish(item),
    }
}
