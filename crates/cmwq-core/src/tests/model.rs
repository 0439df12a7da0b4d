//! Random histories of one pool, against the naive one in `naive`.
//!
//! Each step calls the same thing on both and compares what they answer (`pair`); after each step
//! everything that can be seen of the pool is compared,
//! [`PoolState::check`](crate::PoolState::check) runs, and two promises that neither implementation
//! knows about are checked: work does not wait for nobody, and whoever runs has a standby
//! (`check`).

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::vec::Vec;

use self::pair::Pair;
use super::support::{Rng, steps, with_seeds};

mod check;
mod naive;
mod pair;

type Operation = fn(&mut Pair, &mut Rng);

/// What may happen, with the relative frequency of each.
const OPERATIONS: &[(Operation, usize)] = &[
    (Pair::queue, 40),
    (Pair::look, 50),
    (Pair::finish, 40),
    (Pair::pass, 20),
    (Pair::block, 10),
    (Pair::resume, 6),
    (Pair::create, 16),
    (Pair::cancel, 6),
    (Pair::publish, 12),
    (Pair::flush_item, 12),
    (Pair::flush_queue, 4),
    (Pair::set_max_active, 6),
    (Pair::set_concurrency, 2),
    (Pair::pass_time, 4),
    (Pair::cull, 6),
    (Pair::guest, 6),
    (Pair::lend, 6),
    (Pair::close_and_reopen, 4),
];

/// How often each thing happened, over all seeds: a test that never gets anywhere proves nothing.
type Coverage = BTreeMap<&'static str, usize>;

fn run(rng: &mut Rng, coverage: &mut Coverage) {
    let mut pair = Pair::new(rng);
    // Each run has its own mixture, so that some go far in one direction.
    let weights: Vec<usize> =
        OPERATIONS.iter().map(|&(_, w)| 1 + w * (1 + rng.below(6)) / 3).collect();
    let total: usize = weights.iter().sum();
    for step in 0..steps(1500, 80) {
        let mut at = rng.below(total);
        let which = weights.iter().position(|&weight| {
            let here = at < weight;
            at = at.saturating_sub(weight);
            here
        });
        OPERATIONS[which.expect("below the total")].0(&mut pair, rng);
        if !cfg!(miri) || step % 4 == 0 {
            pair.compare();
        }
        pair.nothing_stalls();
        pair.somebody_stands_by();
    }
    pair.settle(rng);
    for (&what, &times) in &pair.cover {
        *coverage.entry(what).or_default() += times;
    }
}

#[test]
fn a_pool_does_what_a_naive_one_does() {
    let coverage = RefCell::new(Coverage::new());
    with_seeds(60, |rng| run(rng, &mut coverage.borrow_mut()));
    if cfg!(miri) {
        return;
    }
    let coverage = coverage.into_inner();
    for what in [
        "queue: refused",
        "kick: none",
        "kick: wake",
        "kick: watch",
        "kick: need first",
        "next: started",
        "next: kept working",
        "next: manage",
        "next: sleep",
        "next: sleep and watch",
        "next: exit",
        "blocked",
        "birth failed",
        "cancelled",
        "barrier: idle",
        "barrier: queued",
        "barrier: running",
        "barrier: passed",
        "flush: done by finish",
        "culled",
        "closed",
        "dismissed",
        "dismissed: none",
        "guest: runs",
        "lent",
    ] {
        let times = coverage.get(what).copied().unwrap_or_default();
        assert!(times >= 20, "`{what}` happened only {times} times: {coverage:#?}");
    }
}
