//! Looks at the engine: dumps, stalls, statistics, readers of the mapping, and the socket through
//! which others change settings. What the engine writes for readers is in `record`.

#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "observe/control_model.rs")]
pub mod control;
pub mod doctor;
pub mod inspect;
#[cfg(all(feature = "metrics", not(any(cmwq_loom, cmwq_shuttle))))]
pub mod metrics;
pub(crate) mod observers;
pub(crate) mod show;
#[cfg_attr(
    any(not(feature = "stacks"), any(cmwq_loom, cmwq_shuttle)),
    path = "observe/stacks_none.rs"
)]
pub(crate) mod stacks;
pub(crate) mod stats;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub mod sysfs;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod totals;
pub mod watchdog;
