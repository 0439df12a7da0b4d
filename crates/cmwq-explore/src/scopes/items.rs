//! Scopes about items: limits, cancelling, waiting, running again.

use super::workers::blocking;
use super::{NONE, programs};
use crate::scope::Op::{
    Again, Apply, Arm, Cancel, CancelSync, Destroy, Disable, Enable, Flush, FlushQueue, Queue,
    Rearm, RunHere, SetMaxActive, ShutDown, WaitFor,
};
use crate::scope::{Faults, Kind, PoolSpec, QueueSpec, Scope};

/// `max_active` of 1 and 2, changed while items wait behind it.
pub(super) fn limits() -> Scope {
    Scope {
        name: "limits",
        about: "max_active changes; items are taken back; the queue is flushed",
        pools: vec![PoolSpec::per_cpu(1)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 1)],
        items: programs(&[&[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), FlushQueue(0)],
            &[Queue(2, 0, 0), Cancel(1)],
            &[SetMaxActive(0, 2), SetMaxActive(0, 1)],
        ]),
        ..blocking()
    }
}

/// Cancelling with and without waiting against queueing, also by the item itself.
pub(super) fn cancelling() -> Scope {
    Scope {
        name: "cancelling",
        about: "cancel_work_sync against an item that queues itself, and a rival",
        pools: vec![PoolSpec::per_cpu(1)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 1)],
        items: programs(&[&[Again(0, 0)], &[]]),
        clients: programs(&[
            &[Queue(1, 0, 0), Queue(0, 0, 0)],
            &[CancelSync(0)],
            &[Cancel(1), Disable(0), Enable(0)],
        ]),
        faults: NONE,
        ..blocking()
    }
}

/// Items are run by those who wait for them, against limits, flushes and a drain.
pub(super) fn running_here() -> Scope {
    Scope {
        name: "running-here",
        about: "callers run items in place of waiting, beside a limit of 1, a flush and a worker",
        pools: vec![PoolSpec::per_cpu(1)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 1)],
        items: programs(&[&[], &[], &[], &[]]),
        clients: programs(&[
            &[RunHere(0, 0, 0), FlushQueue(0)],
            &[RunHere(1, 0, 0), SetMaxActive(0, 2)],
            &[Queue(2, 0, 0), Queue(3, 0, 0)],
        ]),
        ..blocking()
    }
}

/// The same while a worker takes along what arrives.
pub(super) fn running_here_in_batches() -> Scope {
    Scope {
        name: "running-here-batches",
        about: "a caller runs an item in place of waiting, while a worker takes items along",
        items: programs(&[&[], &[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0)],
            &[Queue(2, 0, 0), RunHere(3, 0, 0)],
        ]),
        ..super::batches::batches()
    }
}

/// Barriers behind items that wait for a slot, which are taken back.
pub(super) fn inactive_barriers() -> Scope {
    Scope {
        name: "inactive-barriers",
        about: "who waits for an item behind max_active goes on when it is taken back",
        pools: vec![PoolSpec::per_cpu(1)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 1)],
        items: programs(&[&[Flush(1)], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(1, 0, 0), Cancel(1)],
            &[Flush(1), Queue(2, 0, 0)],
        ]),
        faults: NONE,
        ..blocking()
    }
}

/// Disabling and enabling, nested.
pub(super) fn disabling() -> Scope {
    Scope {
        name: "disabling",
        about: "disable_work and enable_work, nested, against queueing and cancelling",
        items: programs(&[&[], &[Queue(0, 0, 0)]]),
        clients: programs(&[
            &[Disable(0), Queue(0, 0, 0), Enable(0), Queue(0, 0, 0)],
            &[CancelSync(0)],
            &[Queue(1, 0, 0), Flush(0)],
        ]),
        ..cancelling()
    }
}

/// Timers, which are taken back, flushed and raced.
pub(super) fn delayed() -> Scope {
    Scope {
        name: "delayed",
        about: "timers expire against cancelling, queueing and disabling",
        items: programs(&[&[Arm(1, 0, 0)], &[]]),
        clients: programs(&[
            &[Arm(0, 0, 0), Flush(0)],
            &[CancelSync(1), Queue(1, 0, 0)],
            &[Queue(0, 0, 0), Disable(1), Enable(1)],
        ]),
        ..cancelling()
    }
}

/// A queue is destroyed, as C does it, while timers expire that are armed for it: their items run,
/// or are refused.
pub(super) fn expiring() -> Scope {
    Scope {
        name: "expiring",
        about: "timers expire while their queue is destroyed",
        pools: vec![PoolSpec::per_cpu(1)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 1)],
        items: programs(&[&[], &[Again(0, 0)]]),
        clients: programs(&[&[Arm(0, 0, 0)], &[Arm(1, 0, 0)], &[Destroy(0)]]),
        faults: NONE,
        ..blocking()
    }
}

