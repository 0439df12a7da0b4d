//! Kinds of pools.

/// What a pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// Pinned to a CPU, for per-CPU queues.
    Percpu,
    /// Serves the CPUs of a pod for managed queues.
    Managed,
    /// Serves a pod for unbound and ordered queues.
    Unbound,
    /// Runs the bottom halves of a CPU.
    Bh,
}
