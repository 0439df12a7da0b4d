//! No item runs twice at once.

use super::{Checker, World};
use crate::event::{Event, Runner, What};
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Reentrance {
    /// Who runs each item.
    runner: Vec<Option<Runner>>,
}

impl Reentrance {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { runner: vec![None; plan.items.len()] }
    }
}

impl Checker for Reentrance {
    fn name(&self) -> &'static str {
        "reentrance"
    }

    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Started(what, _, runner) => match self.runner[what.item].replace(runner) {
                None => Ok(()),
                Some(other) => Err(format!(
                    "item {} starts on worker {} while worker {} still runs it",
                    what.item, runner.worker, other.worker
                )),
            },
            What::Finished(what, _) => {
                self.runner[what.item] = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
