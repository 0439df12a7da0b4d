//! `max_active` of unbound and managed queues: one limit for the system, split over NUMA nodes,
//! shared by the pods of a node.

use std::collections::VecDeque;

use cmwq_core::{NodeSlots, NodeState, PwqRef, consts};
#[cfg(test)]
use cmwq_core::{PoolId, PwqId};

use crate::engine::wq::Kind;
use crate::observe::hooks::NodeCounts;
use crate::os::sync::{Arc, Mutex, Ordering, fenced_load, in_order, lock, seq_cst_fence, without};

/// A node's share: a count that is taken and given back without a lock while nobody waits for it,
/// and a line of those who wait. Lock: LN, inside of a pool's.
///
/// | taker | giver |
/// |---|---|
/// | 1. stand in line, say that somebody waits | 1. give the slot back |
/// | 2. fence | 2. fence |
/// | 3. try once more to take a slot | 3. does somebody wait? then hand him a slot |
#[derive(Debug)]
pub(crate) struct NodeLimit {
    /// Of these the limit is written under the queue's lock (WQ).
    counts: NodeCounts,
    line: Mutex<VecDeque<PwqRef>>,
}

impl NodeLimit {
    #[cfg(all(test, cmwq_loom))]
    pub(crate) fn new(max: u32) -> Self {
        Self::shown(max, NodeCounts::default())
    }

    /// With its counts where others can see them.
    fn shown(max: u32, counts: NodeCounts) -> Self {
        // ORDERING: no pairing: nobody knows it yet.
        counts.max().store(max.into(), Ordering::Relaxed);
        Self { counts, line: Mutex::new(VecDeque::new()) }
    }

    #[cfg(test)]
    pub(crate) fn max(&self) -> u64 {
        // ORDERING: no pairing: a test, with one thread.
        self.counts.max().load(Ordering::Relaxed)
    }

    fn take(&self) -> bool {
        // ORDERING: no pairing: the count guards no data; see the fences for who sees whom.
        let max = self.counts.max().load(Ordering::Relaxed);
        let taken = self
            .counts
            .nr()
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |nr| (nr < max).then_some(nr + 1));
        taken.is_ok()
    }

    /// Changes the limit. After it was raised, whoever waits is to be [given](Self::hand_over) the
    /// new slots: one who stands in line before that is found there, one who comes later tries once
    /// more under the line's lock and finds the new limit.
    pub(crate) fn set_max(&self, max: u32) {
        // ORDERING: no pairing of its own: the line's lock, which `hand_over` takes after this,
        // brings it to those who stand in line later.
        self.counts.max().store(max.into(), Ordering::Relaxed);
    }

    #[cold]
    fn wait(&self, who: PwqRef) -> bool {
        let mut line = lock(&self.line);
        line.push_back(who);
        // ORDERING: the fence pairs with the one in `put`.
        self.counts.nr_waiting().fetch_add(1, Ordering::Relaxed);
        seq_cst_fence("limit_wait");
        if line.len() > 1 || !self.take() {
            return false;
        }
        line.pop_back();
        self.counts.nr_waiting().fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Gives a free slot to the first in line, who then owns it.
    #[cold]
    pub(crate) fn hand_over(&self) -> Option<PwqRef> {
        // A look at the count instead would miss who is just about to wait.
        let is_empty = || self.counts.nr_waiting().load(Ordering::Relaxed) == 0;
        if without("limit_hand_over.lock") && is_empty() {
            return None;
        }
        let mut line = lock(&self.line);
        if line.is_empty() || !self.take() {
            return None;
        }
        self.counts.nr_waiting().fetch_sub(1, Ordering::Relaxed);
        line.pop_front()
    }
}

impl NodeSlots for NodeLimit {
    fn try_get(&self, who: PwqRef) -> bool {
        // No queue jumping: while others wait, one waits behind them.
        // ORDERING: no pairing: a hint; `wait` decides under the lock.
        let nobody_waits = self.counts.nr_waiting().load(Ordering::Relaxed) == 0;
        (nobody_waits && self.take()) || self.wait(who)
    }

    fn may_keep(&self, is_waiting: bool, kept: u32) -> bool {
        // ORDERING: no pairing: no slot is freed, so nobody can miss one; fairness may be a moment
        // late.
        let [nr, max, nr_waiting] = [self.counts.nr(), self.counts.max(), self.counts.nr_waiting()]
            .map(|count| count.load(Ordering::Relaxed));
        NodeState::keeps(nr as u32, max as u32, nr_waiting <= u64::from(is_waiting), kept)
    }

