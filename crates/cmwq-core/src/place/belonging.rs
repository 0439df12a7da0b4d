//! Where a pool's workers belong, as the CPUs are now: asked when a pool is made, when it becomes
//! another one, and when CPUs leave, come, or are set apart.

use super::{PoolKind, concurrency};

/// CPUs, by what they are to the process or to a pool. A driver knows which they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// The pool's own, as far as the process has them; all of them, if it has none.
    Own,
    /// Those that unbound queues use.
    Unbound,
    /// Those that managed queues use unasked.
    Managed,
    /// All that the process has.
    Allowed,
}

/// How many of a pool's own CPUs there are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnCpus {
    /// The process has them.
    pub allowed: u32,
    /// Of these, managed queues use them unasked.
    pub managed: u32,
}

/// Where a pool's workers belong, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belonging {
    /// Where they start items.
    pub bound: Cpus,
    /// Where they may wake up, if they block in an item and are
    /// [unbound](crate::PoolState::is_unbound).
    pub unbound: Cpus,
    /// How many of them may run at once.
    pub concurrency: u32,
    /// None of its CPUs is there: it serves what was queued there, and helps no other pod.
    pub is_disassociated: bool,
    /// Managed queues use none of its CPUs unasked: it serves callers that name them, and helps no
    /// other pod.
    pub is_apart: bool,
    /// They are pinned to one CPU: who is on another one was moved from outside, or the CPU has
    /// left.
    pub is_pinned: bool,
}

impl OwnCpus {
    /// Whether a managed pod helps others: it has a CPU that managed queues use unasked.
    #[must_use]
    pub const fn may_help(self) -> bool {
        self.managed > 0
    }
}

impl Belonging {
    /// Whether its workers help other pods, if it is a pod beside others.
    #[must_use]
    pub const fn may_help(&self) -> bool {
        !self.is_disassociated && !self.is_apart
    }

    /// Of a pool of this kind. `has_others`: it is a managed pod beside others, and not the only
    /// one, whose CPUs are all that managed queues use. `granted`: as for a pool's concurrency, how
    /// many CPUs the process's quota keeps busy, or [`u32::MAX`].
    ///
    /// Workers of a pool whose CPUs have gone use those for unbound work; workers of a managed one
    /// wake up wherever managed queues run, as always, but for those of isolated CPUs.
    ///
    /// KERNEL: `unbind_worker`, `rebind_workers`, `restore_unbound_workers_cpumask` — same, for
    /// per-CPU and unbound pools. Who runs bottom halves is moved by the system.
    #[must_use]
    pub const fn of(kind: PoolKind, has_others: bool, own: OwnCpus, granted: u32) -> Self {
        let is_only = matches!(kind, PoolKind::Managed) && !has_others;
        let nr = if is_only { own.managed } else { own.allowed };
        let is_away = nr == 0;
        let is_apart = matches!(kind, PoolKind::Managed) && !own.may_help();
        let bound = match kind {
            PoolKind::Bh => Cpus::Own,
            PoolKind::Unbound if is_away => Cpus::Allowed,
            _ if is_away => Cpus::Unbound,
            _ if is_only => Cpus::Managed,
            _ => Cpus::Own,
        };
        let unbound = match kind {
            PoolKind::Managed if is_away || !is_apart => Cpus::Managed,
            _ => bound,
        };
        Self {
            bound,
            unbound,
            concurrency: concurrency(kind, nr, granted),
            is_disassociated: is_away && matches!(kind, PoolKind::Percpu | PoolKind::Managed),
            is_apart,
            is_pinned: nr == 1 && matches!(kind, PoolKind::Percpu | PoolKind::Managed),
        }
    }
}
