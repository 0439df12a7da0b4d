//! Which items are queued together when their timers expire: under one hold of their pool's lock,
//! and with one wake-up.
//!
//! Why: docs/decisions/expired-together.md

use crate::ids::PoolId;
use crate::word::WorkWord;

/// Where an item goes when its timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination<Q> {
    /// To this queue.
    pub queue: Q,
    /// For this CPU; `None`: for that of the thread that queues it.
    pub cpu: Option<u32>,
    /// Somebody is told if the queue refuses the item, which nothing else holds then.
    pub is_held: bool,
}

/// How items are queued that go the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// All under one hold of the lock of the pool that was chosen for them; who has to be woken for
    /// them is woken behind it. With a wake-up for each, the woken worker would preempt a caller on
    /// the same CPU each time.
    One,
    /// One after the other: another pool may still run each, and has to be asked first.
    Each,
}

/// Splits expired timers, in their order, into those whose items go the same way.
pub fn going_together<T, Q: PartialEq>(
    expired: &[T],
    goes: impl Fn(&T) -> Destination<Q>,
) -> impl Iterator<Item = &[T]> {
    expired.chunk_by(move |one, next| goes(one) == goes(next))
}

/// Splits items that go the same way, to the pool `chosen`, by how they are queued. `is_ordered`:
/// by an ordered queue.
///
/// KERNEL: `delayed_work_timer_fn` — differs: there each is queued by itself.
pub fn holds<T>(
    items: &[T],
    chosen: PoolId,
    is_ordered: bool,
    word: impl Fn(&T) -> WorkWord + Copy,
) -> impl Iterator<Item = (Hold, &[T])> {
    let hold = move |item: &T| match word(item).may_run_at(chosen, is_ordered) {
        None => Hold::One,
        Some(_) => Hold::Each,
    };
    let runs = items.chunk_by(move |one, next| hold(one) == hold(next));
    runs.map(move |run| (hold(&run[0]), run))
}
