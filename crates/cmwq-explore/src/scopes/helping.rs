//! Scopes about those who are no workers of the pool: rescuers and guests.

use cmwq_core::place::PoolKind;

use super::workers::blocking;
use super::{NONE, programs};
use crate::scope::Op::{Again, Apply, CancelSync, Destroy, Flush, FlushQueue, Queue, WaitFor};
use crate::scope::{Faults, Kind, PoolSpec, QueueSpec, Scope};

/// No thread can be had: the rescuer does everything.
pub(super) fn rescue() -> Scope {
    let rescued = QueueSpec { rescuer: true, ..QueueSpec::new(Kind::Percpu, &[0], 8) };
    Scope {
        name: "rescue",
        about: "no thread can be had, and the rescuer runs items, barriers and what they queue",
        pools: vec![PoolSpec::per_cpu(0)],
        queues: vec![rescued],
        items: programs(&[&[Queue(1, 0, 0)], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Flush(0)], &[CancelSync(1)]]),
        faults: Faults { outage: true, ..NONE },
        ..blocking()
    }
}

/// One worker is there and blocks; two queues have rescuers.
pub(super) fn rescue_in_turn() -> Scope {
    let rescued = QueueSpec { rescuer: true, ..QueueSpec::new(Kind::Percpu, &[0], 1) };
    Scope {
        name: "rescue-in-turn",
        about: "rescuers of two queues in one pool whose worker waits for what they run",
        pools: vec![PoolSpec::per_cpu(1)],
        queues: vec![rescued.clone(), rescued],
        items: programs(&[&[WaitFor(1)], &[], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(2, 0, 0)], &[Queue(1, 1, 0), FlushQueue(1)]]),
        faults: Faults { outage: true, ..NONE },
        ..blocking()
    }
}

/// The pwq that a rescuer serves is replaced.
pub(super) fn rescue_and_attributes() -> Scope {
    let rescued = QueueSpec { rescuer: true, ..QueueSpec::new(Kind::Unbound, &[0], 8) };
    Scope {
        name: "rescue-attributes",
        about: "a pwq is replaced while its rescuer visits; the queue is destroyed",
        pools: vec![PoolSpec::unbound(0), PoolSpec::unbound(0)],
        queues: vec![rescued],
        items: programs(&[&[]]),
        clients: programs(&[&[Queue(0, 0, 0), Flush(0), Destroy(0)], &[Apply(0, 1)]]),
        faults: Faults { maydays: Some(2), ..NONE },
        inboxes: None,
    }
}

/// Idle workers of one pool help another.
pub(super) fn lending() -> Scope {
    Scope {
        name: "lending",
        about: "a pool's idle workers run another pool's items as guests",
        pools: vec![
            PoolSpec::per_cpu(1),
            PoolSpec { kind: PoolKind::Managed, cpus: 2, ..PoolSpec::per_cpu(2) },
        ],
        queues: vec![QueueSpec::new(Kind::Percpu, &[0, 1], 8)],
        items: programs(&[&[WaitFor(1)], &[]]),
        clients: programs(&[&[Queue(0, 0, 0)], &[Queue(1, 0, 0)]]),
        faults: Faults { lending: true, visits: Some(2), ..NONE },
        inboxes: None,
    }
}

/// Items that wait for nothing, and workers that wake up for nothing.
pub(super) fn lending_woken() -> Scope {
    Scope {
        name: "lending-woken",
        about: "two idle workers would help another pool at once, and one has to stay",
        pools: vec![PoolSpec::per_cpu(2), lending().pools[1]],
        items: programs(&[&[], &[]]),
        faults: Faults { lending: true, visits: Some(2), spurious_wakes: 1, ..NONE },
        ..lending()
    }
}

/// Managed pools help each other, and begin and cease to start items at capacity.
pub(super) fn lending_and_waiting() -> Scope {
    let managed = PoolSpec { kind: PoolKind::Managed, ..PoolSpec::per_cpu(2) };
    Scope {
        name: "lending-and-waiting",
        about: "managed pools help each other, and may believe that their items wait first",
        pools: vec![managed, managed],
        items: programs(&[&[WaitFor(1)], &[], &[]]),
        clients: programs(&[&[Queue(0, 0, 0), Queue(2, 0, 0)], &[Queue(1, 0, 0)]]),
        faults: Faults { lending: true, beliefs: 1, ..NONE },
        ..lending()
    }
}

/// Workers of pods that help each other look themselves who is blocked.
pub(super) fn alarms() -> Scope {
    Scope {
        name: "lending-alarms",
        about: "managed pools help each other, and their idle workers look who is blocked",
        faults: Faults { lending: true, alarms: true, ..NONE },
        ..lending_and_waiting()
    }
}

/// A worker that was woken gets no CPU, and the other pod runs what waits.
pub(super) fn starving() -> Scope {
    Scope {
        name: "starving",
        about: "managed pools help each other also while the one's worker gets no CPU",
        faults: Faults { lending: true, starvations: 2, visits: Some(1), ..NONE },
        ..lending_and_waiting()
    }
}

/// A guest's item queues itself again, and the guest's own pool has work.
pub(super) fn lending_again() -> Scope {
    Scope {
        name: "lending-again",
        about: "an item is queued again while a guest runs it, whose own pool wants it back",
        pools: vec![PoolSpec::per_cpu(1), PoolSpec::per_cpu(2)],
        items: programs(&[&[Again(0, 0)], &[], &[]]),
        clients: programs(&[&[Queue(2, 0, 0), Queue(0, 0, 0)], &[Queue(1, 0, 1)]]),
        faults: Faults { lending: true, ..NONE },
        ..lending()
    }
}
