//! The limits of a queue as the runtime has them: the core's, and their memory by node.
//!
//! Why: docs/decisions/limits-count-together.md

use std::ops::DerefMut;

pub(crate) use cmwq_core::limit::NodeCpus;
use cmwq_core::limit::{Count, Line};
use cmwq_core::{Limits, NodeMemory};

use crate::os::sync::{Arc, AtomicU64, Mutex, lock};
use crate::record::NodeCounts;

/// The numbers of a node's limit, where tools see them, and its line.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    counts: NodeCounts,
    line: Mutex<Line>,
}

impl NodeMemory for Memory {
    #[inline]
    fn count(&self, which: Count) -> &AtomicU64 {
        self.counts.count(which)
    }

    fn line(&self) -> impl DerefMut<Target = Line> {
        lock(&self.line)
    }
}

pub(crate) type NodeLimit = cmwq_core::NodeLimit<Memory>;

/// The limits that the pools of a node share, by node, each made with the first pwq there; a limit
/// for all CPUs has no node. They stay as long as the queue, since their counts outlive a change of
/// attributes. Lock: WQ.
#[derive(Debug, Default)]
pub(crate) struct NodeLimits(Vec<(Option<u32>, Arc<NodeLimit>)>);

impl NodeLimits {
    /// The limit that a new pwq whose pod is on `node` shares. `counts` makes the counters of a new
    /// node.
    pub(crate) fn of(
        &mut self,
        limits: &Limits,
        node: Option<u32>,
        is_frozen: bool,
        cpus: &[NodeCpus],
        counts: impl FnOnce(Option<u32>) -> NodeCounts,
    ) -> Option<Arc<NodeLimit>> {
        let node = limits.shared_by(node)?;
        if let Some((_, limit)) = self.0.iter().find(|(known, _)| *known == node) {
            return Some(Arc::clone(limit));
        }
        let memory = Memory { counts: counts(node), line: Mutex::default() };
        let limit =
            Arc::new(NodeLimit::new(limits.share(is_frozen, node, cpus.iter().copied()), memory));
        self.0.push((node, Arc::clone(&limit)));
        Some(limit)
    }

    /// Applies changed limits or CPUs to all nodes. Returns the limits that may have slots to hand
    /// over.
    pub(crate) fn adjust(
        &self,
        limits: &Limits,
        is_frozen: bool,
        cpus: &[NodeCpus],
    ) -> Vec<Arc<NodeLimit>> {
        for (node, limit) in &self.0 {
            limit.set_max(limits.share(is_frozen, *node, cpus.iter().copied()));
        }
        self.0.iter().map(|(_, limit)| Arc::clone(limit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use cmwq_core::{NodeSlots, PoolId, PwqId, PwqRef};

    use super::*;
    use crate::engine::wq::{Kind, Spec};

    fn limits(kind: Kind, max_active: u32, total: Option<u32>) -> Limits {
        Spec { max_active, total, ..Spec::of(kind) }.limits()
    }

    fn own(_: Option<u32>) -> NodeCounts {
        NodeCounts::default()
    }

    fn share_of(limits: &Limits, node: Option<u32>, cpus: &[NodeCpus]) -> u32 {
        NodeLimits::default().of(limits, node, false, cpus, own).expect("shared").max()
    }

    #[test]
    fn a_percpu_queue_shares_nothing() {
        let limits = limits(Kind::Percpu, 16, None);
        assert!(NodeLimits::default().of(&limits, Some(0), false, &[], own).is_none());
        assert_eq!((limits.own(false), limits.own(true)), (16, 0));
    }

    #[test]
    fn an_ordered_queue_has_one_of_each() {
        let limits = limits(Kind::Ordered, 256, None);
        assert_eq!((limits.max_active(), limits.min_active()), (1, 1));
    }

    #[test]
    fn a_percpu_queue_may_have_a_limit_for_all_cpus() {
        let (limits, mut nodes) = (limits(Kind::Percpu, 16, Some(3)), NodeLimits::default());
        assert_eq!(limits.own(false), 16, "on each CPU");
        let [one, other] =
            [Some(0), Some(1)].map(|node| nodes.of(&limits, node, false, &[], own).unwrap());
        assert!(Arc::ptr_eq(&one, &other), "whatever the node");
        assert_eq!(one.max(), 3);
        nodes.adjust(&limits, true, &[]);
        assert_eq!(one.max(), 0, "frozen");
    }

    #[test]
    fn pods_of_a_node_share_and_nodes_split() {
        let cpus = [(Some(0), 6), (Some(0), 6), (Some(1), 4)];
        let (limits, mut nodes) = (limits(Kind::Unbound, 100, None), NodeLimits::default());
        let [first, second] = [(); 2].map(|()| nodes.of(&limits, Some(0), false, &cpus, own));
        assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
        assert_eq!(share_of(&limits, Some(0), &cpus), 75);
        assert_eq!(share_of(&limits, Some(1), &cpus), 25);
        assert_eq!(share_of(&limits, None, &cpus), 100, "a pod that spans nodes");
    }

    #[test]
    fn a_changed_limit_is_handed_out() {
        let cpus = [(Some(0), 15), (Some(1), 1)];
        let (mut limits, mut nodes) = (limits(Kind::Unbound, 16, None), NodeLimits::default());
        let small = nodes.of(&limits, Some(1), false, &cpus, own).unwrap();
        assert_eq!(small.max(), 8, "WQ_DFL_MIN_ACTIVE");
        limits.set_min_active(3);
        nodes.adjust(&limits, false, &cpus);
        assert_eq!(small.max(), 3);
    }

    #[test]
    fn a_frozen_queue_admits_nothing_and_a_raised_limit_is_handed_out() {
        let cpus = [(Some(0), 2)];
        let (limits, mut nodes) = (limits(Kind::Unbound, 1, None), NodeLimits::default());
        let limit = nodes.of(&limits, Some(0), true, &cpus, own).unwrap();
        let who = |pwq| PwqRef { pool: PoolId(0), pwq: PwqId(pwq) };
        assert!(!limit.try_get(who(0)) && !limit.try_get(who(1)));
        assert_eq!(limit.hand_over(), None, "frozen");
        nodes.adjust(&limits, false, &cpus);
        assert_eq!(limit.hand_over(), Some(who(0)));
        assert_eq!(limit.hand_over(), None, "one slot");
        assert_eq!(limit.put(), Some(who(1)));
    }
}
