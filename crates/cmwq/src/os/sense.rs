//! Thin owners of the system's interfaces: those that tell what threads are doing, those that put
//! threads where they belong, and those by which threads and processes reach each other (futexes,
//! signals, sockets, standard error).
//!
//! *Owns* file descriptors and mappings, each closed or unmapped when its value is dropped.
//!
//! *Does not* decide anything: which source is used when, and what follows from what it says, is
//! the detector's affair. Nothing here takes a lock. Once a source is open, asking it allocates
//! nothing either, so the idle-class sentinel may.
//!
//! What the sources say is history by the time it is read. A wrong or late answer costs latency,
//! never correctness.
//!
//! *Reading order*: [`perf`] (exact: every switch of a thread), [`stat`] (the state of a thread
//! now), [`clock`] (has it run since?), [`sched`] (CPUs, names), [`policy`] (classes and niceness),
//! [`futex`] (waiting), [`kernel`] (which one), and `socket` (who is at the other end).

mod budget;
mod clock;
pub(crate) mod futex;
pub(crate) mod kernel;
mod lasting_fd;
mod perf;
mod perf_abi;
mod perf_refusal;
mod perf_ring;
#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "sense/policy_model.rs")]
pub(crate) mod policy;
mod process;
#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "sense/sched_model.rs")]
pub(crate) mod sched;
pub(crate) mod signal;
mod sleeps;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod socket;
mod stat;
pub(crate) mod stderr;
pub(crate) mod thread;

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use budget::{above_streams, file_size_limit, identity};
pub(crate) use budget::{is_alone, reserve};
pub(crate) use clock::{CpuClock, current_cpu_time};
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use lasting_fd::LastingFd;
pub(crate) use perf::SwitchRecords;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use perf_refusal::RefusalCause;
pub(crate) use perf_refusal::probe as probe_perf;
pub(crate) use process::{Family, Root};
pub(crate) use sleeps::{nr_sleeps, own_sleeps};
pub(crate) use stat::StatFile;
