//! What the engine writes while it acts, for whoever may look: the mapping, the trace, and names of
//! functions. The engine knows of observing these names and its own trait `Observers`, no more.
//!
//! Nothing here decides anything, takes a core lock, waits for a reader, or knows the engine's
//! types: the engine hands over numbers, sets of CPUs and names.
//!
//! Why: docs/decisions/engine-hands-over-numbers.md

pub(crate) mod mapping;
pub(crate) mod symbol;
#[doc(hidden)]
pub mod trace;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use mapping::leave_behind as leave_mapping_behind;
pub(crate) use mapping::{
    Inspect, NodeCounts, Places, PoolKind, PoolMirror, PoolValues, QueueKind, QueueMirror,
    QueueSettings, QueueValues, Reason, Role, WorkerMirror, WorkerRecord, set_worker_state,
};
