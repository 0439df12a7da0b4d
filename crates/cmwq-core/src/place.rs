//! Decisions about CPUs: which of them may be used, which kind of pool serves which queues and
//! CPUs, where its workers belong, and how many of them may run.

mod belonging;
mod concurrency;
mod kind;
mod pods;
mod rescan;
pub mod usable;

pub use belonging::{Belonging, Cpus, OwnCpus};
pub(crate) use concurrency::concurrency;
pub use concurrency::granted;
pub use kind::{PoolAttrs, PoolKind, QueueKind, Slot, SlotCpus, StandIn};
pub use pods::{Cpu, Pods, SHARD_CORES, Scope};
pub use rescan::{RESCAN_EVERY_NS, Rescan};

/// The CPU for an item that is queued for a node with these CPUs, by a caller on `here`. `None`:
/// the node has none.
///
/// KERNEL: `workqueue_select_cpu_near` — same.
#[must_use]
pub fn cpu_of_node(here: Option<u32>, cpus: impl Iterator<Item = u32> + Clone) -> Option<u32> {
    here.filter(|here| cpus.clone().any(|cpu| cpu == *here)).or_else(|| cpus.min())
}

/// Which of the `nr_here` present CPUs, counted from 0, stands in for CPU number `index`, which has
/// gone: items that are queued for that CPU on a managed queue go to the stand-in, as do items of
/// callers that run there. Different CPUs get different stand-ins, as far as possible. `None`: no
/// CPU is present.
///
/// KERNEL: differs: a per-CPU pool whose CPU has gone serves on, disassociated; so does ours for
/// callers that name the CPU. Managed pods have no twin.
#[must_use]
pub const fn stand_in(index: usize, nr_here: usize) -> Option<usize> {
    index.checked_rem(nr_here)
}
