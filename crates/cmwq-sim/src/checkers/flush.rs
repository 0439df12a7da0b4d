//! A flush returns when everything queued before it is done, and does return; so does a wait for
//! one item, which finds it idle only if it does not run.

use std::collections::BTreeSet;

use super::{Checker, World};
use crate::event::{Event, Queueing, What};
use crate::plan::Plan;

/// A queueing: its number among those that came on the lists, and its ticket. In 8 bytes, because
/// there are two for every item of the run. LIMIT: 2^32 queueings.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    number: u32,
    /// 0: nothing is queued.
    ticket: u32,
}

#[derive(Clone, Debug, Default)]
struct Item {
    queued: Entry,
    running: Entry,
}

#[derive(Debug)]
pub(super) struct Flush {
    items: Vec<Item>,
    next_number: u32,
    /// What is queued or runs, by queue.
    outstanding: Vec<BTreeSet<u32>>,
    /// The first number that each flush need not wait for; `None`: it has returned.
    flushes: Vec<Option<u32>>,
    waits: Vec<Option<Queueing>>,
}

impl Flush {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            items: vec![Item::default(); plan.items.len()],
            next_number: 0,
            outstanding: plan.queues.iter().map(|_| BTreeSet::new()).collect(),
            flushes: Vec::new(),
            waits: Vec::new(),
        }
    }

    fn done(&mut self, what: Queueing, entry: Entry) {
        if entry.ticket != 0 {
            self.outstanding[what.queue].remove(&entry.number);
        }
    }
}

impl Checker for Flush {
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Queued(what, _) => {
                let entry = Entry { number: self.next_number, ticket: what.ticket as u32 };
                self.items[what.item].queued = entry;
                self.outstanding[what.queue].insert(self.next_number);
                self.next_number += 1;
            }
            What::Started(what, ..) => {
                let item = &mut self.items[what.item];
                item.running = std::mem::take(&mut item.queued);
            }
            What::Cancelled(what) => {
                let entry = std::mem::take(&mut self.items[what.item].queued);
                self.done(what, entry);
            }
            What::Finished(what, _) => {
                let entry = std::mem::take(&mut self.items[what.item].running);
                self.done(what, entry);
            }
            What::FlushBegan(..) => self.flushes.push(Some(self.next_number)),
            What::FlushEnded(flush, queue) => {
                let before = self.flushes[flush].take().unwrap_or_default();
                if let Some(&first) = self.outstanding[queue].first().filter(|&&n| n < before) {
                    return Err(format!(
                        "flush {flush} of queue {queue} returns, but what was queued as number \
                         {first} before it is not done"
                    ));
                }
            }
            What::FoundIdle(item) if self.items[item].running.ticket != 0 => {
                return Err(format!("who waits for item {item} finds it idle, and it runs"));
            }
            What::WaitBegan(_, what) => self.waits.push(Some(what)),
            What::WaitEnded(wait, what) => {
                self.waits[wait] = None;
                let item = &self.items[what.item];
                let is_it = |entry: Entry| entry.ticket == what.ticket as u32;
                if is_it(item.queued) || is_it(item.running) {
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
