//! Scopes about workers: who stands by, who is woken, created, reported, dismissed.

use cmwq_core::place::PoolKind;

use super::{NONE, programs};
use crate::scope::Op::{
    Cancel, Create, Destroy, Flush, FlushQueue, Offline, Online, Queue, Unwatch, WaitFor, Watch,
};
use crate::scope::{Faults, Kind, PoolSpec, QueueSpec, Scope};

/// A queue with attributes of its own goes, and another comes to the same pool; its first item
/// waits for the second.
pub(super) fn reopen() -> Scope {
    Scope {
        name: "reopen",
        about: "an unbound pool is closed and reopened while its worker finishes",
        pools: vec![PoolSpec::unbound(2)],
        queues: vec![
            QueueSpec::new(Kind::Unbound, &[0], 8),
            QueueSpec::new(Kind::Unbound, &[0], 8),
        ],
        items: programs(&[&[WaitFor(1)], &[], &[]]),
        clients: programs(&[&[
            Queue(2, 0, 0),
            Destroy(0),
            Create(1, 0),
            Queue(0, 1, 0),
            Queue(1, 1, 0),
            Destroy(1),
        ]]),
        faults: NONE,
        inboxes: None,
    }
}

/// The same, where threads may not be had, workers leave, and two clients queue.
pub(super) fn reopen_while_failing() -> Scope {
    Scope {
        name: "reopen-failing",
        about: "the same, while creations fail, idle workers leave, and others queue",
        clients: programs(&[
            &[Queue(2, 0, 0), Destroy(0), Create(1, 0), Queue(0, 1, 0)],
            &[WaitFor(2), Queue(1, 1, 0)],
        ]),
        items: programs(&[&[WaitFor(1)], &[], &[]]),
        faults: Faults { failed_creations: 1, culls: 1, spurious_wakes: 1, ..NONE },
        ..reopen()
    }
}

/// A per-CPU pool, an item that waits for another, and one more.
pub(super) fn blocking() -> Scope {
    Scope {
        name: "blocking",
        about: "items wait for items; the pool begins without a worker",
        pools: vec![PoolSpec::per_cpu(0)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 8)],
        items: programs(&[&[WaitFor(1)], &[WaitFor(2)], &[], &[Flush(0)]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(3, 0, 0)],
            &[Queue(1, 0, 0)],
            &[Queue(2, 0, 0)],
        ]),
        faults: Faults { culls: 1, ..NONE },
        inboxes: None,
    }
}

/// Threads cannot be had now and then.
pub(super) fn failing() -> Scope {
    Scope {
        name: "failing",
        about: "items wait for items while threads cannot be had",
        pools: vec![PoolSpec::per_cpu(0)],
        items: programs(&[&[WaitFor(1)], &[WaitFor(2)], &[]]),
        clients: programs(&[&[Queue(0, 0, 0)], &[Queue(1, 0, 0)], &[Queue(2, 0, 0)]]),
        faults: Faults { failed_creations: 2, spurious_wakes: 1, ..NONE },
        ..blocking()
    }
}

/// The process has as many workers as it may, now and then. The worker that is there is found
/// blocked, also when it is not, so that a need may be over when somebody acts on it.
pub(super) fn refused() -> Scope {
    Scope {
        name: "refused",
        about: "items wait for items while the process has as many workers as it may",
        pools: vec![PoolSpec::per_cpu(1)],
        items: programs(&[&[WaitFor(1)], &[]]),
        clients: programs(&[&[Queue(0, 0, 0)], &[Queue(1, 0, 0)]]),
        faults: Faults { refusals: 2, false_reports: 1, stray_reports: true, ..NONE },
        ..blocking()
    }
}

/// No thread can be had, and no queue has a rescuer: the worker that is there does everything.
pub(super) fn outage() -> Scope {
    Scope {
        name: "outage",
        about: "one worker is there, and no other thread can be had",
        pools: vec![PoolSpec::per_cpu(1)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 1)],
        items: programs(&[&[Queue(1, 0, 0)], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), FlushQueue(0)], &[Queue(1, 0, 0), Flush(1)]]),
        faults: Faults { outage: true, ..NONE },
        ..blocking()
    }
}

/// Reports come late, twice, wrongly or never.
pub(super) fn reports() -> Scope {
    Scope {
        name: "reports",
        about: "reports of blocking are late, doubled, wrong or lost",
        pools: vec![PoolSpec::per_cpu(1)],
        items: programs(&[&[WaitFor(1)], &[], &[]]),
        clients: programs(&[&[Queue(0, 0, 0)], &[Queue(1, 0, 0)], &[Queue(2, 0, 0)]]),
        faults: Faults { false_reports: 2, stray_reports: true, culls: 1, ..NONE },
        ..blocking()
    }
}

/// A small scope where all depends on reports that the core asked for.
pub(super) fn reports_lost() -> Scope {
    Scope {
        name: "reports-lost",
        about: "nobody reports who is blocked unless the core asks to watch",
        pools: vec![PoolSpec::per_cpu(1)],
        items: programs(&[&[WaitFor(1)], &[]]),
        clients: programs(&[&[Queue(0, 0, 0)], &[Queue(1, 0, 0)]]),
        faults: NONE,
        ..blocking()
    }
}

/// Idle workers are woken as their CPU idles, and look themselves who is blocked.
pub(super) fn alarms() -> Scope {
    Scope {
        name: "alarms",
        about: "idle workers that the sentinel wakes look themselves who is blocked, or back",
        pools: vec![PoolSpec::per_cpu(3)],
        items: programs(&[&[WaitFor(1)], &[], &[WaitFor(1)]]),
        clients: programs(&[&[Queue(0, 0, 0)], &[Queue(1, 0, 0)], &[Queue(2, 0, 0)]]),
        faults: Faults { alarms: true, culls: 1, failed_creations: 1, ..NONE },
        ..blocking()
    }
}

