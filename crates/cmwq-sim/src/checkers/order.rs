//! First come, first served: the items of one queue start on one pool in the order in which they
//! were queued there, and those of an ordered queue one at a time.
//!
//! Not compared are queueings of an item that was still running: non-reentrance makes them wait for
//! that run.

use super::{Checker, World};
use crate::by_pool::ByPool;
use crate::event::{Event, PoolNo, What};
use crate::places::{Kind, kind_of};
use crate::plan::{Plan, QueueId};

/// In 8 bytes: the number of an item's queueing (0: none), whether it was running when it was
/// queued, and whether it runs.
#[derive(Clone, Copy, Debug, Default)]
struct Item(u64);

impl Item {
    const RUNS: u64 = 1;
    const RAN: u64 = 2;

    const fn queue(&mut self, number: u64) {
        let runs = self.0 & Self::RUNS;
        self.0 = (number << 2) | (runs * Self::RAN) | runs;
    }

    /// The number, and whether it ran when it was queued.
    const fn start(&mut self) -> Option<(u64, bool)> {
        let before = self.0;
        self.0 = Self::RUNS;
        if before >> 2 == 0 { None } else { Some((before >> 2, before & Self::RAN != 0)) }
    }

    const fn finish(&mut self) {
        self.0 &= !Self::RUNS;
    }
}

#[derive(Debug)]
pub(super) struct Order {
    is_ordered: Vec<bool>,
    nr_running: Vec<u32>,
    items: Vec<Item>,
    next_number: u64,
    /// The last number started, by queue and pool.
    last_started: Vec<ByPool<u64>>,
    /// By queue, the first number since it was led elsewhere: a pool may have two pwqs of it then,
    /// and they know nothing of each other. Those of ordered queues do.
    led_at: Vec<u64>,
}

impl Order {
    pub(super) fn new(plan: &Plan) -> Self {
        let is_ordered = plan.queues.iter().map(|queue| kind_of(queue) == Kind::Ordered);
        Self {
            is_ordered: is_ordered.collect(),
            nr_running: vec![0; plan.queues.len()],
            items: vec![Item::default(); plan.items.len()],
            next_number: 1,
            last_started: vec![ByPool::default(); plan.queues.len()],
            led_at: vec![0; plan.queues.len()],
        }
    }

    fn last_started(&mut self, queue: QueueId, pool: PoolNo) -> &mut u64 {
        self.last_started[queue].entry(pool, 0)
    }
}

impl Checker for Order {
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Queued(what, _) => {
                self.items[what.item].queue(self.next_number);
                self.next_number += 1;
            }
            What::Started(what, site, _) => {
                let Some((number, was_running)) = self.items[what.item].start() else {
                    return Ok(());
                };
                let is_ordered = self.is_ordered[what.queue];
                self.nr_running[what.queue] += 1;
                if is_ordered && self.nr_running[what.queue] > 1 {
                    return Err(format!("ordered queue {} runs two items at once", what.queue));
                }
                let is_older = number < self.led_at[what.queue];
                if (was_running || is_older) && !is_ordered {
                    return Ok(());
                }
                // Whatever pools the ordered queue has had, it has one order.
                let pool = if is_ordered { 0 } else { site.pool };
                let last = self.last_started(what.queue, pool);
                if *last > number {
                    return Err(format!(
                        "item {} of queue {} starts on pool {} behind one that was queued later",
                        what.item, what.queue, site.pool
                    ));
                }
                *last = number;
            }
            What::Led(queue) => self.led_at[queue] = self.next_number,
            What::Finished(what, _) => {
                self.items[what.item].finish();
                self.nr_running[what.queue] -= 1;
            }
            _ => {}
        }
        Ok(())
    }
}
