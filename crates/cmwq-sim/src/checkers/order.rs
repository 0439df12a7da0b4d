//! First come, first served: the items of one queue start on one pool in the order in which they
//! were queued there, and those of an ordered queue one at a time.
//!
//! Not compared are queueings of an item that was still running: non-reentrance makes them wait for
//! that run.

use super::{Checker, World};
use crate::event::{Event, PoolNo, What};
use crate::places::Kind;
use crate::plan::{Plan, QueueId};

#[derive(Clone, Copy, Debug, Default)]
struct Item {
    /// The number of its queueing, and whether it was running when it was queued.
    queued: Option<(u64, bool)>,
    is_running: bool,
}

#[derive(Debug)]
pub(super) struct Order {
    is_ordered: Vec<bool>,
    nr_running: Vec<u32>,
    items: Vec<Item>,
    next_number: u64,
    /// The last number started, by queue and pool.
    last_started: Vec<Vec<u64>>,
}

impl Order {
    pub(super) fn new(plan: &Plan) -> Self {
        let is_ordered = plan.queues.iter().map(|queue| Kind::of(queue) == Kind::Ordered);
        Self {
            is_ordered: is_ordered.collect(),
            nr_running: vec![0; plan.queues.len()],
            items: vec![Item::default(); plan.items.len()],
            next_number: 1,
            last_started: vec![Vec::new(); plan.queues.len()],
        }
    }

    fn last_started(&mut self, queue: QueueId, pool: PoolNo) -> &mut u64 {
        let by_pool = &mut self.last_started[queue];
        if by_pool.len() <= pool {
            by_pool.resize(pool + 1, 0);
        }
        &mut by_pool[pool]
    }
}

impl Checker for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Queued(what, _) => {
                let item = &mut self.items[what.item];
                item.queued = Some((self.next_number, item.is_running));
                self.next_number += 1;
            }
            What::Started(what, site, _) => {
                let item = &mut self.items[what.item];
                item.is_running = true;
                let Some((number, was_running)) = item.queued.take() else { return Ok(()) };
                let is_ordered = self.is_ordered[what.queue];
                self.nr_running[what.queue] += 1;
                if is_ordered && self.nr_running[what.queue] > 1 {
                    return Err(format!("ordered queue {} runs two items at once", what.queue));
                }
                if was_running && !is_ordered {
                    return Ok(());
                }
                let last = self.last_started(what.queue, site.pool);
                if *last > number {
                    return Err(format!(
                        "item {} of queue {} starts on pool {} behind one that was queued later",
                        what.item, what.queue, site.pool
                    ));
                }
                *last = number;
            }
            What::Finished(what, _) => {
                self.items[what.item].is_running = false;
                self.nr_running[what.queue] -= 1;
            }
            _ => {}
        }
        Ok(())
    }
}
