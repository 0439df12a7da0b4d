//! The mapping, as the process that it is about writes it: its state and statistics in a piece of
//! memory that other processes can map, too.
//!
//! `layout` is the agreement between writer and reader, `names` what its numbers stand for,
//! `seqlock` how a record is written and copied, `slots` gives out records, `functions` has names
//! for those who see addresses, `memfd` and `map` make the mapping, `mirror` is what the engine
//! calls. Readers are another crate, `cmwq-observe`, which knows these
//! agreements by `observe/shared`. Everything is best effort: where the system
//! refuses the memory, or a table is full, the engine goes on without.
//!
//! Why: docs/decisions/mapping.md

pub(crate) mod functions;
#[doc(hidden)]
pub mod layout;
mod map;
#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "mapping/memfd_model.rs")]
mod memfd;
mod mirror;
mod names;
pub(crate) mod seqlock;
mod slots;

pub(crate) use layout::WorkerRecord;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use memfd::leave_behind;
pub(crate) use mirror::{
    Inspect, NodeCounts, Places, PoolMirror, PoolValues, QueueMirror, QueueSettings, QueueValues,
    Role, WorkerMirror, set_worker_state,
};
pub use names::{PoolKind, QueueKind, Reason};
