//! Larger scopes, for long runs: everything together. They may not come to an end; what a search
//! cut off has covered is every history up to some length.

use super::helping::lending;
use super::workers::blocking;
use super::{NONE, programs};
use crate::scope::Op::{
    Again, Apply, Cancel, CancelSync, Create, Destroy, Flush, FlushQueue, Offline, Online, Queue,
    SetMaxActive, WaitFor,
};
use crate::scope::{Faults, Kind, PoolSpec, QueueSpec, Scope};

/// All of them.
#[must_use]
pub fn long() -> Vec<Scope> {
    vec![managed(), moving(), rescued(), helping()]
}

/// Two per-CPU pools, two queues, four items, and every fault of workers and reports.
fn managed() -> Scope {
    Scope {
        name: "managed",
        about: "two per-CPU pools, two queues, four items, hotplug, and faults of every kind",
        pools: vec![PoolSpec::per_cpu(1), PoolSpec::per_cpu(1)],
        queues: vec![
            QueueSpec::new(Kind::Percpu, &[0, 1], 1),
            QueueSpec::new(Kind::Percpu, &[0], 8),
        ],
        items: programs(&[&[WaitFor(1)], &[], &[Flush(1)], &[Again(1, 0)]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(2, 0, 1), FlushQueue(0)],
            &[Queue(1, 1, 0), Queue(3, 1, 0), CancelSync(3)],
            &[Offline(0), SetMaxActive(0, 2), Online(0)],
        ]),
        faults: Faults {
            false_reports: 1,
            spurious_wakes: 1,
            hogs: 1,
            failed_creations: 1,
            culls: 1,
            stray_reports: true,
            ..NONE
        },
        inboxes: None,
    }
}

/// An unbound and an ordered queue that move between pools, are destroyed and made again.
fn moving() -> Scope {
    Scope {
        name: "moving",
        about: "queues move between pools that close and open, are destroyed and made again",
        pools: vec![PoolSpec::unbound(2), PoolSpec::unbound(1)],
        queues: vec![
            QueueSpec::new(Kind::Unbound, &[0], 8),
            QueueSpec::new(Kind::Ordered, &[1], 1),
        ],
        items: programs(&[&[WaitFor(1)], &[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(2, 1, 0), FlushQueue(1), Queue(1, 0, 0)],
            &[Apply(0, 1), Apply(1, 0), Apply(0, 0)],
            &[Queue(3, 1, 0), WaitFor(0), Destroy(0), Create(0, 1), Queue(1, 0, 0)],
        ]),
        faults: Faults { failed_creations: 1, culls: 1, ..NONE },
        inboxes: None,
    }
}

/// Queues with rescuers and a shared limit, where threads cannot be had now and then.
fn rescued() -> Scope {
    let queue = QueueSpec { rescuer: true, ..QueueSpec::split(Kind::Unbound, &[0, 1], 2) };
    Scope {
        name: "rescued",
        about: "a queue with a rescuer and a shared limit moves while threads cannot be had",
        pools: vec![PoolSpec::unbound(1), PoolSpec::unbound(0)],
        queues: vec![queue],
        items: programs(&[&[WaitFor(1)], &[], &[Queue(1, 0, 1)]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 1), FlushQueue(0)],
            &[Apply(0, 1)],
            &[Queue(2, 0, 0), Cancel(2)],
        ]),
        faults: Faults { failed_creations: 2, ..NONE },
        ..blocking()
    }
}

/// Two pools that help each other, with three items.
fn helping() -> Scope {
    Scope {
        name: "helping",
        about: "two pools help each other while threads cannot be had and workers leave",
        pools: vec![PoolSpec::per_cpu(2), PoolSpec::per_cpu(2)],
        items: programs(&[&[WaitFor(1)], &[], &[Again(0, 1)]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(2, 0, 1)], &[Queue(1, 0, 0), FlushQueue(0)]]),
        faults: Faults {
            lending: true,
            spurious_wakes: 1,
            failed_creations: 1,
            false_reports: 1,
            ..NONE
        },
        inboxes: None,
        ..lending()
    }
}
