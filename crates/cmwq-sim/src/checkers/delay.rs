//! Delayed items are queued at their time: never early, and late by a tick of the wheel at most.

use cmwq_core::TICK_NS;

use super::{Checker, World};
use crate::Nanos;
use crate::event::{Event, What};
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Delay {
    due: Vec<Option<Nanos>>,
}

impl Delay {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { due: vec![None; plan.items.len()] }
    }
}

impl Checker for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Armed(what, due) => self.due[what.item] = Some(due),
            What::Cancelled(what) => self.due[what.item] = None,
            What::Queued(what, _) => {
                let Some(due) = self.due[what.item].take() else { return Ok(()) };
                if event.t < due {
                    return Err(format!("item {} is {} ns early", what.item, due - event.t));
                }
                if event.t > due + TICK_NS {
                    return Err(format!("item {} is {} ns late", what.item, event.t - due));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
