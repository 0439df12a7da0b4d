//! The limits that the pwqs of a queue share: which, and what each is.

use std::sync::Arc;

use super::node::Memory;
use crate::limit::{Limits, NodeCpus, NodeLimits};
use crate::place::QueueKind;
use crate::{NodeLimit, NodeSlots, PoolId, PwqId, PwqRef};

const SMALL: [NodeCpus; 1] = [(Some(0), 2)];

fn of(
    nodes: &mut NodeLimits<Memory>,
    limits: &Limits,
    node: Option<u32>,
    cpus: &[NodeCpus],
) -> Option<Arc<NodeLimit<Memory>>> {
    nodes.of(limits, node, false, cpus.iter().copied(), |_| Memory::default())
}

fn share_of(limits: &Limits, node: Option<u32>, cpus: &[NodeCpus]) -> u32 {
    of(&mut NodeLimits::new(), limits, node, cpus).expect("shared").max()
}

#[test]
fn a_percpu_queue_shares_nothing() {
    let limits = Limits::of(QueueKind::Percpu, 16, None);
    assert!(of(&mut NodeLimits::new(), &limits, Some(0), &SMALL).is_none());
    assert_eq!((limits.own(false), limits.own(true)), (16, 0));
}

#[test]
fn a_percpu_queue_may_have_a_limit_for_all_cpus() {
    let (limits, mut nodes) = (Limits::of(QueueKind::Percpu, 16, Some(3)), NodeLimits::new());
    assert_eq!(limits.own(false), 16, "on each CPU");
    let [one, other] =
        [Some(0), Some(1)].map(|node| of(&mut nodes, &limits, node, &SMALL).expect("shared"));
    assert!(Arc::ptr_eq(&one, &other), "whatever the node");
    assert_eq!(one.max(), 3);
    assert_eq!(nodes.adjust(&limits, true, SMALL).len(), 1);
    assert_eq!(one.max(), 0, "frozen");
}

#[test]
fn each_pwq_is_told_of_the_limit_that_it_has_by_itself() {
    let tells = |kind, total| Limits::of(kind, 16, total).tells_each();
    assert!(tells(QueueKind::Percpu, None) && tells(QueueKind::Percpu, Some(3)));
    assert!(tells(QueueKind::Ordered, None), "that it is frozen");
    assert!(!tells(QueueKind::Unbound, None) && !tells(QueueKind::Managed, None));
}

#[test]
fn pods_of_a_node_share_and_nodes_split() {
    let cpus = [(Some(0), 6), (Some(0), 6), (Some(1), 4)];
    let (limits, mut nodes) = (Limits::of(QueueKind::Unbound, 100, None), NodeLimits::new());
    let [first, second] =
        [(); 2].map(|()| of(&mut nodes, &limits, Some(0), &cpus).expect("shared"));
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(share_of(&limits, Some(0), &cpus), 75);
    assert_eq!(share_of(&limits, Some(1), &cpus), 25);
    assert_eq!(share_of(&limits, None, &cpus), 100, "a pod that spans nodes");
}

#[test]
fn a_changed_limit_is_handed_out() {
    let cpus = [(Some(0), 15), (Some(1), 1)];
    let (mut limits, mut nodes) = (Limits::of(QueueKind::Unbound, 16, None), NodeLimits::new());
    let small = of(&mut nodes, &limits, Some(1), &cpus).expect("shared");
    assert_eq!(small.max(), 8, "WQ_DFL_MIN_ACTIVE");
    limits.set_min_active(3);
    let _ = nodes.adjust(&limits, false, cpus);
    assert_eq!(small.max(), 3);
}

#[test]
fn what_waits_on_a_node_that_the_queue_leaves_runs_without_a_minimum() {
    let (mut limits, mut nodes) = (Limits::of(QueueKind::Unbound, 4, None), NodeLimits::new());
    limits.set_min_active(0);
    let left = of(&mut nodes, &limits, Some(1), &[(Some(0), 2), (Some(1), 2)]).expect("shared");
    let who = |pwq| PwqRef { pool: PoolId(1), pwq: PwqId(pwq) };
    assert!(left.try_get(who(0)) && left.try_get(who(1)), "half of the limit");
    assert!(!left.try_get(who(2)));
    let _ = nodes.adjust(&limits, false, [(Some(0), 2), (Some(1), 0)]);
    assert_eq!(left.put(), None, "one slot too many was out");
    assert_eq!(left.put(), Some(who(2)));
}

#[test]
fn a_frozen_queue_admits_nothing_and_a_raised_limit_is_handed_out() {
    let (limits, mut nodes) = (Limits::of(QueueKind::Unbound, 1, None), NodeLimits::new());
    let limit = nodes.of(&limits, Some(0), true, SMALL, |_| Memory::default()).expect("shared");
    let who = |pwq| PwqRef { pool: PoolId(0), pwq: PwqId(pwq) };
    assert!(!limit.try_get(who(0)) && !limit.try_get(who(1)));
    assert_eq!(limit.hand_over(), None, "frozen");
    let _ = nodes.adjust(&limits, false, SMALL);
    assert_eq!(limit.hand_over(), Some(who(0)));
    assert_eq!(limit.hand_over(), None, "one slot");
    assert_eq!(limit.put(), Some(who(1)));
}
