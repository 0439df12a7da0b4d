//! The limits that the pwqs of a queue share, as long as the queue is there.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Limits, NodeCpus, NodeLimit, NodeMemory};

/// By node, each made with the first pwq there; what is for all CPUs, or for pods that lie in no
/// single node, has no node. They stay as long as the queue, since their counts outlive a change of
/// attributes. Lock: WQ.
#[derive(Debug)]
pub struct NodeLimits<M>(Vec<(Option<u32>, Arc<NodeLimit<M>>)>);

impl<M> NodeLimits<M> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<NodeLimit<M>>> {
        self.0.iter().map(|(_, limit)| limit)
    }
}

impl<M> Default for NodeLimits<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: NodeMemory> NodeLimits<M> {
    /// The limit that a new pwq shares whose pod lies on `node`, if it shares one. `cpus`: as for
    /// [`Limits::share`]; `memory`: for a limit that is made now.
    #[must_use]
    pub fn of(
        &mut self,
        limits: &Limits,
        node: Option<u32>,
        is_frozen: bool,
        cpus: impl IntoIterator<Item = NodeCpus>,
        memory: impl FnOnce(Option<u32>) -> M,
    ) -> Option<Arc<NodeLimit<M>>> {
        let node = limits.shared_by(node)?;
        if let Some((_, limit)) = self.0.iter().find(|(known, _)| *known == node) {
            return Some(Arc::clone(limit));
        }
        let share = limits.share(is_frozen, node, cpus);
        let limit = Arc::new(NodeLimit::new(share, memory(node)));
        self.0.push((node, Arc::clone(&limit)));
        Some(limit)
    }

    /// Gives each its share anew: limits have changed, or CPUs, or whether the queue is frozen.
    /// Returns those that may have slots to [hand over](NodeLimit::hand_over).
    #[must_use]
    pub fn adjust(
        &self,
        limits: &Limits,
        is_frozen: bool,
        cpus: impl IntoIterator<Item = NodeCpus> + Clone,
    ) -> Vec<Arc<NodeLimit<M>>> {
        for (node, limit) in &self.0 {
            limit.set_max(limits.share(is_frozen, *node, cpus.clone()));
        }
        self.iter().cloned().collect()
    }
}
