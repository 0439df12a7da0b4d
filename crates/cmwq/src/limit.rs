//! `max_active` of unbound and managed queues: one limit for the system, split over NUMA nodes,
//! shared by the pods of a node.

use cmwq_core::{NodeSlots, NodeState, PwqRef, consts};

use std::collections::VecDeque;

use crate::sync::{Arc, AtomicU32, Mutex, Ordering, lock, seq_cst_fence};

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
    nr: AtomicU32,
    max: u32,
    nr_waiting: AtomicU32,
    line: Mutex<VecDeque<PwqRef>>,
}

impl NodeLimit {
    pub(crate) fn new(max: u32) -> Self {
        Self {
            nr: AtomicU32::new(0),
            max,
            nr_waiting: AtomicU32::new(0),
            line: Mutex::new(VecDeque::new()),
        }
    }

    fn take(&self) -> bool {
        // ORDERING: no pairing: the count guards no data; see the fences for who sees whom.
        let taken = self.nr.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |nr| {
            (nr < self.max).then_some(nr + 1)
        });
        taken.is_ok()
    }

    #[cold]
    fn wait(&self, who: PwqRef) -> bool {
        let mut line = lock(&self.line);
        line.push_back(who);
        // ORDERING: the fence pairs with the one in `put`.
        self.nr_waiting.fetch_add(1, Ordering::Relaxed);
        seq_cst_fence("limit_wait");
        if line.len() > 1 || !self.take() {
            return false;
        }
        line.pop_back();
        self.nr_waiting.fetch_sub(1, Ordering::Relaxed);
        true
    }

    #[cold]
    fn hand_over(&self) -> Option<PwqRef> {
        let mut line = lock(&self.line);
        if line.is_empty() || !self.take() {
            return None;
        }
        self.nr_waiting.fetch_sub(1, Ordering::Relaxed);
        line.pop_front()
    }
}

impl NodeSlots for NodeLimit {
    fn try_get(&self, who: PwqRef) -> bool {
        // No queue jumping: while others wait, one waits behind them.
        // ORDERING: no pairing: a hint; `wait` decides under the lock.
        let nobody_waits = self.nr_waiting.load(Ordering::Relaxed) == 0;
        (nobody_waits && self.take()) || self.wait(who)
    }

    fn may_keep(&self, is_waiting: bool) -> bool {
        // ORDERING: no pairing: no slot is freed, so nobody can miss one; fairness may be a moment
        // late.
        self.nr_waiting.load(Ordering::Relaxed) <= u32::from(is_waiting)
            && self.nr.load(Ordering::Relaxed) <= self.max
    }

    fn leave(&self, who: PwqRef) -> bool {
        let mut line = lock(&self.line);
        let Some(at) = line.iter().position(|&pwq| pwq == who) else { return false };
        line.remove(at);
        self.nr_waiting.fetch_sub(1, Ordering::Relaxed);
        true
    }

    fn put(&self) -> Option<PwqRef> {
        // ORDERING: the fence pairs with the one in `wait`.
        self.nr.fetch_sub(1, Ordering::Relaxed);
        seq_cst_fence("limit_put");
        if self.nr_waiting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.hand_over()
    }
}

/// The limits of one queue, by slot.
#[derive(Debug)]
pub(crate) enum NodeLimits {
    /// Every slot has the whole limit to itself: per-CPU and ordered queues, and machines with one
    /// pod.
    Each(u32),
    /// By slot: the slot's node has this share, and the slot shares it with others, or not.
    ByNode(Vec<(u32, Option<Arc<NodeLimit>>)>),
}

impl NodeLimits {
    /// Splits `max_active` over the nodes of the pods, each given as `(node, CPUs)`.
    pub(crate) fn split(max_active: u32, pods: &[(Option<u32>, u32)]) -> Self {
        if pods.len() <= 1 {
            return Self::Each(max_active);
        }
        let min_active = max_active.min(consts::WQ_DFL_MIN_ACTIVE);
        let total: u32 = pods.iter().map(|(_, cpus)| cpus).sum();
        let mut nodes: Vec<(Option<u32>, Arc<NodeLimit>, u32, u32)> = Vec::new();
        for &(node, _) in pods {
            if nodes.iter().any(|(known, ..)| *known == node) {
                continue;
            }
            let here = pods.iter().filter(|(other, _)| *other == node);
            let (members, cpus) = here.fold((0, 0), |(n, sum), (_, cpus)| (n + 1, sum + cpus));
            // A pod that spans nodes gets the whole limit.
            let share = match node {
                Some(_) => NodeState::share(max_active, min_active, cpus, total),
                None => max_active,
            };
            nodes.push((node, Arc::new(NodeLimit::new(share)), share, members));
        }
        let by_slot = pods.iter().filter_map(|(node, _)| {
            let (_, limit, share, members) = nodes.iter().find(|(known, ..)| known == node)?;
            Some((*share, (*members > 1).then(|| Arc::clone(limit))))
        });
        Self::ByNode(by_slot.collect())
    }

    /// The limit of a pwq in `slot`, and what it shares.
    pub(crate) fn of(&self, slot: usize) -> (u32, Option<Arc<NodeLimit>>) {
        match self {
            Self::Each(max_active) => (*max_active, None),
            Self::ByNode(slots) => slots[slot].clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pod_has_the_whole_limit() {
        let limits = NodeLimits::split(16, &[(Some(0), 2)]);
        assert!(matches!(limits.of(0), (16, None)));
    }

    #[test]
    fn pods_of_a_node_share_and_nodes_split() {
        let limits = NodeLimits::split(100, &[(Some(0), 6), (Some(0), 6), (Some(1), 4)]);
        let ((a, first), (b, second), (c, alone)) = (limits.of(0), limits.of(1), limits.of(2));
        assert_eq!((a, b, c), (75, 75, 25));
        assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
        assert!(alone.is_none(), "a node with one pod needs no shared count");
    }

    #[test]
    fn a_small_share_is_raised_to_min_active() {
        let limits = NodeLimits::split(16, &[(Some(0), 15), (Some(1), 1)]);
        assert_eq!(limits.of(1).0, consts::WQ_DFL_MIN_ACTIVE);
    }
}
