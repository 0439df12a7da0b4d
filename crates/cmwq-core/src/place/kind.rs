//! Kinds of pools and of queues, and which queues lead where.

use super::{Cpus, SHARD_CORES, Scope};

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

    /// Whether a pool that was closed, and in which nothing is left, becomes a pool of this kind
    /// before a new one is made. Also if queues without attributes of their own may lead to it.
    ///
    /// KERNEL: no twin. There pools are freed.
    #[must_use]
    pub const fn is_renewed(self) -> bool {
        matches!(self, Self::Unbound)
    }

    /// Whether workers may leave the pod in which they begin. `is_all`: they may use no CPU outside
    /// of it; `is_deadline`: they have a deadline policy, with which threads cannot be bound to a
    /// pod.
    ///
    /// KERNEL: `affinity_strict` 0 — same. Workers that wait in items of managed queues are another
    /// matter: see [`PoolState::is_unbound`](crate::PoolState::is_unbound).
    #[must_use]
    pub const fn may_leave_pod(self, is_all: bool, is_deadline: bool) -> bool {
        matches!(self, Self::Unbound) && !is_all && !is_deadline
    }

    /// Whether a pool that no queue leads to any more is closed, and may become another one.
    /// `is_usual`: queues without attributes of their own [may lead to it](PoolAttrs::are_usual),
    /// and they come again.
    ///
    /// KERNEL: `put_unbound_pool` — differs: there the usual ones go, too.
    #[must_use]
    pub const fn closes(self, is_usual: bool) -> bool {
        matches!(self, Self::Unbound) && !is_usual
    }
}

/// An unbound pool's attributes, beside those of queues that ask for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolAttrs {
    /// Workers have the priority of such queues, highpri or not.
    pub has_default_priority: bool,
    /// Workers stay in their pod.
    pub is_strict: bool,
    /// Workers may use all CPUs that such queues use.
    pub has_all_cpus: bool,
    /// The pod has all of these, or is one of the default scope.
    pub has_default_pod: bool,
}

impl PoolAttrs {
    /// Whether queues without attributes of their own may lead to the pool.
    #[must_use]
    pub const fn are_usual(self) -> bool {
        self.has_default_priority && !self.is_strict && self.has_all_cpus && self.has_default_pod
    }
}

/// What a queue promises about its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// They run on the CPU for which they are queued.
    Percpu,
    /// The same, as bottom halves.
    Bh,
    /// They start at once, on the CPUs of a pod.
    Unbound,
    /// One running item for each CPU, wherever one is idle.
    Managed,
    /// One at a time, in order.
    Ordered,
}

/// Which of a queue's CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotCpus {
    /// Those in the pod of the CPU that items are queued for.
    Pod,
    /// All that it may use.
    All,
}

/// The workers of the pool that serves an unbound or ordered queue's items of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Where they begin.
    pub pod: SlotCpus,
    /// Where they may go.
    pub cpus: SlotCpus,
    /// They stay where they begin, and share no pool with others that only happen to have no other
    /// CPUs.
    pub is_strict: bool,
}

/// Which CPU an item is queued for, in place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandIn {
    /// None: its own pool or pod serves it, even if the CPU has gone.
    Own,
    /// One that the process has, if it has not that one: see [`stand_in`](super::stand_in).
    Present,
    /// One that managed queues use unasked, if they do not use that one.
    Managed,
}

impl QueueKind {
    /// The kind of pools that it leads to.
    #[must_use]
    pub const fn pool(self) -> PoolKind {
        match self {
            Self::Percpu => PoolKind::Percpu,
            Self::Bh => PoolKind::Bh,
            Self::Managed => PoolKind::Managed,
            Self::Unbound | Self::Ordered => PoolKind::Unbound,
        }
    }

    /// That of a power-efficient queue: per-CPU, unless the process is told to save power.
    ///
    /// KERNEL: `WQ_POWER_EFFICIENT` with the parameter `power_efficient` — same.
    #[must_use]
    pub const fn power_efficient(saves_power: bool) -> Self {
        if saves_power { Self::Unbound } else { Self::Percpu }
    }

    /// Which CPUs form a pod, if nobody says so.
    ///
    /// KERNEL: `wq_affn_dfl` — same, for unbound queues.
    #[must_use]
    pub const fn default_scope(self) -> Scope {
        match self {
            Self::Percpu | Self::Bh | Self::Managed => Scope::Cpu,
            Self::Unbound | Self::Ordered => Scope::CacheShard(SHARD_CORES),
        }
    }

