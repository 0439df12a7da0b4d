//! An idle CPU alone makes a pool begin an item only if the last four processes of its items were
//! found waiting within 10 ms of their start.

use super::{Checker, World};
use crate::event::{Event, What};
use crate::grown::grown;

#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// By pool, processes in a row that waited soon.
    soon: Vec<u32>,
}

impl Checker for Unseen {
    fn observe(&mut self, event: &Event, world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::ProcessWaited(pool, after) => {
                let soon = grown(&mut self.soon, pool);
                *soon = if after.is_some_and(|after| after < 10_000_000) { *soon + 1 } else { 0 };
                Ok(())
            }
            What::BeginsOnAlarm(pool) => match *grown(&mut self.soon, pool) {
                4.. => Ok(()),
                soon => Err(format!(
                    "{:?} begins an item and nobody was looked at, where {soon} processes in a row \
                     waited soon",
                    world.gauges[pool].kind
                )),
            },
            _ => Ok(()),
        }
    }
}