    fn leave(&self, who: PwqRef) -> bool {
        let mut line = lock(&self.line);
        let Some(at) = line.iter().position(|&pwq| pwq == who) else { return false };
        line.remove(at);
        self.counts.nr_waiting().fetch_sub(1, Ordering::Relaxed);
        true
    }

    fn put(&self) -> Option<PwqRef> {
        // ORDERING: the two pair with the fence in `wait`.
        self.counts.nr().fetch_sub(1, in_order());
        if self.counts.nr_waiting().load(fenced_load("limit_put")) == 0 {
            return None;
        }
        self.hand_over()
    }
}

/// A node of the machine, or `None` for pods that no node holds, and the CPUs that a queue may use
/// there.
pub(crate) type NodeCpus = (Option<u32>, u32);

/// Whether `max_active` of such queues is for the whole system, split over nodes.
fn splits(kind: Kind) -> bool {
    matches!(kind, Kind::Unbound | Kind::Managed)
}

/// What a queue allows itself. Lock: WQ.
#[derive(Debug)]
pub(crate) struct Limits {
    /// `max_active` is for the whole system, split over nodes; else for each pwq: per-CPU and
    /// ordered queues.
    is_split: bool,
    max_active: u32,
    min_active: u32,
    /// For all pwqs of a queue together that are not limited together otherwise.
    total: Option<u32>,
    /// By node, once a pwq is there; with a `total`, one without a node. They stay: what they count
    /// outlives a change of attributes.
    nodes: Vec<(Option<u32>, Arc<NodeLimit>)>,
}

impl Limits {
    /// Whether the pools of such a queue share a limit.
    pub(crate) fn are_shared(kind: Kind, total: Option<u32>) -> bool {
        splits(kind) || total.is_some()
    }

    pub(crate) fn new(kind: Kind, max_active: u32, total: Option<u32>) -> Self {
        let max_active = if kind == Kind::Ordered { 1 } else { max_active };
        Self {
            is_split: splits(kind),
            max_active,
            min_active: max_active.min(consts::WQ_DFL_MIN_ACTIVE),
            total,
            nodes: Vec::new(),
        }
    }

    pub(crate) fn max_active(&self) -> u32 {
        self.max_active
    }

    pub(crate) fn min_active(&self) -> u32 {
        self.min_active
    }

    /// KERNEL: `workqueue_set_max_active` — same: the lower limit gives way.
    pub(crate) fn set_max_active(&mut self, max_active: u32) {
        self.max_active = max_active;
        self.min_active = self.min_active.min(max_active);
    }

    /// KERNEL: `workqueue_set_min_active` — same.
    pub(crate) fn set_min_active(&mut self, min_active: u32) {
        self.min_active = min_active.min(self.max_active);
    }

    /// The limit of a new pwq whose pod is on `node`: its own, and the one it shares. A frozen
    /// queue admits nothing. `counts` makes those of a new node.
    pub(crate) fn of(
        &mut self,
        node: Option<u32>,
        is_frozen: bool,
        cpus: &[NodeCpus],
        counts: impl FnOnce(Option<u32>) -> NodeCounts,
    ) -> (u32, Option<Arc<NodeLimit>>) {
        let node = node.filter(|_| self.is_split);
        let own = self.own(is_frozen);
        if !self.is_split && self.total.is_none() {
            return (own, None);
        }
        if let Some((_, limit)) = self.nodes.iter().find(|(known, _)| *known == node) {
            return (own, Some(Arc::clone(limit)));
        }
        let limit = Arc::new(NodeLimit::shown(self.share(node, is_frozen, cpus), counts(node)));
        self.nodes.push((node, Arc::clone(&limit)));
        (own, Some(limit))
    }

    /// Whether `max_active` is split over nodes.
    pub(crate) fn is_split(&self) -> bool {
        self.is_split
    }

    /// The limit of each pwq by itself.
    pub(crate) fn own(&self, is_frozen: bool) -> u32 {
        match (self.is_split, is_frozen) {
            (true, _) => u32::MAX,
            (false, true) => 0,
            (false, false) => self.max_active,
        }
    }

    /// Applies changed limits or CPUs to all nodes. Returns those that may have slots to hand over.
    ///
    /// KERNEL: `wq_update_node_max_active` — same.
    pub(crate) fn adjust(&self, is_frozen: bool, cpus: &[NodeCpus]) -> Vec<Arc<NodeLimit>> {
        for (node, limit) in &self.nodes {
            limit.set_max(self.share(*node, is_frozen, cpus));
        }
        self.nodes.iter().map(|(_, limit)| Arc::clone(limit)).collect()
    }

