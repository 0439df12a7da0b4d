//! What a search covers: pools, queues, items, what clients do, and what may go wrong.
//!
//! Everything is counted and ends, so the space of states closes: each client and each item has a
//! short program, and faults have a budget.

use cmwq_core::limit::NodeCpus;
pub use cmwq_core::place::QueueKind as Kind;
use cmwq_core::place::{Belonging, OwnCpus, PoolKind};
use cmwq_core::{Limits, Sharing};

/// An item, by its number in [`Scope::items`].
pub type Item = u8;
/// A queue, by its number in [`Scope::queues`].
pub type Queue = u8;
/// A pool, by its number in [`Scope::pools`].
pub type Pool = u8;

/// One step of a program, as a client or an item calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `queue_work`: the item on this queue, by this one of its slots.
    Queue(Item, Queue, u8),
    /// An item queues itself on this queue, by this slot, in its first run only.
    Again(Queue, u8),
    /// `queue_delayed_work`: the timer expires at some later time.
    Arm(Item, Queue, u8),
    /// An item arms its own timer, in each of its runs.
    Rearm(Queue, u8),
    /// The caller runs the item, which has no program, in place of waiting for it; or it queues
    /// the item, and goes on when that has run.
    RunHere(Item, Queue, u8),
    /// Blocks until that item has run, or was taken back, once.
    WaitFor(Item),
    /// `flush_work`.
    Flush(Item),
    /// `flush_workqueue`.
    FlushQueue(Queue),
    /// `cancel_work`.
    Cancel(Item),
    /// `cancel_work_sync`.
    CancelSync(Item),
    /// `disable_work`.
    Disable(Item),
    /// `enable_work`.
    Enable(Item),
    /// `apply_workqueue_attrs`: all slots lead to this pool.
    Apply(Queue, Pool),
    /// `workqueue_set_max_active`.
    SetMaxActive(Queue, u32),
    /// `workqueue_set_min_active`.
    SetMinActive(Queue, u32),
    /// `destroy_workqueue`.
    Destroy(Queue),
    /// `alloc_workqueue`: the queue is there again, and leads to this pool.
    Create(Queue, Pool),
    /// The pool's CPU goes.
    Offline(Pool),
    /// The pool's CPU is back.
    Online(Pool),
    /// All queues are shut down, for good; waits until they are idle.
    ShutDown,
    /// The item starts a process, watches it and waits for it: what follows is the process's doing.
    Watch,
    /// The process has ended.
    Unwatch,
}

/// A worker pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolSpec {
    /// What it is for.
    pub kind: PoolKind,
    /// How many CPUs it has, while they are there.
    pub cpus: u32,
    /// How many there are at the beginning, idle.
    pub workers: u8,
    /// Its workers go when no queue leads to it.
    pub closes: bool,
    /// On which node its CPUs are.
    pub node: u32,
}

impl PoolSpec {
    /// Of one CPU, with so many idle workers.
    #[must_use]
    pub const fn per_cpu(workers: u8) -> Self {
        Self { kind: PoolKind::Percpu, cpus: 1, workers, closes: false, node: 0 }
    }

    /// For attributes of a queue's own, with so many idle workers.
    #[must_use]
    pub const fn unbound(workers: u8) -> Self {
        Self { kind: PoolKind::Unbound, closes: true, ..Self::per_cpu(workers) }
    }

    /// The same on another node.
    #[must_use]
    pub const fn on_node(self, node: u32) -> Self {
        Self { node, ..self }
    }

    /// How many workers may run at once, while its CPUs are there or have gone.
    #[must_use]
    pub const fn concurrency(&self, is_online: bool) -> u32 {
        let cpus = if is_online { self.cpus } else { 0 };
        let own = OwnCpus { allowed: cpus, managed: cpus };
        Belonging::of(self.kind, true, own, u32::MAX).concurrency
    }
}

