//! A flush returns when everything queued before it is done, and does return; so does a wait for
//! one item.

use std::collections::BTreeSet;

use super::{Checker, World};
use crate::event::{Event, Queueing, Ticket, What};
use crate::plan::Plan;

#[derive(Debug, Default)]
struct Item {
    /// The number of the pending queueing on the lists, with its ticket; and of the running one.
    queued: Option<(u64, Ticket)>,
    running: Option<(u64, Ticket)>,
}

#[derive(Debug)]
pub(super) struct Flush {
    items: Vec<Item>,
    next_number: u64,
    /// What is queued or runs, by queue.
    outstanding: Vec<BTreeSet<u64>>,
    /// The first number that each flush need not wait for; `None`: it has returned.
    flushes: Vec<Option<u64>>,
    waits: Vec<Option<Queueing>>,
}

impl Flush {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            items: plan.items.iter().map(|_| Item::default()).collect(),
            next_number: 0,
            outstanding: plan.queues.iter().map(|_| BTreeSet::new()).collect(),
            flushes: Vec::new(),
            waits: Vec::new(),
        }
    }

    fn done(&mut self, what: Queueing, entry: Option<(u64, Ticket)>) {
        if let Some((number, _)) = entry {
            self.outstanding[what.queue].remove(&number);
        }
    }
}

impl Checker for Flush {
    fn name(&self) -> &'static str {
        "flush"
    }

    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Queued(what, _) => {
                self.items[what.item].queued = Some((self.next_number, what.ticket));
                self.outstanding[what.queue].insert(self.next_number);
                self.next_number += 1;
            }
            What::Started(what, ..) => {
                let item = &mut self.items[what.item];
                item.running = item.queued.take();
            }
            What::Cancelled(what) => {
                let entry = self.items[what.item].queued.take();
                self.done(what, entry);
            }
            What::Finished(what, _) => {
                let entry = self.items[what.item].running.take();
                self.done(what, entry);
            }
            What::FlushBegan(..) => self.flushes.push(Some(self.next_number)),
            What::FlushEnded(flush, queue) => {
                let before = self.flushes[flush].take().unwrap_or_default();
                if let Some(&first) = self.outstanding[queue].first().filter(|&&n| n < before) {
                    return Err(format!(
                        "flush {flush} of queue {queue} returns, but what was queued as number {first} before it is not done"
                    ));
                }
            }
            What::WaitBegan(_, what) => self.waits.push(Some(what)),
            What::WaitEnded(wait, what) => {
                self.waits[wait] = None;
                let item = &self.items[what.item];
                let is_it = |entry: &(u64, Ticket)| entry.1 == what.ticket;
                if item.queued.iter().chain(&item.running).any(is_it) {
                    return Err(format!(
                        "the wait for queueing {} of item {} returns before it is done",
                        what.ticket, what.item
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _world: &World<'_>) -> Result<(), String> {
        if let Some(flush) = self.flushes.iter().position(Option::is_some) {
            return Err(format!("flush {flush} never returned"));
        }
        match self.waits.iter().flatten().next() {
            Some(what) => Err(format!("the wait for item {} never returned", what.item)),
            None => Ok(()),
        }
    }
}
