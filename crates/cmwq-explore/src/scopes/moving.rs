//! Scopes about pwqs that are replaced, and limits that are shared.

use super::workers::blocking;
use super::{NONE, programs};
use crate::scope::Op::{Apply, Cancel, CancelSync, FlushQueue, Queue, SetMaxActive, WaitFor};
use crate::scope::{Kind, PoolSpec, QueueSpec, Scope};

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
    let queue = QueueSpec { node: Some(1), ..QueueSpec::new(Kind::PerCpu, &[0, 1], 8) };
    Scope {
        name: "node",
        about: "two pools share a limit, which changes; items are taken back",
        pools: vec![PoolSpec::per_cpu(2), PoolSpec::per_cpu(2)],
        queues: vec![queue],
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
    let queue = QueueSpec::new(Kind::PerCpu, &[0, 1], 1);
    let queue = QueueSpec { node: Some(2), is_total: true, ..queue };
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

/// Pwqs leave while they stand in line for a slot.
pub(super) fn node_and_attributes() -> Scope {
    let queue = QueueSpec { node: Some(1), ..QueueSpec::new(Kind::Unbound, &[0, 0], 8) };
    Scope {
        name: "node-attributes",
        about: "a queue with a shared limit moves to another pool while slots are handed over",
        queues: vec![queue],
        items: programs(&[&[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Cancel(0)],
            &[Apply(0, 1)],
            &[Queue(1, 0, 1), Queue(0, 0, 1)],
        ]),
        ..attributes()
    }
}
