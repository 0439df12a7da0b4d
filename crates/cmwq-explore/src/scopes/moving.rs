//! Scopes about pwqs that are replaced, and limits that are shared.

use super::workers::blocking;
use super::{NONE, programs};
use crate::scope::Op::{
    Apply, Cancel, CancelSync, FlushQueue, Queue, SetMaxActive, SetMinActive, WaitFor,
};
use crate::scope::{Kind, PoolSpec, QueueSpec, Scope};
use cmwq_core::Sharing;

/// Attributes change there and back, with items that wait for items.
pub(super) fn attributes() -> Scope {
    Scope {
        name: "attributes",
        about: "an unbound queue moves to another pool and back while items wait",
        pools: vec![PoolSpec::unbound(2), PoolSpec::unbound(2)],
        queues: vec![QueueSpec::new(Kind::Unbound, &[0], 3)],
        items: programs(&[&[WaitFor(1)], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), FlushQueue(0)],
            &[Apply(0, 1), Apply(0, 0)],
            &[Queue(0, 0, 0)],
        ]),
        faults: NONE,
        ..blocking()
    }
}

/// An ordered queue whose attributes change.
pub(super) fn ordered() -> Scope {
    Scope {
        name: "ordered",
        about: "an ordered queue moves to another pool and back, and keeps its order",
        queues: vec![QueueSpec::new(Kind::Ordered, &[0], 1)],
        items: programs(&[&[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), FlushQueue(0)],
            &[Apply(0, 1), Apply(0, 0)],
            &[Queue(2, 0, 0), Cancel(1)],
        ]),
        ..attributes()
    }
}

/// An item of an ordered queue that moves is queued again behind its run, and taken back.
pub(super) fn ordered_taken_back() -> Scope {
    Scope {
        name: "ordered-taken-back",
        about: "who takes an item back waits for its run at a pool that its ordered queue has left",
        items: programs(&[&[]]),
        clients: programs(&[&[Queue(0, 0, 0), Apply(0, 1), Queue(0, 0, 0), CancelSync(0)]]),
        ..ordered()
    }
}

/// One item on an ordered queue that moves, and one behind it.
pub(super) fn retiring() -> Scope {
    Scope {
        name: "retiring",
        about: "an ordered queue's new pwq waits until the old one has drained",
        items: programs(&[&[], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(1, 0, 0)], &[Apply(0, 1)]]),
        ..ordered()
    }
}

/// A limit that two pools share.
pub(super) fn node() -> Scope {
    Scope {
        name: "node",
        about: "two pools share a limit, which changes; items are taken back",
        pools: vec![PoolSpec::per_cpu(2), PoolSpec::per_cpu(2)],
        queues: vec![QueueSpec::split(Kind::Percpu, &[0, 1], 1)],
        items: programs(&[&[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 1)],
            &[Queue(2, 0, 0), Cancel(1)],
            &[SetMaxActive(0, 2), FlushQueue(0)],
        ]),
        faults: NONE,
        ..blocking()
    }
}

/// A limit of each pool, which changes, and another one that both share.
pub(super) fn total() -> Scope {
    let queue = QueueSpec::new(Kind::Percpu, &[0, 1], 1);
    let queue = QueueSpec { sharing: Sharing::Total(2), ..queue };
    Scope {
        name: "total",
        about: "two pools with limits of their own, which change, share another one",
        queues: vec![queue],
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), FlushQueue(0)],
            &[Queue(2, 0, 1), Cancel(1)],
            &[SetMaxActive(0, 2)],
        ]),
        ..node()
    }
}

/// A limit is split over two nodes, each of which may run so many at least. The item that is waited
/// for is behind the part of its node until that rises.
pub(super) fn split() -> Scope {
    Scope {
        name: "split",
        about: "a limit is split over two nodes, and changes, as does what each runs at least",
        pools: vec![PoolSpec::per_cpu(2), PoolSpec::per_cpu(2).on_node(1)],
        queues: vec![QueueSpec::split(Kind::Percpu, &[0, 1, 1], 4)],
        items: programs(&[&[WaitFor(1)], &[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 1), Queue(2, 0, 0)],
            &[Queue(3, 0, 1), Queue(1, 0, 2), Cancel(3)],
            &[SetMaxActive(0, 1), SetMaxActive(0, 2), SetMinActive(0, 2)],
        ]),
        ..node()
    }
}

/// The queue goes from the one node to the other, with an item that waits for one behind it.
pub(super) fn split_and_attributes() -> Scope {
    Scope {
        name: "split-attributes",
        about: "a queue moves from one node to another while what each runs at least changes",
        pools: vec![PoolSpec::unbound(2), PoolSpec::unbound(2).on_node(1)],
        queues: vec![QueueSpec::split(Kind::Unbound, &[0, 0], 2)],
        items: programs(&[&[WaitFor(1)], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(1, 0, 1)], &[Apply(0, 1), SetMinActive(0, 2)]]),
        ..attributes()
    }
}

/// Pwqs leave while they stand in line for a slot.
pub(super) fn node_and_attributes() -> Scope {
    Scope {
        name: "node-attributes",
        about: "a queue with a shared limit moves to another pool while slots are handed over",
        queues: vec![QueueSpec::split(Kind::Unbound, &[0, 0], 1)],
        items: programs(&[&[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Cancel(0)],
            &[Apply(0, 1)],
            &[Queue(1, 0, 1), Queue(0, 0, 1)],
        ]),
        ..attributes()
    }
}
