//! Scopes about the way around a saturated pool's lock, and about items that a worker takes along.
//!
//! The first item runs, the second one is on the worklist and makes the pool saturated; those
//! behind it go through the inbox, and may be taken along.

use super::{NONE, programs};
use crate::scope::Op::{
    Again, Cancel, CancelSync, Disable, Enable, Flush, FlushQueue, Offline, Online, Queue,
    SetMaxActive, WaitFor,
};
use crate::scope::{Faults, Kind, PoolSpec, QueueSpec, Room, Scope};
use cmwq_core::place::PoolKind;

/// An item of a batch waits for one behind it.
pub(super) fn batches() -> Scope {
    Scope {
        name: "batches",
        about: "a worker takes items along, one of which waits for the next",
        pools: vec![PoolSpec::per_cpu(2)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 8)],
        items: programs(&[&[], &[], &[WaitFor(3)], &[], &[]]),
        clients: programs(&[&[
            Queue(0, 0, 0),
            Queue(1, 0, 0),
            Queue(2, 0, 0),
            Queue(3, 0, 0),
            Queue(4, 0, 0),
        ]]),
        faults: Faults { spurious_wakes: 1, ..NONE },
        inboxes: Some(Room::AMPLE),
    }
}

/// Somebody has what has arrived listed while a worker is being created, and all that run block.
pub(super) fn listed() -> Scope {
    Scope {
        name: "batches-listed",
        about: "arrived items are listed while workers that wait for them are replaced",
        items: programs(&[&[WaitFor(1)], &[WaitFor(2)], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(1, 0, 0), Queue(2, 0, 0)], &[Flush(0)]]),
        faults: NONE,
        ..batches()
    }
}

/// A worker is created by somebody who is no manager, and finds items in the inbox.
pub(super) fn failing() -> Scope {
    Scope {
        name: "batches-failing",
        about: "a creation is tried again while items come, one of which waits for the next",
        pools: vec![PoolSpec::per_cpu(1)],
        items: programs(&[&[], &[], &[WaitFor(3)], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(1, 0, 0), Queue(2, 0, 0), Queue(3, 0, 0)]]),
        faults: Faults { failed_creations: 1, ..NONE },
        ..batches()
    }
}

/// Reports, true and false, and hogs while a batch is out.
pub(super) fn reported() -> Scope {
    Scope {
        name: "batches-reported",
        about: "workers with a batch are reported, rightly and wrongly, and another one blocks",
        items: programs(&[&[WaitFor(3)], &[], &[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), Queue(2, 0, 0), Queue(4, 0, 0)],
            &[Queue(3, 0, 0)],
        ]),
        faults: Faults { hogs: 1, stray_reports: true, ..NONE },
        ..batches()
    }
}

/// More comes than there is room for on the way to the worklist.
pub(super) fn crowded() -> Scope {
    Scope {
        name: "batches-crowded",
        about: "more items come than may wait for the worker, and go to the worklist",
        items: programs(&[&[], &[], &[], &[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), Queue(2, 0, 0), Queue(3, 0, 0)],
            &[WaitFor(0), Queue(4, 0, 0), Queue(5, 0, 0), Cancel(2)],
        ]),
        faults: Faults { spurious_wakes: 1, ..NONE },
        inboxes: Some(Room { inbox: 1, arrived: 1 }),
        ..batches()
    }
}

/// Flushes of a queue whose items are in transit.
pub(super) fn flushed() -> Scope {
    Scope {
        name: "batches-flushed",
        about: "flushes of a queue of which items are on their way, and of single items",
        items: programs(&[&[], &[], &[], &[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), Queue(2, 0, 0), FlushQueue(0), Queue(3, 0, 0)],
            &[Queue(4, 0, 0), FlushQueue(0)],
            &[Queue(5, 0, 0), Flush(2)],
        ]),
        faults: NONE,
        ..batches()
    }
}

/// Items are taken back that are in transit.
pub(super) fn cancelled() -> Scope {
    Scope {
        name: "batches-cancelled",
        about: "items are taken back and disabled that wait for their turn in a batch",
        items: programs(&[&[], &[], &[Again(0, 0)], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), Queue(2, 0, 0), Queue(3, 0, 0), Queue(4, 0, 0)],
            &[CancelSync(2), Cancel(3)],
            &[Disable(1), Enable(1)],
        ]),
        faults: NONE,
        ..batches()
    }
}

/// Limits that change, of one pwq and of a node.
pub(super) fn limited() -> Scope {
    Scope {
        name: "batches-limited",
        about: "max_active changes while items are taken along",
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 2)],
        items: programs(&[&[], &[], &[WaitFor(3)], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), Queue(2, 0, 0), Queue(3, 0, 0)],
            &[Queue(4, 0, 0), SetMaxActive(0, 1), SetMaxActive(0, 2)],
        ]),
        faults: NONE,
        ..batches()
    }
}

/// Two pools share a limit, and two queues one of the pools.
pub(super) fn shared() -> Scope {
    let split = QueueSpec::split(Kind::Percpu, &[0, 1], 1);
    Scope {
        name: "batches-shared",
        about: "two pools take items along by one limit, beside another queue",
        pools: vec![PoolSpec::per_cpu(2), PoolSpec::per_cpu(2)],
        queues: vec![split, QueueSpec::new(Kind::Percpu, &[0], 8)],
        items: programs(&[&[], &[], &[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), Queue(2, 0, 0)],
            &[Queue(3, 1, 0), Queue(4, 0, 1), FlushQueue(0)],
        ]),
        faults: NONE,
        ..batches()
    }
}

/// The CPU goes and comes back while items are in transit.
pub(super) fn hotplug() -> Scope {
    Scope {
        name: "batches-hotplug",
        about: "a CPU goes and comes back while items are taken along",
        items: programs(&[&[], &[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), Queue(2, 0, 0)],
            &[Offline(0), Queue(3, 0, 0), Online(0)],
        ]),
        faults: NONE,
        ..batches()
    }
}

/// Another pod's worker comes to help where items have arrived.
pub(super) fn helped() -> Scope {
    let managed = PoolSpec { kind: PoolKind::Managed, ..PoolSpec::per_cpu(1) };
    Scope {
        name: "batches-helped",
        about: "a guest runs items that have arrived, and their own worker takes some along",
        pools: vec![managed, managed],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 8)],
        items: programs(&[&[], &[], &[], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(1, 0, 0), Queue(2, 0, 0), Queue(3, 0, 0)]]),
        faults: Faults { lending: true, visits: Some(1), ..NONE },
        ..batches()
    }
}
