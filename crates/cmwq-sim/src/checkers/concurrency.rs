//! No item starts while as many workers of the pool compute as it has CPUs. Promised only where
//! blocking is known at once. Items of CPU-intensive queues do not count once they run. And an item
//! that was queued while it ran is started by the same worker right after that run, whoever else
//! computes (as in the kernel). And a worker of a managed pool whose items wait first, the last
//! four of those that waited, goes on with another one; and where all four computed for a
//! while before, the tick lets one more begin while more of the pool's workers wait than compute.

use cmwq_core::Waited;

use super::{Checker, World};
use crate::event::{Event, What};
use crate::grown::grown;
use crate::places::PoolKind;
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Concurrency {
    /// By item, whether it runs, and whether it did when it was queued.
    items: Vec<(bool, bool)>,
    /// By pool, items in a row that waited before they had computed for long.
    first_waits: Vec<u32>,
    /// By pool, how many of those in a row had computed for a while before.
    soon_waits: Vec<u32>,
    /// By pool, how many items the tick may have let begin, beside those that compute.
    more: Vec<u32>,
    /// By worker, whether it has finished an item and started none since.
    finished: Vec<bool>,
}

impl Concurrency {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            items: vec![(false, false); plan.items.len()],
            first_waits: Vec::new(),
            soon_waits: Vec::new(),
            more: Vec::new(),
            finished: Vec::new(),
        }
    }
}

impl Checker for Concurrency {
    fn observe(&mut self, event: &Event, world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Queued(what, _) => {
                self.items[what.item].1 = self.items[what.item].0;
                Ok(())
            }
            What::ToldWaited(pool, Waited { before, after }) => {
                let waits = grown(&mut self.first_waits, pool);
                let is_first = before < 200_000 || (before < 2_000_000 && before <= after);
                *waits = if is_first { *waits + 1 } else { 0 };
                let soon = grown(&mut self.soon_waits, pool);
                *soon = if is_first && before >= 200_000 { *soon + 1 } else { 0 };
                Ok(())
            }
            What::ToldNotWaited(pool) => {
                *grown(&mut self.first_waits, pool) = 0;
                Ok(())
            }
            What::BeginsAnother(pool) => {
                let gauge = &world.gauges[pool];
                let waits_soon = *grown(&mut self.first_waits, pool) >= 4
                    && *grown(&mut self.soon_waits, pool) >= 4;
                let is_exact = world.config.detection_is_exact();
                if !waits_soon || (is_exact && 2 * gauge.computing >= gauge.executing) {
                    return Err(format!(
                        "the tick begins another item of {:?}, where {} workers compute of {}",
                        gauge.kind, gauge.computing, gauge.executing
                    ));
                }
                *grown(&mut self.more, pool) += 1;
                Ok(())
            }
            What::Finished(what, runner) => {
                self.items[what.item].0 = false;
                *grown(&mut self.finished, runner.worker) = true;
                Ok(())
            }
            What::Started(what, _, runner) => {
                let goes_on = std::mem::take(grown(&mut self.finished, runner.worker));
                self.items[what.item].0 = true;
                if self.items[what.item].1 || !world.config.detection_is_exact() {
                    return Ok(());
                }
                // A rescuer is counted nowhere.
                let Some(home) = world.home(runner.worker) else { return Ok(()) };
                let gauge = &world.gauges[home];
                if gauge.computing < gauge.concurrency {
                    return Ok(());
                }
                let is_managed = matches!(gauge.kind, PoolKind::Managed(_));
                if goes_on && is_managed && *grown(&mut self.first_waits, home) >= 4 {
                    return Ok(());
                }
                let more = grown(&mut self.more, home);
                if *more > 0 {
                    *more -= 1;
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