/// Items that do not count as running, from the beginning or since they were seen to hog a CPU.
pub(super) fn hogs() -> Scope {
    let intensive = QueueSpec { cpu_intensive: true, ..QueueSpec::new(Kind::Percpu, &[0], 8) };
    Scope {
        name: "hogs",
        about: "items hog the CPU, and are reported blocked as well",
        pools: vec![PoolSpec::per_cpu(1)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 8), intensive],
        items: programs(&[&[WaitFor(1)], &[], &[WaitFor(1)]]),
        clients: programs(&[&[Queue(0, 0, 0)], &[Queue(1, 0, 0)], &[Queue(2, 1, 0)]]),
        faults: Faults { hogs: 2, false_reports: 1, stray_reports: true, ..NONE },
        ..blocking()
    }
}

/// Hogs of a managed pool wait, and are back.
pub(super) fn hogs_managed() -> Scope {
    Scope {
        name: "hogs-managed",
        about: "hogs of a managed pool wait while others take their room",
        pools: vec![PoolSpec { kind: PoolKind::Managed, ..PoolSpec::per_cpu(1) }],
        items: programs(&[&[WaitFor(1)], &[], &[]]),
        clients: programs(&[&[Queue(0, 0, 0)], &[Queue(1, 0, 0)], &[Queue(2, 0, 0)]]),
        faults: Faults { hogs: 2, stray_reports: true, ..NONE },
        ..blocking()
    }
}

/// Items wait for processes, which run, block until another one has ended, and run again.
pub(super) fn processes() -> Scope {
    Scope {
        name: "processes",
        about: "workers count as running while the processes do that they wait for",
        pools: vec![PoolSpec::per_cpu(1)],
        items: programs(&[&[Watch, WaitFor(1), Unwatch], &[Watch, Unwatch], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(2, 0, 0)], &[Queue(1, 0, 0), Flush(0)]]),
        faults: Faults { false_reports: 1, stray_reports: true, ..NONE },
        ..blocking()
    }
}

/// The pool believes that its processes wait soon, or does not: the idle worker that the sentinel
/// wakes begins an item beside one that is stuck, or looks at it.
pub(super) fn processes_wait_soon() -> Scope {
    Scope {
        name: "processes-wait-soon",
        about: "an alarm begins an item while a pool believes that its processes wait soon",
        items: programs(&[&[Watch, WaitFor(1), Unwatch], &[Watch, Unwatch], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(1, 0, 0)], &[Queue(2, 0, 0)]]),
        faults: Faults { beliefs: 2, alarms: true, ..NONE },
        ..processes()
    }
}

/// Workers are told to leave while others are woken, and items are taken back meanwhile.
pub(super) fn culling() -> Scope {
    Scope {
        name: "culling",
        about: "idle workers leave while work comes and is taken back",
        pools: vec![PoolSpec::per_cpu(3)],
        items: programs(&[&[], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Cancel(0)], &[Queue(1, 0, 0), Queue(0, 0, 0)]]),
        faults: Faults { culls: 2, spurious_wakes: 2, ..NONE },
        ..blocking()
    }
}

/// The CPU goes and comes back.
pub(super) fn hotplug() -> Scope {
    Scope {
        name: "hotplug",
        about: "a CPU goes and comes back while items wait for each other",
        pools: vec![PoolSpec::per_cpu(1)],
        items: programs(&[&[WaitFor(1)], &[], &[WaitFor(0)]]),
        clients: programs(&[
            &[Offline(0), Online(0)],
            &[Queue(2, 0, 0), Queue(0, 0, 0)],
            &[Queue(1, 0, 0)],
        ]),
        faults: Faults { failed_creations: 1, culls: 1, ..NONE },
        ..blocking()
    }
}

/// A managed pool's items wait first, or so it believes, so its workers go on at capacity.
pub(super) fn waiting_first() -> Scope {
    Scope {
        name: "waiting-first",
        about: "a managed pool starts items at capacity while it believes that they wait first",
        pools: vec![PoolSpec { kind: PoolKind::Managed, ..PoolSpec::per_cpu(1) }],
        items: programs(&[&[WaitFor(1)], &[], &[WaitFor(1)]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(2, 0, 0)], &[Queue(1, 0, 0)]]),
        faults: Faults { beliefs: 2, hogs: 1, culls: 1, false_reports: 1, ..NONE },
        ..blocking()
    }
}

/// Two items wait, one runs, and the tick lets another begin beside it.
pub(super) fn waiting_soon() -> Scope {
    Scope {
        name: "waiting-soon",
        about: "the tick begins an item at capacity, while a pool believes that they wait soon",
        items: programs(&[&[WaitFor(3)], &[WaitFor(3)], &[], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(1, 0, 0)], &[Queue(2, 0, 0), Queue(3, 0, 0)]]),
        faults: Faults { beliefs: 2, ..NONE },
        ..waiting_first()
    }
}

/// CPUs of a managed pod go and come back.
pub(super) fn hotplug_managed() -> Scope {
    Scope {
        name: "hotplug-managed",
        about: "the CPUs of a managed pod go and come back while items wait for each other",
        pools: vec![PoolSpec { kind: PoolKind::Managed, cpus: 2, ..PoolSpec::per_cpu(1) }],
        items: programs(&[&[WaitFor(1)], &[], &[]]),
        clients: programs(&[
            &[Offline(0), Online(0)],
            &[Queue(0, 0, 0), Queue(1, 0, 0)],
            &[Queue(2, 0, 0)],
        ]),
        ..blocking()
    }
}
