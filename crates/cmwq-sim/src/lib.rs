//! A deterministic simulator of concurrency-managed workqueues.
//!
//! Virtual CPUs run virtual threads in virtual time; the decisions are those of the real thing,
//! because the core ([`cmwq_core`]) is the same. The driver around it is short, and mirrors the
//! runtime's: *ask the core, act on what it says*. What is real in a process is a value here: how
//! long a context switch takes, when a blocked worker is noticed, whether a thread can be created.
//! So every run can be repeated from its seed.
//!
//! Three uses:
//!
//! - [`run_scenario`]: a small scenario written by people, for its timeline;
//! - [`run_seed`]: a random machine with random load and random faults, watched by checkers;
//! - [`simulate`]: any [`Plan`] under any [`Config`].
//!
//! Reading order: `machine` (CPUs and run queues) → `engine` (the driver) → `checkers` → [`swarm`].

mod agenda;
mod arena;
mod checkers;
pub mod config;
mod engine;
pub mod event;
mod machine;
pub mod named;
mod places;
pub mod plan;
mod report;
mod rng;
pub mod scenario;
pub mod script;
pub mod swarm;
mod timeline;

pub use config::Config;
pub use places::PoolKind;
pub use plan::Plan;
pub use report::{Outcome, Stats, Violation};
pub use rng::Rng;
pub use scenario::Scenario;
pub use swarm::{Report, run_seed};
pub use timeline::{Moment, Timeline, TimelineEvent, run_scenario, run_scenario_under};

/// Virtual nanoseconds.
pub type Nanos = u64;

/// Runs a plan to its end, or to the first complaint of a checker.
///
/// # Panics
/// If the core finds one of its invariants broken (in builds with debug assertions).
#[must_use]
pub fn simulate(plan: &Plan, config: &Config) -> Outcome {
    engine::Engine::new(plan, config).run()
}
