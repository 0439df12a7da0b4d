//! Showing a part of what there is far too much of.
//!
//! A process may have tens of thousands of queues, pools and workers, or say that it has. What is
//! left out is counted and told; `--all` shows it.

use std::collections::BTreeSet;

use cmwq_observe::inspect::Snapshot;
use serde::Serialize;

/// LIMIT: queues.
const MOST_QUEUES: usize = 1000;
/// LIMIT: queues times CPUs, since each queue has a pool for each CPU.
const MOST_CELLS: usize = 1 << 18;
/// LIMIT: pools, and pods of all scopes.
const MOST_POOLS: usize = 1000;
const MOST_PODS: usize = 5000;
/// LIMIT: nodes of the machine.
const MOST_NODES: usize = 256;
/// LIMIT: workers.
const MOST_WORKERS: usize = 2000;

/// How many things are not shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) workqueues: usize,
    pub(crate) pools: usize,
    pub(crate) pods: usize,
    pub(crate) nodes: usize,
    pub(crate) workers: usize,
}

impl LeftOut {
    /// Of all kinds.
    pub(crate) fn count(&self) -> u64 {
        (self.workqueues + self.pools + self.pods + self.nodes + self.workers) as u64
    }

    /// A sentence about them, if there are any.
    pub(crate) fn words(&self) -> Option<String> {
        let counts = [
            (self.workqueues, "workqueues"),
            (self.pools, "pools"),
            (self.pods, "pods"),
            (self.nodes, "nodes"),
            (self.workers, "workers"),
        ];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!counts.is_empty()).then(|| format!("Left out: {}. --all shows all.", counts.join(", ")))
    }
}

/// Leaves out what is too much.
pub(crate) fn limit(seen: &mut Snapshot) -> LeftOut {
    let cpus = seen.possible.iter().count().max(1);
    let queues = MOST_QUEUES.min(MOST_CELLS / cpus).max(1);
    LeftOut {
        workqueues: cut(&mut seen.queues, queues),
        pools: cut(&mut seen.pools, MOST_POOLS),
        pods: cut(&mut seen.pods, MOST_PODS),
        nodes: cut_nodes(seen),
        workers: cut(&mut seen.workers, MOST_WORKERS),
    }
}

/// Keeps the first so many. How many there were more.
pub(crate) fn cut<T>(of: &mut Vec<T>, most: usize) -> usize {
    let more = of.len().saturating_sub(most);
    of.truncate(most);
    more
}

/// Keeps the nodes with the lowest numbers.
fn cut_nodes(seen: &mut Snapshot) -> usize {
    let of_pods = seen.pods.iter().filter_map(|pod| pod.node);
    let numbers: BTreeSet<u32> =
        of_pods.chain(seen.nodes.iter().filter_map(|node| node.node)).collect();
    let Some(end) = numbers.iter().nth(MOST_NODES).copied() else { return 0 };
    seen.nodes.retain(|node| node.node.is_none_or(|node| node < end));
    for pod in &mut seen.pods {
        pod.node = pod.node.filter(|node| *node < end);
    }
    numbers.len() - MOST_NODES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_and_told() {
        let mut numbers: Vec<u32> = (0..5).collect();
        assert_eq!((cut(&mut numbers, 3), numbers.len()), (2, 3));
        assert_eq!((cut(&mut numbers, 3), numbers.len()), (0, 3));
        let left_out = LeftOut { workqueues: 7, workers: 1, ..LeftOut::default() };
        let words = left_out.words().unwrap();
        assert_eq!(words, "Left out: 7 workqueues, 1 workers. --all shows all.");
        assert_eq!((left_out.count(), LeftOut::default().words()), (8, None));
    }
}
