//! What is queued is run or cancelled, once; nothing else is run.

use super::{Checker, World};
use crate::event::{Event, Queueing, Ticket, What};
use crate::plan::Plan;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Armed,
    Queued,
}

#[derive(Debug)]
pub(super) struct Conservation {
    pending: Vec<Option<(Ticket, Stage)>>,
    running: Vec<Option<Ticket>>,
}

impl Conservation {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { pending: vec![None; plan.items.len()], running: vec![None; plan.items.len()] }
    }

    fn arrive(&mut self, what: Queueing, stage: Stage) -> Result<(), String> {
        let Queueing { item, ticket, .. } = what;
        match self.pending[item].replace((ticket, stage)) {
            None => Ok(()),
            Some((same, Stage::Armed)) if same == ticket && stage == Stage::Queued => Ok(()),
            Some(other) => {
                Err(format!("queueing {ticket} of item {item} arrives while {other:?} is pending"))
            }
        }
    }

    fn leave(&mut self, what: Queueing, how: &str) -> Result<(), String> {
        match self.pending[what.item].take() {
            Some((ticket, stage)) if ticket == what.ticket => {
                if stage == Stage::Armed && how == "started" {
                    return Err(format!("item {} started from its timer", what.item));
                }
                Ok(())
            }
            other => Err(format!(
                "queueing {} of item {} was {how}, but pending is {other:?}",
                what.ticket, what.item
            )),
        }
    }
}

impl Checker for Conservation {
    fn name(&self) -> &'static str {
        "conservation"
    }

    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Armed(what, _) => self.arrive(what, Stage::Armed),
            What::Queued(what, _) => self.arrive(what, Stage::Queued),
            What::Cancelled(what) => self.leave(what, "cancelled"),
            What::Started(what, ..) => {
                self.running[what.item] = Some(what.ticket);
                self.leave(what, "started")
            }
            What::Finished(what, _) => match self.running[what.item].take() {
                Some(ticket) if ticket == what.ticket => Ok(()),
                other => Err(format!("{what:?} finished, but {other:?} ran")),
            },
            _ => Ok(()),
        }
    }

    fn end(&mut self, _world: &World<'_>) -> Result<(), String> {
        for (item, (pending, running)) in self.pending.iter().zip(&self.running).enumerate() {
            if let Some((ticket, stage)) = pending {
                return Err(format!("queueing {ticket} of item {item} was lost ({stage:?})"));
            }
            if let Some(ticket) = running {
                return Err(format!("queueing {ticket} of item {item} never finished"));
            }
        }
        Ok(())
    }
}
