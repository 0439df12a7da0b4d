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
//! *Inside*: `layout` is the agreement between writer and reader, `record` how a record is written
//! and copied, `slots` gives out records, `functions` has names for those who see addresses,
//! `memfd` and `map` make the mapping, `mirror` is what the runtime calls, `reader` is the other
//! side. Everything is best effort: where the system refuses the memory, or a table is full, the
//! runtime goes on without.

mod functions;
pub(crate) mod layout;
mod map;
#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "inspect/memfd_model.rs")]
mod memfd;
mod mirror;
mod names;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod reader;
pub(crate) mod record;
mod slots;

pub(crate) use layout::WorkerRecord;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use memfd::leave_behind;
pub(crate) use mirror::{
    Inspect, NodeCounts, Places, PoolMirror, QueueMirror, QueueSettings, Role, WorkerMirror,
    believe,
};
pub use names::{PoolKind, QueueKind, Reason};
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use reader::{
    Activity, Decision, Link, MissingRecords, Node, OpenError, Pod, Pool, Queue, ReadError,
    Snapshot, Target, Worker,
};
