//! Delayed items are queued at their time, also if that was changed, or has come because somebody
//! waits for them: never early, and late by a tick of the wheel at most.

use std::collections::HashMap;

use cmwq_core::TICK_NS;

use super::{Checker, World};
use crate::Nanos;
use crate::event::{Event, What};
use crate::plan::ItemId;

#[derive(Debug, Default)]
pub(super) struct Delay {
    /// When armed items are due. Never walked, so its order decides nothing.
    due: HashMap<ItemId, Nanos>,
}

impl Checker for Delay {
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Armed(what, due) => {
                self.due.insert(what.item, due);
            }
            What::Retimed(item, due) => {
                self.due.insert(item, due);
            }
            What::Cancelled(what) => {
                self.due.remove(&what.item);
            }
            What::Queued(what, _) => {
                let Some(due) = self.due.remove(&what.item) else { return Ok(()) };
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
