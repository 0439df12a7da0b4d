//! What must have happened, kept without asking the core: who queued what, what runs, who waits for
//! what. It panics where a promise is broken.
//!
//! A *ticket* is one queueing of an item.

use std::collections::BTreeMap;

use cmwq_core::{PwqRef, Sharing};

use crate::scope::{Kind, PoolSpec, QueueSpec, Scope};
use crate::world::{Named, Tid};

/// One queueing of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) number: u32,
    pub(crate) queue: u8,
    /// By which pwq it came.
    at: PwqRef,
    /// The item was running: its next run waits for that one, wherever it is.
    pub(crate) is_tied: bool,
}

/// Where an item is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) pending: Option<Ticket>,
    pub(crate) running: Option<Ticket>,
    /// It has run, or was taken back.
    pub(crate) has_settled: bool,
}

/// Of a queue; the highest, since what was admitted stays.
#[derive(Clone, Debug)]
struct Limits {
    sharing: Sharing,
    of_each: u32,
    of_all: u32,
    /// Of all on the node of each pool.
    of_nodes: Vec<u32>,
}

/// The part of a node with `cpus` of `total` CPUs: in proportion, rounded up, and no less than
/// `min`.
fn part(max: u32, min: u32, cpus: u32, total: u32) -> u32 {
    (max * cpus).div_ceil(total).max(min).min(max)
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) items: Vec<Standing>,
    /// What each waiting thread waits for.
    pub(crate) waits: BTreeMap<Tid, Vec<u32>>,
    limits: Vec<Limits>,
    ordered: Vec<bool>,
    /// Of each pool.
    nodes: Vec<u32>,
    /// CPUs of the node of each pool, and of all.
    cpus: Vec<(u32, u32)>,
    next: u32,
}

impl Ledger {
    pub(crate) fn new(scope: &Scope) -> Self {
        let none = |queue: &QueueSpec| Limits {
            sharing: queue.sharing,
            of_each: 0,
            of_all: match (queue.kind, queue.sharing) {
                (Kind::Ordered, _) => 1,
                (_, Sharing::Total(total)) => total,
                _ => u32::MAX,
            },
            of_nodes: vec![0; scope.pools.len()],
        };
        let nr_cpus = |node: Option<u32>| -> u32 {
            let pools = scope.pools.iter().filter(|pool| node.is_none_or(|node| pool.node == node));
            pools.map(|pool| pool.cpus).sum()
        };
        let cpus = |pool: &PoolSpec| (nr_cpus(Some(pool.node)), nr_cpus(None));
        let mut ledger = Self {
            items: vec![Standing::default(); scope.items.len()],
            waits: BTreeMap::new(),
            limits: scope.queues.iter().map(none).collect(),
            ordered: scope.queues.iter().map(|queue| queue.kind == Kind::Ordered).collect(),
            nodes: scope.pools.iter().map(|pool| pool.node).collect(),
            cpus: scope.pools.iter().map(cpus).collect(),
            next: 0,
        };
        for (number, queue) in scope.queues.iter().enumerate() {
            ledger.limit(number as u8, queue.max_active, queue.min_active);
        }
        ledger
    }

    /// The limits of `queue` are these from now on.
    pub(crate) fn limit(&mut self, queue: u8, max: u32, min: u32) {
        let limits = &mut self.limits[usize::from(queue)];
        let is_split = limits.sharing == Sharing::Nodes;
        limits.of_each = limits.of_each.max(if is_split { u32::MAX } else { max });
        for (of_node, (cpus, total)) in limits.of_nodes.iter_mut().zip(&self.cpus) {
            let part = if is_split { part(max, min, *cpus, *total) } else { u32::MAX };
            *of_node = part.max(*of_node);
        }
    }

    // ---- items

    pub(crate) fn queue(&mut self, item: u8, queue: u8, at: PwqRef) {
        self.next += 1;
        let standing = &mut self.items[usize::from(item)];
        assert!(standing.pending.is_none(), "item {item} was queued twice");
        let is_tied = standing.running.is_some();
        standing.pending = Some(Ticket { number: self.next, queue, at, is_tied });
    }

    pub(crate) fn take_back(&mut self, item: u8) {
        let standing = &mut self.items[usize::from(item)];
        assert!(standing.pending.take().is_some(), "item {item} was taken back and not queued");
        standing.has_settled = true;
    }

