//! Random sequences of operations, against a model that is plainly right ([`model`]).
//!
//! One thread does one operation after the other on a few items and queues of all kinds
//! ([`sequence`]). Whatever may start does and waits at a gate, so results are decided by what
//! operations mean and not by time. After each operation everything that can be seen must come to
//! what the model says ([`rig`]): what the call returned, or that it waits; what is pending,
//! running, congested, and how often each function was entered.
//!
//! `CMWQ_SEED=N` plays one seed. A sequence that fails is made shorter before it is shown. The
//! fuzzer's target `api` plays sequences that it made (`fuzz.rs`).

mod model;
mod rig;
mod sequence;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::support::scene::{Scene, Stage};
use crate::support::wait::PATIENCE;
use model::Op;
use rig::Rig;
use sequence::{allowed, of_seed};

pub(crate) const SCENES: &[Scene] = &[("reference::play", play)];

const SEQUENCES: u64 = 200;
/// How long a sequence that is known to fail may take each time it is made shorter.
const IMPATIENCE: Duration = Duration::from_secs(2);

#[test]
fn random_operations_do_what_the_model_says() {
    // It is the whole process that freezes, and an item that computes for long is meant to.
    Stage::new("reference::play").params("cpu_intensive_thresh_us=0").play();
}

#[expect(clippy::print_stderr, reason = "the seed is needed to play it again")]
fn play() {
    let one = env::var("CMWQ_SEED").ok().map(|seed| seed.parse().expect("CMWQ_SEED is a number"));
    let seeds = one.map_or(0..SEQUENCES, |seed: u64| seed..seed + 1);
    eprintln!("seeds {seeds:?}");
    for seed in seeds {
        let ops = of_seed(seed);
        if let Err(panic) = catch_unwind(|| Rig::new(PATIENCE).play(&ops)) {
            eprintln!("CMWQ_SEED={seed} fails");
            eprintln!("CMWQ_SEED={seed} in short: {:?}", shorten(ops));
            std::panic::resume_unwind(panic);
        }
    }
}

/// A shorter sequence that fails too: the shortest beginning, without what can be left out.
fn shorten(ops: Vec<Op>) -> Vec<Op> {
    let is_legal = |ops: &[Op]| allowed(ops.iter().copied()).count() == ops.len();
    let fails = |ops: &[Op]| {
        is_legal(ops) && catch_unwind(AssertUnwindSafe(|| Rig::new(IMPATIENCE).play(ops))).is_err()
    };
    // What fails was said already.
    std::panic::set_hook(Box::new(|_| ()));
    let Some(end) = (1..=ops.len()).find(|&end| fails(&ops[..end])) else { return ops };
    let mut ops = ops[..end].to_vec();
    for at in (0..ops.len()).rev() {
        let mut fewer = ops.clone();
        fewer.remove(at);
        if fails(&fewer) {
            ops = fewer;
        }
    }
    ops
}
