//! A deterministic simulator of concurrency-managed workqueues.
//!
//! Virtual CPUs run virtual threads in virtual time; the decisions are those of the real thing,
//! because the core ([`cmwq_core`]) is the same. The driver around it is short, and mirrors the
//! runtime's: *ask the core, act on what it says*. What is real in a process is a value here: how
//! long a context switch takes, when a blocked worker is noticed, whether a thread can be created.
//! So every run can be repeated from its seed.
//! A pool has no lock here that anybody waits for, but what the runtime does wherever it takes one
//! is done, too: items go around a saturated pool's lock, and are taken along by its workers.
//! Queues come and go while a run lasts, and so do the pools' workers ([`plan::Owner`]).
//!
//! Three uses:
//!
//! - [`run_scenario`]: a small scenario written by people, for its timeline;
//! - [`run_seed`]: a random machine with random load and random faults, watched by checkers;
//! - [`simulate`]: any [`Plan`] under any [`Config`]; those of [`studies`] answer a question each.
//!
//! # How it scales
//!
//! A run of 4,096 CPUs, 100,000 queues and 10 million items, with all kinds of queues, all affinity
//! scopes, a hotplug storm and every checker takes minutes of one CPU and about 300 bytes of memory
//! per item (`cmwq sim --scale` shows it here and now). What costs what:
//!
//! - *Time* is in proportion to the events, five or so per item; a step costs a logarithm of the
//!   things to come (the event queue, which is the largest single part of a profile). Nothing walks
//!   all pools, queues, groups or items at a step: pods to ask for help are found in bit sets, the
//!   least loaded CPU in one per load, checkers look at what changed. From small to large runs an
//!   item becomes several times dearer all the same, because everything it touches is then far away
//!   in memory.
//! - *Work that is inherent*: flushing a queue and changing its limit visit its pwqs; a CPU that
//!   leaves or returns visits the queues with a split limit, as in the kernel.
//! - *Memory* is for what is used. Pools and pwqs are made when an item first needs them, as in the
//!   runtime: a queue that is used from four CPUs has four pwqs, whatever the machine has. (Linux
//!   allocates a queue's pwqs for every possible CPU at once: for this run that would be more than
//!   300 million.) An idle queue costs a CPU nothing. Per item there are the work item and its
//!   timer, the plan's entry and call, and a few words in most checkers; items with the same
//!   program share it. Events are kept only if [`Config::keep_events`] asks for them, and without
//!   it no timeline can be had.
//! - *Invariants of the core* are checked in builds with debug assertions, the more rarely the
//!   longer a check takes, so such builds stay within a small factor.
//!
//! [`Memory`] tells what the real structures would take; what is counted is said there.
//!
//! Reading order: `machine` (CPUs and run queues) → `engine` (the driver) → `checkers` → [`swarm`].

mod agenda;
mod arena;
mod bitset;
mod board;
mod by_pool;
mod checkers;
pub mod config;
mod engine;
pub mod event;
mod grown;
mod machine;
pub mod named;
mod names;
mod parse_error;
mod places;
pub mod plan;
mod report;
mod rng;
pub mod scenario;
pub mod script;
pub mod studies;
pub mod swarm;
mod timeline;
pub mod topology;

pub use cmwq_core::Nanos;
pub use config::Config;
pub use parse_error::ParseError;
pub use places::PoolKind;
pub use plan::Plan;
pub use report::{Helping, Memory, Outcome, Progress, Stats, Violation};
pub use rng::Rng;
pub use scenario::Scenario;
pub use swarm::{Report, run_seed};
pub use timeline::{Moment, Timeline, TimelineEvent, run_scenario, run_scenario_under};
pub use topology::{Scope, Shape};

/// Runs a plan to its end, or to the first complaint of a checker.
///
/// # Panics
/// If the core finds one of its invariants broken (in builds with debug assertions).
#[must_use]
pub fn simulate(plan: &Plan, config: &Config) -> Outcome {
    simulate_watched(plan, config, &mut |_| ())
}

/// As [`simulate`], with pools that do without one of the core's rules, to show that the checkers
/// notice.
///
/// # Panics
/// As there.
#[cfg(feature = "explore")]
#[must_use]
pub fn simulate_without(plan: &Plan, config: &Config, rule: cmwq_core::Rule) -> Outcome {
    engine::Engine::new(plan, config).without(rule).run(&mut |_| ())
}

/// As [`simulate`]; `progress` is told now and then how far it is.
///
/// # Panics
/// As there.
#[must_use]
pub fn simulate_watched(
    plan: &Plan,
    config: &Config,
    progress: &mut dyn FnMut(Progress),
) -> Outcome {
    engine::Engine::new(plan, config).run(progress)
}
