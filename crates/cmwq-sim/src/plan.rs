//! What a simulation does: queues, items with programs, and calls from outside at given times.
//!
//! A [`Scenario`] is a small plan that people write; [`swarm`](crate::swarm) makes large ones from
//! a seed.

use std::sync::Arc;

use crate::Nanos;
use crate::bitset::BitSet;
use crate::scenario::{QueueSpec, Scenario};
use crate::script::Step;
use crate::topology::Scope;

/// An item, by its index in [`Plan::items`].
pub type ItemId = usize;
/// A queue, by its index in [`Plan::queues`].
pub type QueueId = usize;

/// See the module header.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The queues.
    pub queues: Vec<QueueSpec>,
    /// The items.
    pub items: Vec<Item>,
    /// What callers that are not workers do, in order of time.
    pub calls: Vec<Call>,
    /// Threads outside of the pools with a program of their own.
    pub owners: Vec<Owner>,
}

/// A thread outside of the pools that makes, changes and drops queues. Unlike a [`Call`], what it
/// does next waits for what it did before: for items, for flushes, and until a queue has gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// When it begins.
    pub at: Nanos,
    /// What it does. It uses no CPU.
    pub ops: Vec<Op>,
}

/// A work item: where it is queued and what its function does.
#[derive(Clone, Debug, Default)]
pub struct Item {
    /// The queue it is always queued on.
    pub queue: QueueId,
    /// What each run does. Items that do the same may share it: at ten million items that matters.
    pub ops: Arc<[Op]>,
    /// How many items its runs may queue in all, so that the simulation ends.
    pub nr_queueings: u32,
}

/// A call from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When.
    pub at: Nanos,
    /// What.
    pub op: Op,
}

/// Of the last run of an item, which may be over, that its worker was found blocked in it, or back:
/// nothing, if there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Which item.
    pub item: ItemId,
    /// Or back.
    pub is_blocked: bool,
}

/// Attributes of an unbound or ordered queue. Queues with the same ones share pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attrs {
    /// 0 is the usual one.
    pub nice: u8,
    /// Its pods.
    pub scope: Scope,
    /// Its CPUs are those of this pod, namely the one of this CPU. `None`: all CPUs.
    pub cpus: Option<(Scope, u32)>,
    /// Workers stay in their pod, and are not only woken there.
    pub is_strict: bool,
}

impl Attrs {
    /// Those of a queue that has no others.
    #[must_use]
    pub const fn usual(scope: Scope) -> Self {
        Self { nice: 0, scope, cpus: None, is_strict: false }
    }
}

