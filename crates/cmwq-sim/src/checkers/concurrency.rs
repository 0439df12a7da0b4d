//! No item starts while as many workers of the pool compute as it has CPUs. Promised only where
//! blocking is known at once. Items of CPU-intensive queues do not count once they run. And an item
//! that was queued while it ran is started by the same worker right after that run, whoever else
//! computes (as in the kernel).

use super::{Checker, World};
use crate::event::{Event, PoolNo, What};
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Concurrency {
    /// By worker, the pool that counts it.
    homes: Vec<PoolNo>,
    /// By item, whether it runs, and whether it did when it was queued.
    items: Vec<(bool, bool)>,
}

impl Concurrency {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { homes: Vec::new(), items: vec![(false, false); plan.items.len()] }
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
            What::Finished(what, _) => {
                self.items[what.item].0 = false;
                Ok(())
            }
            What::Started(what, _, runner) => {
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
                Err(format!(
                    "item {} starts on worker {} although {} workers of {:?} compute already",
                    what.item, runner.worker, gauge.computing, gauge.kind
                ))
            }
            _ => Ok(()),
        }
    }
}
