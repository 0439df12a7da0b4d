//! Decisions about CPUs: which kind of pool serves which CPUs, and how many of its workers may run.

mod concurrency;
mod kind;
mod pods;
mod stand_ins;

pub use concurrency::{concurrency, granted};
pub use kind::PoolKind;
pub use pods::{Cpu, SHARD_CORES, Scope, pod_leaders};
pub use stand_ins::stand_in;
