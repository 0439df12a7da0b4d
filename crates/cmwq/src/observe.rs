//! Makes the engine visible: mapping, trace, dumps, stalls, and the socket through which others
//! change settings.

#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "observe/control_model.rs")]
pub mod control;
pub mod doctor;
pub(crate) mod hooks;
pub mod inspect;
#[cfg(all(feature = "metrics", not(any(cmwq_loom, cmwq_shuttle))))]
pub mod metrics;
pub(crate) mod show;
#[cfg_attr(
    any(not(feature = "stacks"), any(cmwq_loom, cmwq_shuttle)),
    path = "observe/stacks_none.rs"
)]
pub(crate) mod stacks;
pub(crate) mod stats;
pub(crate) mod symbol;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub mod sysfs;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod totals;
#[doc(hidden)]
pub mod trace;
pub mod watchdog;
