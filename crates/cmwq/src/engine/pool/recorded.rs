//! Pools in the form in which the mapping and the trace have them.

use cmwq_core::WqKey;

use super::{Pool, PoolKind, PoolSpec};
use crate::engine::tools::attrs::sched_word;
use crate::engine::wq::Wq;
use crate::os::sync::Arc;
use crate::record::trace::TracedPool;
use crate::record::{self, PoolValues};

impl PoolSpec {
    /// `may_stray`: the scheduler may move the pool's workers out of its pod.
    pub(crate) fn recorded(&self, may_stray: bool, concurrency: u32) -> PoolValues<'_> {
        let (kind, cpu) = match self.kind {
            PoolKind::Cpu(cpu) => (record::PoolKind::Cpu, Some(cpu)),
            PoolKind::Bh(cpu) => (record::PoolKind::Bh, Some(cpu)),
            PoolKind::Unbound => (record::PoolKind::Unbound, None),
            PoolKind::Managed => (record::PoolKind::Managed, None),
        };
        PoolValues {
            kind,
            cpu,
            nice: self.priority.nice,
            sched: sched_word(self.priority.sched),
            cpus: &self.cpus,
            pod: &self.pod,
            node: self.node,
            concurrency,
            is_strict: self.is_strict,
            may_stray,
        }
    }
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