/// The same of items that lock their queue.
pub(super) fn expiring_locked() -> Scope {
    Scope {
        name: "expiring-locked",
        about: "timers expire while their queue is destroyed, and an item changes its limit",
        items: programs(&[&[SetMaxActive(0, 1)], &[Again(0, 0)]]),
        ..expiring()
    }
}

/// The same of a queue that moves to another pool meanwhile.
pub(super) fn expiring_unbound() -> Scope {
    Scope {
        name: "expiring-unbound",
        about: "timers expire while their queue is destroyed, and moves to another pool",
        pools: vec![PoolSpec::unbound(1), PoolSpec::unbound(1)],
        queues: vec![QueueSpec::new(Kind::Unbound, &[0], 1)],
        items: programs(&[&[], &[Again(0, 0)]]),
        clients: programs(&[&[Arm(0, 0, 0), Apply(0, 1)], &[Arm(1, 0, 0)], &[Destroy(0)]]),
        ..expiring()
    }
}

/// Timers that items arm for themselves without end, and a shutdown.
pub(super) fn shutting_down() -> Scope {
    Scope {
        name: "shutting-down",
        about: "a shutdown ends though an item arms its timer in each run, and others queue",
        pools: vec![PoolSpec::per_cpu(1)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 1), QueueSpec::new(Kind::Unbound, &[0], 1)],
        items: programs(&[&[Rearm(0, 0)], &[Again(1, 0), Arm(0, 1, 0)]]),
        clients: programs(&[
            &[Arm(0, 0, 0), Queue(1, 1, 0), Flush(1)],
            &[Queue(0, 1, 0), CancelSync(0)],
            &[ShutDown],
        ]),
        faults: NONE,
        ..blocking()
    }
}

/// Items that queue each other, from one pool to the other and back, while their queue goes.
pub(super) fn chained() -> Scope {
    Scope {
        name: "chained",
        about: "a queue is destroyed while its items queue each other to another pool and back",
        pools: vec![PoolSpec::per_cpu(2), PoolSpec::per_cpu(2)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0, 1], 8)],
        items: programs(&[
            &[Queue(1, 0, 1)],
            &[Queue(2, 0, 0)],
            &[Queue(3, 0, 1)],
            &[Queue(4, 0, 0)],
            &[],
        ]),
        clients: programs(&[&[Queue(0, 0, 0), Destroy(0)]]),
        faults: NONE,
        ..blocking()
    }
}

/// Three flushes of one queue over two pools.
pub(super) fn flushing() -> Scope {
    Scope {
        name: "flushing",
        about: "flushes of a queue of two pools, one after and beside the other",
        pools: vec![PoolSpec::per_cpu(2), PoolSpec::per_cpu(2)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0, 1], 1)],
        items: programs(&[&[], &[], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), FlushQueue(0)],
            &[Queue(1, 0, 1), FlushQueue(0)],
            &[Queue(2, 0, 0), FlushQueue(0)],
        ]),
        faults: NONE,
        ..blocking()
    }
}

/// Waiting for one item from several sides, also from items.
pub(super) fn flushing_items() -> Scope {
    Scope {
        name: "flushing-items",
        about: "flush_work of one item by clients and items, which runs and is queued again",
        pools: vec![PoolSpec::per_cpu(1)],
        items: programs(&[&[Again(0, 0)], &[Flush(0)]]),
        clients: programs(&[&[Queue(0, 0, 0), Flush(0)], &[Queue(1, 0, 0)], &[Flush(0)]]),
        faults: NONE,
        ..blocking()
    }
}

/// An item that runs is queued again, here and elsewhere.
pub(super) fn reentrance() -> Scope {
    Scope {
        name: "reentrance",
        about: "an item is queued again while it runs, by the slots of two pools",
        pools: vec![PoolSpec::per_cpu(2), PoolSpec::per_cpu(1)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0, 1], 4)],
        items: programs(&[&[WaitFor(1)], &[]]),
        clients: programs(&[
            &[Queue(0, 0, 0), Queue(0, 0, 1)],
            &[Queue(0, 0, 1), FlushQueue(0)],
            &[Queue(1, 0, 0)],
        ]),
        faults: Faults { false_reports: 1, ..NONE },
        ..blocking()
    }
}

/// Both slots of a queue are an item's that runs and is queued again; it waits for the one behind.
pub(super) fn slots_of_runs() -> Scope {
    Scope {
        name: "slots-of-runs",
        about: "a running item is queued again behind itself, and taken back, for one that waits",
        pools: vec![PoolSpec::per_cpu(2)],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0], 2)],
        items: programs(&[&[WaitFor(1)], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(0, 0, 0), Queue(1, 0, 0), Cancel(0)]]),
        faults: Faults { spurious_wakes: 1, ..NONE },
        ..blocking()
    }
}