    pub(crate) fn start(&mut self, what: Named, at: PwqRef) {
        let Named::Item(item) = what else { return };
        let standing = &mut self.items[usize::from(item)];
        let ticket = standing.pending.take();
        let ticket = ticket.expect("an item was started that nobody queued");
        assert!(standing.running.is_none(), "item {item} runs twice at once");
        assert_eq!(ticket.at, at, "item {item} came by another pwq");
        standing.running = Some(ticket);
        self.check_order(item, ticket);
        self.check_limit(ticket.queue, at);
    }

    /// First come, first served.
    fn check_order(&self, item: u8, ticket: Ticket) {
        let overtaken = self.older(ticket).next();
        let kind = if self.is_ordered(ticket) { "an ordered queue" } else { "one pwq" };
        assert!(
            overtaken.is_none(),
            "item {item} of {kind} was started before one that was queued before it: {overtaken:?}"
        );
    }

    /// What has to start before: everything older that came by the same pwq, or to the same ordered
    /// queue. But not the next runs of items that were running when they were queued: those wait
    /// for that, and let others pass.
    fn older(&self, than: Ticket) -> impl Iterator<Item = Ticket> {
        let is_ordered = self.is_ordered(than);
        let pending = self.items.iter().filter_map(|item| item.pending);
        pending.filter(move |known| {
            let is_in_line = if is_ordered {
                known.queue == than.queue
            } else {
                known.at == than.at && !known.is_tied
            };
            is_in_line && known.number < than.number
        })
    }

    /// How many items have to start before.
    pub(crate) fn nr_older(&self, than: Ticket) -> usize {
        self.older(than).count()
    }

    fn is_ordered(&self, ticket: Ticket) -> bool {
        self.ordered[usize::from(ticket.queue)]
    }

    fn check_limit(&self, queue: u8, at: PwqRef) {
        let Limits { of_each, of_all, of_nodes, .. } = &self.limits[usize::from(queue)];
        let pool = |at: PwqRef| at.pool.0 as usize;
        let is_on_node = |other: PwqRef| self.nodes[pool(other)] == self.nodes[pool(at)];
        let nr = |counts: &dyn Fn(PwqRef) -> bool| {
            let running = self.items.iter().filter_map(|item| item.running);
            running.filter(|it| it.queue == queue && counts(it.at)).count()
        };
        let all = [
            (nr(&|other| other == at), *of_each),
            (nr(&is_on_node), of_nodes[pool(at)]),
            (nr(&|_| true), *of_all),
        ];
        for (nr, limit) in all {
            assert!(nr <= limit as usize, "{nr} items of queue {queue} run, and {limit} may");
        }
    }

    pub(crate) fn end(&mut self, what: Named) {
        let Named::Item(item) = what else { return };
        let standing = &mut self.items[usize::from(item)];
        assert!(standing.running.take().is_some(), "item {item} ended and did not run");
        standing.has_settled = true;
    }

    pub(crate) fn has_settled(&self, item: u8) -> bool {
        self.items[usize::from(item)].has_settled
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.items.iter().all(|item| item.pending.is_none() && item.running.is_none())
    }

    // ---- waits

    pub(crate) fn outstanding(&self) -> impl Iterator<Item = Ticket> {
        let running = self.items.iter().filter_map(|item| item.running);
        self.items.iter().filter_map(|item| item.pending).chain(running)
    }

    /// `tid` begins to wait for what was queued on `queue` so far.
    pub(crate) fn wait_for_queue(&mut self, tid: Tid, queue: u8) {
        let tickets = self.outstanding().filter(|ticket| ticket.queue == queue);
        let tickets = tickets.map(|ticket| ticket.number).collect();
        self.waits.insert(tid, tickets);
    }

    /// `tid` begins to wait for the last queueing of `item`.
    pub(crate) fn wait_for_item(&mut self, tid: Tid, item: u8) {
        let standing = &self.items[usize::from(item)];
        let last = standing.pending.or(standing.running);
        self.waits.insert(tid, last.into_iter().map(|ticket| ticket.number).collect());
    }

    /// `tid`'s wait is over.
    pub(crate) fn waited(&mut self, tid: Tid) {
        let awaited = self.waits.remove(&tid).unwrap_or_default();
        let left = self.outstanding().find(|ticket| awaited.contains(&ticket.number));
        assert!(left.is_none(), "a wait ended before what was waited for: {left:?}");
    }

    /// Who cancelled `item` with waiting goes on.
    pub(crate) fn is_still(&self, item: u8) {
        let standing = &self.items[usize::from(item)];
        let is_still = standing.pending.is_none() && standing.running.is_none();
        assert!(is_still, "item {item} was cancelled with waiting and still runs");
    }
}
