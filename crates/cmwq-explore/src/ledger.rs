//! What must have happened, kept without asking the core: who queued what, what runs, who waits for
//! what. It panics where a promise is broken.
//!
//! A *ticket* is one queueing of an item.

use std::collections::BTreeMap;

use cmwq_core::PwqRef;

use crate::scope::{Kind, QueueSpec, Scope};
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
#[derive(Clone, Copy, Debug)]
struct Limits {
    of_each: u32,
    of_all: u32,
    /// Which of the two changes.
    changes_all: bool,
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) items: Vec<Standing>,
    /// What each waiting thread waits for.
    pub(crate) waits: BTreeMap<Tid, Vec<u32>>,
    limits: Vec<Limits>,
    ordered: Vec<bool>,
    next: u32,
}

impl Ledger {
    pub(crate) fn new(scope: &Scope) -> Self {
        let limits = |queue: &QueueSpec| Limits {
            of_each: queue.max_active,
            of_all: match queue.kind {
                Kind::Ordered => 1,
                _ => queue.node.unwrap_or(u32::MAX),
            },
            changes_all: queue.node.is_some() && !queue.is_total,
        };
        Self {
            items: vec![Standing::default(); scope.items.len()],
            waits: BTreeMap::new(),
            limits: scope.queues.iter().map(limits).collect(),
            ordered: scope.queues.iter().map(|queue| queue.kind == Kind::Ordered).collect(),
            next: 0,
        }
    }

    pub(crate) fn limit(&mut self, queue: u8, max_active: u32) {
        let Limits { of_each, of_all, changes_all } = &mut self.limits[usize::from(queue)];
        let limit = if *changes_all { of_all } else { of_each };
        *limit = max_active.max(*limit);
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
        let Limits { of_each, of_all, .. } = self.limits[usize::from(queue)];
        let nr = |all: bool| {
            let running = self.items.iter().filter_map(|item| item.running);
            running.filter(|it| it.queue == queue && (all || it.at == at)).count()
        };
        for (nr, limit) in [(nr(false), of_each), (nr(true), of_all)] {
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