    fn share(&self, node: Option<u32>, is_frozen: bool, cpus: &[NodeCpus]) -> u32 {
        if is_frozen {
            return 0;
        }
        if let Some(total) = self.total.filter(|_| !self.is_split) {
            return total;
        }
        // A pod that spans nodes has the whole limit.
        let Some(_) = node else { return self.max_active };
        let total = cpus.iter().map(|(_, cpus)| cpus).sum();
        let here = cpus.iter().filter(|(known, _)| *known == node).map(|(_, cpus)| cpus).sum();
        NodeState::share(self.max_active, self.min_active, here, total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(_: Option<u32>) -> NodeCounts {
        NodeCounts::default()
    }

    fn share_of(limits: &mut Limits, node: Option<u32>, cpus: &[NodeCpus]) -> u64 {
        let (_, limit) = limits.of(node, false, cpus, own);
        limit.expect("shared").counts.max().load(Ordering::Relaxed)
    }

    #[test]
    fn a_percpu_queue_shares_nothing() {
        let mut limits = Limits::new(Kind::Percpu, 16, None);
        assert!(matches!(limits.of(Some(0), false, &[], own), (16, None)));
        assert!(matches!(limits.of(Some(0), true, &[], own), (0, None)));
    }

    #[test]
    fn an_ordered_queue_has_one_of_each() {
        let limits = Limits::new(Kind::Ordered, 256, None);
        assert_eq!((limits.max_active(), limits.min_active()), (1, 1));
    }

    #[test]
    fn a_percpu_queue_may_have_a_limit_for_all_cpus() {
        let mut limits = Limits::new(Kind::Percpu, 16, Some(3));
        let [one, other] = [Some(0), Some(1)].map(|node| limits.of(node, false, &[], own));
        assert_eq!((one.0, other.0), (16, 16), "on each CPU");
        let (one, other) = (one.1.unwrap(), other.1.unwrap());
        assert!(Arc::ptr_eq(&one, &other), "whatever the node");
        assert_eq!(one.counts.max().load(Ordering::Relaxed), 3);
        limits.adjust(true, &[]);
        assert_eq!(one.counts.max().load(Ordering::Relaxed), 0, "frozen");
    }

    #[test]
    fn pods_of_a_node_share_and_nodes_split() {
        let cpus = [(Some(0), 6), (Some(0), 6), (Some(1), 4)];
        let mut limits = Limits::new(Kind::Unbound, 100, None);
        let [first, second] = [(); 2].map(|()| limits.of(Some(0), false, &cpus, own).1);
        assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
        assert_eq!(share_of(&mut limits, Some(0), &cpus), 75);
        assert_eq!(share_of(&mut limits, Some(1), &cpus), 25);
        assert_eq!(share_of(&mut limits, None, &cpus), 100, "a pod that spans nodes");
    }

    #[test]
    fn a_small_share_is_raised_to_min_active() {
        let cpus = [(Some(0), 15), (Some(1), 1)];
        let mut limits = Limits::new(Kind::Unbound, 16, None);
        assert_eq!(share_of(&mut limits, Some(1), &cpus), consts::WQ_DFL_MIN_ACTIVE.into());
        limits.set_min_active(3);
        limits.adjust(false, &cpus);
        assert_eq!(share_of(&mut limits, Some(1), &cpus), 3);
        limits.set_max_active(2);
        assert_eq!(limits.min_active(), 2, "min_active gives way");
    }

    #[test]
    fn a_frozen_queue_admits_nothing_and_a_raised_limit_is_handed_out() {
        let cpus = [(Some(0), 2)];
        let mut limits = Limits::new(Kind::Unbound, 1, None);
        let (_, limit) = limits.of(Some(0), true, &cpus, own);
        let (limit, who) = (limit.unwrap(), |pwq| PwqRef { pool: PoolId(0), pwq: PwqId(pwq) });
        assert!(!limit.try_get(who(0)) && !limit.try_get(who(1)));
        assert_eq!(limit.hand_over(), None, "frozen");
        limits.adjust(false, &cpus);
        assert_eq!(limit.hand_over(), Some(who(0)));
        assert_eq!(limit.hand_over(), None, "one slot");
        assert_eq!(limit.put(), Some(who(1)));
    }
}
