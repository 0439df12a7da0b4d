//! Decisions about CPUs: what kind of pool serves which of them, and how many of its workers may
//! run.

mod concurrency;
mod kind;
mod pods;
mod rescan;
mod stand_ins;

pub use concurrency::{concurrency, granted};
pub use kind::PoolKind;
pub use pods::{Cpu, SHARD_CORES, Scope, pod_leaders};
pub use rescan::{RESCAN_EVERY_NS, Rescan};
pub use stand_ins::stand_in;
