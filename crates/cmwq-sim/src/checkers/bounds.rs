//! Pools have no more workers than they need: one for every item they run, one that is about to,
//! and one that stands by; and after a long rest, two.

use super::{Checker, World};
use crate::event::{Event, What};
use crate::grown::grown;

#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// By pool, how many workers it may have when those in the making are there.
    allowed: Vec<u32>,
}

impl Checker for Bounds {
    fn observe(&mut self, event: &Event, world: &World<'_>) -> Result<(), String> {
        let (What::WorkerWanted(pool) | What::WorkerMade(pool, _)) = event.what else {
            return Ok(());
        };
        let gauge = &world.gauges[pool];
        let staying = gauge.nr_workers - gauge.leaving;
        let allowed = grown(&mut self.allowed, pool);
        if let What::WorkerWanted(_) = event.what {
            // Those that run items, the one that wants another, and those in the making: two
            // creators from outside may not know of each other.
            let needed = gauge.executing + 1 + gauge.creating;
            *allowed = if gauge.creating > 1 { needed.max(*allowed) } else { needed };
            if staying <= gauge.executing + 1 {
                return Ok(());
            }
        }
        if staying <= *allowed {
            return Ok(());
        }
        Err(format!(
            "{:?} has {staying} workers, and {} in the making, for the {} items it runs",
            gauge.kind, gauge.creating, gauge.executing
        ))
    }

    fn end(&mut self, world: &World<'_>) -> Result<(), String> {
        match world.gauges.iter().find(|gauge| gauge.nr_workers > 2) {
            Some(gauge) => Err(format!(
                "{:?} keeps {} workers after {} ns without work",
                gauge.kind, gauge.nr_workers, world.config.idle_timeout
            )),
            None => Ok(()),
        }
    }
}
