//! No item runs twice at once.

use super::{Checker, World};
use crate::event::{Event, What};
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Reentrance {
    /// The worker that runs each item; 0: none.
    runner: Vec<u32>,
}

impl Reentrance {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { runner: vec![0; plan.items.len()] }
    }
}

impl Checker for Reentrance {
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Started(what, _, runner) => {
                let other = std::mem::replace(&mut self.runner[what.item], runner.worker as u32);
                if other == 0 {
                    return Ok(());
                }
                Err(format!(
                    "item {} starts on worker {} while worker {other} still runs it",
                    what.item, runner.worker
                ))
            }
            What::Finished(what, _) => {
                self.runner[what.item] = 0;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
