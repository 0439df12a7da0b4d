//! What a process shows of its queues, pools and workers to whoever may look.
//!
//! The runtime keeps its state and statistics in a *mapping*, a piece of memory that other
//! processes can map too (a sealed memfd named `cmwq`). There is no thread and no socket behind it,
//! so it can be read while the process is stopped or deadlocked, and reading it costs the process
//! nothing. Who may open it is the kernel's decision: whoever may trace the process.
//!
//! [`Target::open`] finds and maps it, [`Target::snapshot`] makes a copy. The `cmwq` command's
//! `dump` and `monitor` are made with these.
//!
//! ```
//! let wq = cmwq::Workqueue::new("shown")?;
//! wq.queue(|| ()).join().unwrap();
//! let me = cmwq_observe::inspect::Target::open(std::process::id())?;
//! let seen = me.snapshot()?;
//! let shown = seen.queues.iter().find(|queue| queue.name == "shown").unwrap();
//! assert_eq!(seen.stats_of(shown).started, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A mapping may be of another version, cut short, torn (its process was stopped in the middle of a
//! change), or not ours at all though it has the name. Nothing in it is trusted: every place is
//! checked against the length of what was mapped, every number is only a number, and what makes no
//! sense is an error or left out, never a panic.

// Reading order: `open` (finding it), `words` (bounds), `snapshot` (copying and decoding), `view`
// (what a reader is given). The layout is the library's: `record/mapping/layout.rs`.

mod open;
mod snapshot;
mod view;
mod words;

#[cfg(test)]
mod tests;

#[doc(inline)]
pub use cmwq::shared::mapping::{PoolKind, QueueKind, Reason};
pub(crate) use open::text;
pub use open::{OpenError, Target};
pub use snapshot::ReadError;
pub use view::{
    Activity, Decision, Link, MissingRecords, Node, Pod, Pool, Queue, Snapshot, Worker,
};
#[cfg(any(test, fuzzing))]
pub(crate) use {snapshot::snapshot, words::Words};
