//! The engine's values in the form in which the mapping and the trace have them.

use crate::engine::attrs::{Attrs, Sched};
use crate::engine::pool::{Pool, PoolKind, PoolSpec};
use crate::engine::wq::{Kind, Spec, Wq};
use crate::os::sync::Arc;
use crate::record::trace::{TracedPool, TracedQueue};
use crate::record::{self, PoolValues, QueueSettings, QueueValues};

use cmwq_core::WqKey;

/// Policy in the upper half, priority in the lower one.
fn sched_word(sched: Sched) -> u64 {
    match sched {
        Sched::Normal => 0,
        Sched::Fifo(priority) => 1 << 32 | u64::from(priority),
        Sched::RoundRobin(priority) => 2 << 32 | u64::from(priority),
        Sched::Deadline { .. } => 6 << 32,
    }
}

impl PoolSpec {
    /// `may_stray`: the scheduler may move the pool's workers out of its pod.
    pub(crate) fn recorded(&self, may_stray: bool) -> PoolValues<'_> {
        let (kind, cpu) = match self.kind {
            PoolKind::Cpu(cpu) => (record::PoolKind::Cpu, Some(cpu)),
            PoolKind::Bh(cpu) => (record::PoolKind::Bh, Some(cpu)),
            PoolKind::Unbound => (record::PoolKind::Unbound, None),
            PoolKind::Managed => (record::PoolKind::Managed, None),
        };
        PoolValues {
            kind,
            cpu,
            nice: self.nice,
            sched: sched_word(self.priority.sched),
            cpus: &self.cpus,
            pod: &self.pod,
            node: self.node,
            concurrency: self.concurrency,
            is_strict: self.is_strict,
            may_stray,
        }
    }
}

impl Attrs {
    /// A queue's settings: its limits, and these attributes.
    pub(crate) fn recorded(&self, max_active: u32, min_active: u32) -> QueueSettings<'_> {
        QueueSettings {
            max_active,
            min_active,
            nice: self.nice,
            sched: sched_word(self.sched),
            cpumask: self.cpumask.as_ref(),
            scope: self.affinity_scope,
            is_strict: self.affinity_strict,
        }
    }
}

impl Spec {
    pub(crate) fn recorded(&self) -> QueueValues {
        let kind = match self.kind {
            Kind::Percpu => record::QueueKind::Percpu,
            Kind::Bh => record::QueueKind::Bh,
            Kind::Unbound => record::QueueKind::Unbound,
            Kind::Managed => record::QueueKind::Managed,
            Kind::Ordered => record::QueueKind::Ordered,
        };
        QueueValues { kind, flags: flags_word(self), total: self.total }
    }
}

/// The kernel's bits of a queue's flags.
fn flags_word(spec: &Spec) -> u64 {
    let kind = match spec.kind {
        Kind::Bh => 1 << 0 | 1 << 8,
        Kind::Percpu => 1 << 8,
        Kind::Unbound | Kind::Managed => 1 << 1,
        Kind::Ordered => 1 << 1 | 1 << 17,
    };
    let bits = [
        (spec.freezable, 2),
        (spec.mem_reclaim, 3),
        (spec.highpri, 4),
        (spec.cpu_intensive, 5),
        (spec.legacy, 18),
    ];
    bits.into_iter().filter(|(is_set, _)| *is_set).fold(kind, |bits, (_, bit)| bits | 1 << bit)
}

impl TracedPool for Pool {
    type Queue = Wq;

    #[inline]
    fn id(&self) -> u32 {
        self.id.0
    }

    fn cpu(&self) -> Option<u32> {
        match self.kind {
            PoolKind::Cpu(cpu) | PoolKind::Bh(cpu) => Some(cpu),
            PoolKind::Unbound | PoolKind::Managed => None,
        }
    }

    fn queue(&self, key: WqKey) -> Option<Arc<Wq>> {
        self.runtime.wq(key)
    }
}

impl TracedQueue for Wq {
    #[inline]
    fn key(&self) -> u32 {
        self.key.0
    }

    #[inline]
    fn name(&self) -> &str {
        &self.name
    }

    fn is_new_to(&self, session: u32) -> bool {
        Self::is_new_to(self, session)
    }
}