    /// Whether somebody may say that these CPUs form a pod. A managed pod has either one CPU, whose
    /// sentinel tells when it idles, or all, and then there is no other pod to help. Whatever is
    /// said of others, per-CPU queues have a pool for each CPU, and ordered ones one for all.
    #[must_use]
    pub const fn takes_scope(self, scope: Scope) -> bool {
        !matches!(self, Self::Managed) || matches!(scope, Scope::Cpu | Scope::System)
    }

    /// Whether one pool serves its items of all CPUs. `names_scope`: it was told which CPUs form a
    /// pod; `granted`, `cpus`: how many of the process's CPUs its quota keeps busy, and how many
    /// there are. A quota is for all CPUs together, so one pod has to manage them.
    #[must_use]
    pub const fn leads_to_one(self, names_scope: bool, granted: u32, cpus: u32) -> bool {
        match self {
            Self::Percpu | Self::Bh => false,
            Self::Unbound | Self::Managed => !names_scope && granted < cpus,
            Self::Ordered => true,
        }
    }

    /// Which of its CPUs form a pod: `named` says it for this queue, `usual` for those of which
    /// nobody says it. All, if one pool [serves them](Self::leads_to_one).
    #[must_use]
    pub fn scope(self, named: Option<Scope>, usual: Scope, granted: u32, cpus: u32) -> Scope {
        if self.leads_to_one(named.is_some(), granted, cpus) {
            return Scope::System;
        }
        named.unwrap_or(usual)
    }

    /// Which CPU's pool has an item that is queued for a CPU (`names_cpu`), or by a caller on it.
    ///
    /// KERNEL: a per-CPU pool whose CPU has gone serves on — same, for callers that name the CPU. A
    /// managed pod whose CPU has gone is not used, and one of an isolated CPU only by callers that
    /// name it.
    #[inline]
    #[must_use]
    pub const fn stand_in(self, names_cpu: bool) -> StandIn {
        match (self, names_cpu) {
            (Self::Unbound | Self::Ordered, _) | (Self::Percpu | Self::Bh, true) => StandIn::Own,
            (Self::Percpu | Self::Bh, false) | (Self::Managed, true) => StandIn::Present,
            (Self::Managed, false) => StandIn::Managed,
        }
    }

    /// For which CPUs of a node its items are queued, if somebody names the node: he has named none
    /// of its CPUs, so a managed queue uses those that it uses unasked.
    ///
    /// KERNEL: `workqueue_select_cpu_near` — same, for the others.
    #[must_use]
    pub const fn cpus_of_nodes(self) -> Cpus {
        match self {
            Self::Managed => Cpus::Managed,
            _ => Cpus::Allowed,
        }
    }

    /// Whether it can be led to other pools, by other attributes.
    #[inline]
    #[must_use]
    pub const fn is_replaceable(self) -> bool {
        matches!(self, Self::Unbound | Self::Ordered)
    }

    /// Whether an item of it may be queued at one pool while another pool runs it, once it was led
    /// elsewhere: there it has to stay behind those that were queued before it. Items of other
    /// queues are queued where they run. From the first such change on, who looks for a run of an
    /// item asks all pools, first the one that the item's word names.
    ///
    /// KERNEL: `start_flush_work`, `work_busy` ask that one only — differs: such a run is found.
    #[must_use]
    pub const fn leaves_runs_behind(self) -> bool {
        matches!(self, Self::Ordered)
    }

    /// Which pool serves its items of a CPU. `has_pod`: the CPU has a
    /// [pod](super::Pods::pod) with CPUs that the queue may use; `is_strict`: its attributes say
    /// that workers stay in their pod. Those of an ordered queue's only pod have all CPUs.
    ///
    /// KERNEL: `wq_calc_pod_cpumask` — same: a pod that has none has all of the queue's.
    #[must_use]
    pub const fn slot(self, has_pod: bool, is_strict: bool) -> Slot {
        let pod = if has_pod { SlotCpus::Pod } else { SlotCpus::All };
        let is_strict = is_strict && !matches!(self, Self::Ordered);
        Slot { pod, cpus: if is_strict { pod } else { SlotCpus::All }, is_strict }
    }

    /// Whether an item may run elsewhere than where it was queued: its queue promises neither a
    /// place nor an order, and nobody named a CPU for it.
    #[inline]
    #[must_use]
    pub const fn may_leave(self, names_cpu: bool) -> bool {
        matches!(self, Self::Managed) && !names_cpu
    }

    /// Whether `max_active` can be chosen and changed.
    ///
    /// KERNEL: `workqueue_set_max_active` — same.
    #[must_use]
    pub const fn has_limit(self) -> bool {
        !matches!(self, Self::Ordered | Self::Bh)
    }
}
