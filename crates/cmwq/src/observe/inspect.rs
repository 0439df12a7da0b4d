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
//! let me = cmwq::inspect::Target::open(std::process::id())?;
//! let seen = me.snapshot()?;
//! let shown = seen.queues.iter().find(|queue| queue.name == "shown").unwrap();
//! assert_eq!(seen.stats_of(shown).started, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Inside*: the engine writes the mapping (`record/mapping`, which has the agreement between
//! writer and reader, too); this is the reader.

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod reader;

pub use crate::record::mapping::{PoolKind, QueueKind, Reason};
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use reader::{
    Activity, Decision, Link, MissingRecords, Node, OpenError, Pod, Pool, Queue, ReadError,
    Snapshot, Target, Worker,
};
