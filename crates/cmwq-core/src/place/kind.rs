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

impl PoolKind {
    /// Whether a new pool is made with its first worker, so that it is there when the first item
    /// comes. The context of a CPU, which runs its bottom halves, is no worker.
    ///
    /// KERNEL: `workqueue_init`, `get_unbound_pool` — same.
    #[must_use]
    pub const fn begins_with_worker(self) -> bool {
        !matches!(self, Self::Bh)
    }

    /// Whether a pool that no queue leads to any more is closed, and may become another one.
    /// `is_usual`: queues without attributes of their own may lead to it, and they come again.
    ///
    /// KERNEL: `put_unbound_pool` — differs: there the usual ones go, too.
    #[must_use]
    pub const fn closes(self, is_usual: bool) -> bool {
        matches!(self, Self::Unbound) && !is_usual
    }
}
