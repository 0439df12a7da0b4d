//! Small rungs of the ladder that `cmwq sim --scale` climbs.

use cmwq_sim::studies::scale::{self, Size};
use cmwq_sim::{Config, Outcome, Shape, simulate};

fn run(cpus: u32, queues: usize, items: usize) -> Outcome {
    let size = Size { shape: Shape::large(cpus), queues, items };
    let outcome = simulate(&scale::plan(1, size, None), &scale::config(1, size));
    assert_eq!(outcome.violation, None, "{size:?}");
    outcome
}

#[test]
fn small_rungs() {
    run(1, 40, 2_000);
    run(4, 100, 5_000);
    run(40, 1_000, 20_000);
}

#[test]
fn many_cpus() {
    let outcome = run(4096, 2_000, 20_000);
    assert!(outcome.stats.pools > 2_000, "{:?}", outcome.stats);
}

#[test]
fn many_queues() {
    run(16, 20_000, 20_000);
}

#[test]
fn the_same_seed_gives_the_same_digest() {
    assert_eq!(run(64, 500, 10_000).digest, run(64, 500, 10_000).digest);
}

/// A machine on which nothing was queued has no pools; each queue that a CPU uses costs a pwq
/// there, whatever the number of CPUs.
#[test]
fn a_cpu_takes_memory_for_what_it_uses_only() {
    let structures = |cpus, queues| {
        let shape = Shape::large(cpus);
        let plan = scale::touch_everything(shape, queues);
        let outcome = simulate(&plan, &Config { shape, ..Config::exact(1) });
        assert_eq!(outcome.violation, None);
        (outcome.memory.structures(), outcome.memory.nr_pwqs)
    };
    assert_eq!(structures(256, 0), (0, 0));
    let (one, other) = (structures(256, 8), structures(512, 8));
    assert_eq!((one.1, other.1), (256 * 8, 512 * 8));
    assert_eq!(other.0, 2 * one.0);
}
