//! Settings that say where all queues' workers run.

use crate::engine::runtime::Runtime;
use crate::os::error::Error;
use crate::os::topo::{AffinityScope, CpuSet};

/// The scope of unbound queues that name none; `cache_shard` unless `CMWQ_PARAMS` says otherwise.
///
/// # Errors
/// [`ThreadCreation`](crate::ErrorKind::ThreadCreation) if it is the first use of this library and
/// the service thread cannot be created. So for all functions here.
pub fn default_affinity_scope() -> Result<AffinityScope, Error> {
    Ok(Runtime::global()?.placement.shown().scope)
}

/// Changes the scope of unbound queues that name none, existing ones included. Items that were
/// queued before run where they are.
///
/// KERNEL: writing `/sys/module/workqueue/parameters/default_affinity_scope` — same.
///
/// # Errors
/// See [`default_affinity_scope`].
///
/// ```
/// cmwq::set_default_affinity_scope(cmwq::AffinityScope::Numa)?;
/// assert_eq!(cmwq::default_affinity_scope()?, cmwq::AffinityScope::Numa);
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn set_default_affinity_scope(scope: AffinityScope) -> Result<(), Error> {
    Runtime::global()?.set_default_scope(scope);
    Ok(())
}

/// The CPUs that unbound and ordered queues use: what was [asked for](set_unbound_cpumask), as far
/// as the process has it and the administrator does not keep it free (`isolcpus=`).
///
/// KERNEL: `/sys/devices/virtual/workqueue/cpumask` — same.
///
/// # Errors
/// See [`default_affinity_scope`].
pub fn unbound_cpumask() -> Result<CpuSet, Error> {
    Ok(Runtime::global()?.placement.shown().unbound.clone())
}

/// Confines unbound and ordered queues, existing ones included, to `cpus`. Items that were queued
/// before run where they are. Managed and per-CPU queues are not affected.
///
/// KERNEL: writing `/sys/devices/virtual/workqueue/cpumask` — same.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the process has none of them, or all of
/// those it has are isolated; nothing changes then. See also [`default_affinity_scope`].
///
/// ```
/// let all = cmwq::unbound_cpumask()?;
/// cmwq::set_unbound_cpumask(&cmwq::CpuSet::single(all.first().unwrap()))?;
/// assert_eq!(cmwq::unbound_cpumask()?.count(), 1);
/// assert!(cmwq::set_unbound_cpumask(&cmwq::CpuSet::new()).is_err());
/// # cmwq::set_unbound_cpumask(&all)?;
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn set_unbound_cpumask(cpus: &CpuSet) -> Result<(), Error> {
    Runtime::global()?.set_unbound_cpumask(cpus)
}

/// Looks which CPUs the process has now, and moves workers and queues accordingly.
///
/// A CPU that was switched off, or a cpuset that changed, is noticed anyway, within a second of
/// work; an idle process is not woken for it. The CPUs are those that the cpuset leaves, and if the
/// process was started with a narrower mask (`taskset`), of those: if none of its threads has more
/// when the library is first used. That a program confines some of its own threads makes no
/// difference, whichever of them comes first. The cgroup's CPU quota is not read again: it is taken
/// as it was when the library was first used.
///
/// Blocks for as long as it takes to read some files of `/sys` and to set the CPUs of every worker:
/// a system call for each. Changes are made one after another. Does not wait for items. Not for hot
/// paths.
///
/// KERNEL: `workqueue_offline_cpu`, `workqueue_online_cpu` — the kernel is told.
///
/// # Errors
/// See [`default_affinity_scope`].
pub fn rescan_cpus() -> Result<(), Error> {
    Runtime::global()?.rescan(true);
    Ok(())
}
