//! Queues in the form in which the mapping and the trace have them.

use super::{Kind, Spec, Wq};
use crate::record::trace::TracedQueue;
use crate::record::{self, QueueValues};

impl Spec {
    pub(crate) fn recorded(&self) -> QueueValues {
        let kind = match self.kind {
            Kind::Percpu => record::QueueKind::Percpu,
            Kind::Bh => record::QueueKind::Bh,
            Kind::Unbound => record::QueueKind::Unbound,
            Kind::Managed => record::QueueKind::Managed,
            Kind::Ordered => record::QueueKind::Ordered,
        };
        QueueValues { kind, flags: flags_word(self), total: self.limits().total() }
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

impl TracedQueue for Wq {
    #[inline]
    fn key(&self) -> u32 {
        self.key.0
    }

    #[inline]
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn is_new_to(&self, session: u32) -> bool {
        Self::is_new_to(self, session)
    }

    fn is_named_to(&self, session: u32) {
        Self::is_named_to(self, session);
    }
}
