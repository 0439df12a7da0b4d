//! Looks at the engine from inside of the process: dumps, stalls, statistics, and the socket
//! through which others change settings. What the engine writes for readers is in `record`;
//! readers, clients and the doctor are a crate of their own, `cmwq-observe`.

#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "observe/control_model.rs")]
pub mod control;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod facts;
#[cfg(all(feature = "metrics", not(any(cmwq_loom, cmwq_shuttle))))]
pub mod metrics;
pub(crate) mod observers;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub mod shared;
pub(crate) mod show;
#[cfg_attr(
    any(not(feature = "stacks"), any(cmwq_loom, cmwq_shuttle)),
    path = "observe/stacks_none.rs"
)]
pub(crate) mod stacks;
pub(crate) mod stats;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub mod sysfs;
#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod totals;
pub mod watchdog;
