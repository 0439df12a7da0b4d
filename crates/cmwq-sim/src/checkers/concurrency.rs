//! No item starts while as many workers of the pool compute as it has CPUs. Promised only where
//! blocking is known at once. Items of CPU-intensive queues do not count once they run. And an item
//! that was queued while it ran is started by the same worker right after that run, whoever else
//! computes (as in the kernel). And a worker of a managed pool whose items wait first, the last
//! four of those that waited, goes on with another one.

use cmwq_core::Waited;

use super::{Checker, World};
use crate::event::{Event, PoolNo, What, WorkerNo};
use crate::places::PoolKind;
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Concurrency {
    /// By worker, the pool that counts it.
    homes: Vec<PoolNo>,
    /// By item, whether it runs, and whether it did when it was queued.
    items: Vec<(bool, bool)>,
    /// By pool, items in a row that waited before they had computed for long.
    first_waits: Vec<u32>,
    /// By worker, whether it has finished an item and started none since.
    finished: Vec<bool>,
}

impl Concurrency {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            homes: Vec::new(),
            items: vec![(false, false); plan.items.len()],
            first_waits: Vec::new(),
            finished: Vec::new(),
        }
    }

    fn finished(&mut self, worker: WorkerNo) -> &mut bool {
        if self.finished.len() <= worker {
            self.finished.resize(worker + 1, false);
        }
        &mut self.finished[worker]
    }

    fn first_waits(&mut self, pool: PoolNo) -> &mut u32 {
        if self.first_waits.len() <= pool {
            self.first_waits.resize(pool + 1, 0);
        }
        &mut self.first_waits[pool]
    }
}

impl Checker for Concurrency {
    fn name(&self) -> &'static str {
        "concurrency"
    }

    fn observe(&mut self, event: &Event, world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::WorkerMade(pool, worker) => {
                if self.homes.len() <= worker {
                    self.homes.resize(worker + 1, PoolNo::MAX);
                }
                self.homes[worker] = pool;
                Ok(())
            }
            What::Queued(what, _) => {
                self.items[what.item].1 = self.items[what.item].0;
                Ok(())
            }
            What::ToldWaited(pool, Waited { before, after }) => {
                let waits = self.first_waits(pool);
                let is_first = before < 200_000 || (before < 2_000_000 && before <= after);
                *waits = if is_first { *waits + 1 } else { 0 };
                Ok(())
            }
            What::ToldNotWaited(pool) => {
                *self.first_waits(pool) = 0;
                Ok(())
            }
            What::Finished(what, runner) => {
                self.items[what.item].0 = false;
                *self.finished(runner.worker) = true;
                Ok(())
            }
            What::Started(what, _, runner) => {
                let goes_on = std::mem::take(self.finished(runner.worker));
                self.items[what.item].0 = true;
                if self.items[what.item].1 || !world.config.detection_is_exact() {
                    return Ok(());
                }
                // A rescuer is counted nowhere.
                let home = self.homes.get(runner.worker).filter(|home| **home != PoolNo::MAX);
                let Some(&home) = home else { return Ok(()) };
                let gauge = &world.gauges[home];
                if gauge.computing < gauge.concurrency {
                    return Ok(());
                }
                let is_managed = matches!(gauge.kind, PoolKind::Managed(_));
                if goes_on && is_managed && *self.first_waits(home) >= 4 {
                    return Ok(());
                }
                Err(format!(
                    "item {} starts on worker {} although {} workers of {:?} compute already",
                    what.item, runner.worker, gauge.computing, gauge.kind
                ))
            }
            _ => Ok(()),
        }
    }
}
