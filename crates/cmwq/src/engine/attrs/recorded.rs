//! Attributes in the form in which the mapping has them.

use super::{Attrs, Sched};
use crate::record::QueueSettings;

/// Policy in the upper half, priority in the lower one.
pub(crate) fn sched_word(sched: Sched) -> u64 {
    match sched {
        Sched::Normal => 0,
        Sched::Fifo(priority) => 1 << 32 | u64::from(priority),
        Sched::RoundRobin(priority) => 2 << 32 | u64::from(priority),
        Sched::Deadline { .. } => 6 << 32,
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
