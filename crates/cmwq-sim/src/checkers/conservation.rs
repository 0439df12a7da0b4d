//! What is queued is run or cancelled, once; nothing else is run.

use super::{Checker, World};
use crate::event::{Event, Queueing, Ticket, What};
use crate::plan::Plan;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Armed = 1,
    Queued = 2,
}

/// A ticket and its stage in 8 bytes, or nothing: there is one for every item of the run.
#[derive(Clone, Copy, Debug, Default)]
struct Packed(u64);

impl Packed {
    const fn new(ticket: Ticket, stage: Stage) -> Self {
        Self((ticket << 2) | stage as u64)
    }

    const fn get(self) -> Option<(Ticket, Stage)> {
        match self.0 & 3 {
            1 => Some((self.0 >> 2, Stage::Armed)),
            2 => Some((self.0 >> 2, Stage::Queued)),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Conservation {
    pending: Vec<Packed>,
    /// Tickets, which count from 1; 0: none.
    running: Vec<Ticket>,
}

impl Conservation {
    pub(super) fn new(plan: &Plan) -> Self {
        let nr_items = plan.items.len();
        Self { pending: vec![Packed::default(); nr_items], running: vec![0; nr_items] }
    }

    fn arrive(&mut self, what: Queueing, stage: Stage) -> Result<(), String> {
        let Queueing { item, ticket, .. } = what;
        let before = std::mem::replace(&mut self.pending[item], Packed::new(ticket, stage));
        match before.get() {
            None => Ok(()),
            Some((same, Stage::Armed)) if same == ticket && stage == Stage::Queued => Ok(()),
            Some(other) => {
                Err(format!("queueing {ticket} of item {item} arrives while {other:?} is pending"))
            }
        }
    }

    fn leave(&mut self, what: Queueing, how: &str) -> Result<(), String> {
        match std::mem::take(&mut self.pending[what.item]).get() {
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
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Armed(what, _) => self.arrive(what, Stage::Armed),
            What::Queued(what, _) => self.arrive(what, Stage::Queued),
            What::Cancelled(what) => self.leave(what, "cancelled"),
            What::Started(what, ..) => {
                self.running[what.item] = what.ticket;
                self.leave(what, "started")
            }
            What::Finished(what, _) => match std::mem::take(&mut self.running[what.item]) {
                ticket if ticket == what.ticket => Ok(()),
                other => Err(format!("{what:?} finished, but queueing {other} ran")),
            },
            _ => Ok(()),
        }
    }

    fn end(&mut self, _world: &World<'_>) -> Result<(), String> {
        for (item, (pending, running)) in self.pending.iter().zip(&self.running).enumerate() {
            if let Some((ticket, stage)) = pending.get() {
                return Err(format!("queueing {ticket} of item {item} was lost ({stage:?})"));
            }
            if *running != 0 {
                let ticket = running;
                return Err(format!("queueing {ticket} of item {item} never finished"));
            }
        }
        Ok(())
    }
}