/// A step of an item's function, or a call from outside (which cannot burn, sleep or block).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Use the CPU.
    Burn(Nanos),
    /// Use the CPU until it is so late, however much of it the item has had by then.
    BurnUntil(Nanos),
    /// Block, for a detector to notice.
    Sleep(Nanos),
    /// Block in a section that tells the pool so (`cmwq::blocking`).
    Announced(Nanos),
    /// `true`: a process begins, for which the item stands: it says that it waits, and counts as
    /// running while the process does. `false`: the process has ended. What the item does in
    /// between is what the process does. Ends with the item at the latest.
    Process(bool),
    /// Queue an item: on `cpu`, or where the caller runs. Items may queue themselves.
    Queue {
        /// Which.
        item: ItemId,
        /// Where.
        cpu: Option<u32>,
    },
    /// Queue an item after a delay.
    QueueDelayed {
        /// Which.
        item: ItemId,
        /// Where.
        cpu: Option<u32>,
        /// How much later.
        delay: Nanos,
    },
    /// Time an item anew, wherever it waits; one that does not is queued after the delay.
    ModDelayed {
        /// Which.
        item: ItemId,
        /// Where.
        cpu: Option<u32>,
        /// How much later.
        delay: Nanos,
    },
    /// Wait for the last queueing of an item, unless its timer is armed.
    FlushItem(ItemId),
    /// Queue an item at once if its timer is armed, and wait for its last queueing.
    FlushDelayed(ItemId),
    /// Wait for everything queued on a queue so far.
    FlushQueue(QueueId),
    /// Take an item back, if it has not started.
    Cancel(ItemId),
    /// Take an item back, or wait for it.
    CancelSync(ItemId),
    /// Change a queue's limit.
    SetMaxActive {
        /// Which queue.
        queue: QueueId,
        /// The new limit.
        max_active: u32,
    },
    /// Change what a queue may run at least on each node.
    SetMinActive {
        /// Which queue.
        queue: QueueId,
        /// So many.
        min_active: u32,
    },
    /// Freeze a queue, or thaw it. From outside only.
    SetFrozen {
        /// Which queue.
        queue: QueueId,
        /// Whether it starts nothing from now on.
        is_frozen: bool,
    },
    /// A CPU goes offline, unless it is the last one.
    Offline(u32),
    /// It comes back.
    Online(u32),
    /// Change the attributes of an unbound or ordered queue. From outside only, as are those below.
    SetAttrs {
        /// Which queue.
        queue: QueueId,
        /// The new ones.
        attrs: Attrs,
    },
    /// Drain a queue and take it down; an [`Owner`] waits for that. All queues exist at first.
    DropQueue(QueueId),
    /// Make a queue that has gone anew.
    MakeQueue(QueueId),
    /// Report what a look found of an item's worker, and of another item's, if that is of the same
    /// pool.
    Report(Sighting, Option<Sighting>),
    /// Tell how many workers each pool counts as running, and what the board says of it:
    /// [`What::Counted`], [`What::OnBoard`].
    ///
    /// [`What::Counted`]: crate::event::What::Counted
    /// [`What::OnBoard`]: crate::event::What::OnBoard
    Count,
}

impl Plan {
    /// The greatest number of a CPU that the plan names.
    #[must_use]
    pub fn greatest_cpu(&self) -> Option<u32> {
        let cpus = self.ops().filter_map(|op| match op {
            Op::Queue { cpu, .. } | Op::QueueDelayed { cpu, .. } | Op::ModDelayed { cpu, .. } => {
                *cpu
            }
            Op::Offline(cpu) | Op::Online(cpu) => Some(*cpu),
            _ => None,
        });
        cpus.max()
    }

    /// The items that are queued for a CPU at some time, and not only by callers on it.
    pub(crate) fn with_cpu(&self) -> BitSet {
        let mut items = BitSet::default();
        for op in self.ops() {
            if let Op::Queue { item, cpu: Some(_) }
            | Op::QueueDelayed { item, cpu: Some(_), .. }
            | Op::ModDelayed { item, cpu: Some(_), .. } = *op
            {
                items.set(item, true);
            }
        }
        items
    }

    fn ops(&self) -> impl Iterator<Item = &Op> {
        let ops = self.items.iter().flat_map(|item| item.ops.iter());
        let ops = ops.chain(self.calls.iter().map(|call| &call.op));
        ops.chain(self.owners.iter().flat_map(|owner| &owner.ops))
    }
}

impl From<&Scenario> for Plan {
    /// The works become items; those of one moment are queued in their order.
    fn from(scenario: &Scenario) -> Self {
        let mut plan = Self { queues: scenario.workqueues.clone(), ..Self::default() };
        for (id, work) in scenario.works.iter().enumerate() {
            let ops = work.script.iter().map(|&step| match step {
                Step::Burn(ns) => Op::Burn(ns),
                Step::Sleep(ns) => Op::Sleep(ns),
            });
            plan.items.push(Item { queue: work.workqueue, ops: ops.collect(), nr_queueings: 0 });
            let (item, cpu) = (id, work.cpu);
            let op = match work.delay_ns {
                0 => Op::Queue { item, cpu },
                delay => Op::QueueDelayed { item, cpu, delay },
            };
            plan.calls.push(Call { at: work.at_ns, op });
        }
        plan.calls.sort_by_key(|call| call.at);
        plan
    }
}