/// A workqueue.
#[derive(Clone, Debug)]
pub struct QueueSpec {
    /// Whether its pwqs can be replaced, and its items run in order.
    pub kind: Kind,
    /// Where its slots lead; a slot has a pwq of its own.
    pub slots: Vec<Pool>,
    /// Limit of each pwq, or of all together.
    pub max_active: u32,
    /// Whether pwqs share it, or another one.
    pub sharing: Sharing,
    /// What each node may run at least, where the limit is split over nodes.
    pub min_active: u32,
    /// It has a rescuer.
    pub rescuer: bool,
    /// Its items do not count as running.
    pub cpu_intensive: bool,
}

impl QueueSpec {
    /// A queue of this kind with these slots and this limit.
    #[must_use]
    pub fn new(kind: Kind, slots: &[Pool], max_active: u32) -> Self {
        let (slots, sharing) = (slots.to_vec(), Sharing::Each);
        let (rescuer, cpu_intensive, min_active) = (false, false, 1);
        Self { kind, slots, max_active, sharing, min_active, rescuer, cpu_intensive }
    }

    /// The same with a limit that is split over the nodes.
    #[must_use]
    pub fn split(kind: Kind, slots: &[Pool], max_active: u32) -> Self {
        Self { sharing: Sharing::Nodes, ..Self::new(kind, slots, max_active) }
    }

    /// Its limits as the core has them.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::new(self.sharing, self.max_active);
        limits.set_min_active(self.min_active);
        limits
    }
}

/// How often things may happen that need not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A worker that runs is reported blocked.
    pub false_reports: u8,
    /// A worker wakes up that nobody woke.
    pub spurious_wakes: u8,
    /// A managed pool begins to believe that its items wait first, or stops believing it; another
    /// one, that its processes wait soon.
    pub beliefs: u8,
    /// A worker that was woken for work gets no CPU for so long that the ticks find out.
    pub starvations: u8,
    /// An item is seen to hog its CPU.
    pub hogs: u8,
    /// A thread cannot be had.
    pub failed_creations: u8,
    /// The process has as many workers as it may, when a pool that has one creates another.
    pub refusals: u8,
    /// A surplus worker's time is up.
    pub culls: u8,
    /// Rescuers are called so often at most. `None`: as often as they are needed.
    pub maydays: Option<u8>,
    /// Idle workers go to help so often at most. `None`: as often as there is a backlog.
    pub visits: Option<u8>,
    /// Threads cannot be had at all: only rescuers help.
    pub outage: bool,
    /// Reports may come when nobody watches, late and doubled; who is back may be reported, too.
    pub stray_reports: bool,
    /// The sentinel wakes idle workers, which look themselves who is blocked. The tick may do so as
    /// well, and is relied on only where nobody stands by.
    pub alarms: bool,
    /// Idle workers look whether other pools have more than they can run.
    pub lending: bool,
}

/// How much waits on its way into a pool before it is listed.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// In the inbox: who pushes one more takes the lock.
    pub inbox: u32,
    /// Behind the worklist, for the worker that runs: what comes then goes to the worklist, and
    /// everything older before it.
    pub arrived: u32,
}

impl Room {
    /// More than a scope has items.
    pub const AMPLE: Self = Self { inbox: u32::MAX, arrived: u32::MAX };
}

/// What a search covers.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// For the command line.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// The pools.
    pub pools: Vec<PoolSpec>,
    /// The queues.
    pub queues: Vec<QueueSpec>,
    /// What each item's function does.
    pub items: Vec<Vec<Op>>,
    /// What each client thread does.
    pub clients: Vec<Vec<Op>>,
    /// What may go wrong.
    pub faults: Faults,
    /// Saturated pools are reached by their inboxes, and workers take several items along.
    pub inboxes: Option<Room>,
}

impl Scope {
    /// Of each pool the node, and how many CPUs it has there.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = NodeCpus> + Clone {
        self.pools.iter().map(|pool| (Some(pool.node), pool.cpus))
    }

    /// Whether the pwqs of `queue` stay as they are.
    #[must_use]
    pub fn is_static(&self, queue: Queue) -> bool {
        let changes = |op: &Op| match op {
            Op::Apply(q, _) | Op::Destroy(q) | Op::Create(q, _) => *q == queue,
            _ => false,
        };
        !self.clients.iter().chain(&self.items).flatten().any(changes)
    }
}
