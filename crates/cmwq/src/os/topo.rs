//! Where this process may run, and what the CPUs it may run on share.
//!
//! *Owns* nothing: every function reads the system once and returns a value. Callers decide when to
//! read again.
//!
//! *Does not* fail on a strange machine. Files that are missing or unreadable make the picture
//! coarser (one cache, one node, cores without siblings); they never make it an error or a panic.
//! Nothing here starts a thread or takes a lock.
//!
//! Everything that reads files takes the root of the tree as a parameter, so that the tests run on
//! recorded trees of machines that nobody here owns.
//!
//! *Reading order*: [`cpuset`] (a set of CPU numbers), [`system`] (which CPUs there are),
//! [`topology`] (what they share), [`scope`] (grouping them into pods), [`cgroup`] (where the
//! process's limits are), [`quota`] (how many CPUs it really grants), [`task_limit`] (how many
//! threads).

mod cgroup;
mod cgroup_mounts;
mod cpuset;
mod cpuset_text;
mod quota;
mod scope;
mod system;
mod task_limit;
mod topology;

#[cfg(test)]
pub(crate) mod tests;

pub use cpuset::CpuSet;
pub use cpuset_text::ParseCpuSetError;
pub(crate) use quota::cpu_quota;
pub use scope::{AffinityScope, ParseScopeError};
pub(crate) use scope::{Pod, pods, pods_within};
pub(crate) use system::{
    SYS_ROOT, affinity_of, allowed_cpus, isolated_cpus, online_cpus, possible_cpus, present_cpus,
    threads,
};
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use task_limit::TaskLimit;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use task_limit::task_limit;
pub(crate) use topology::{Cpu, Topology};
