//! Queues that come and go: one goes when all of its items are done, takes none after that, and a
//! pool that no queue leads to any more has no workers in the end.

use super::{Checker, Gauge, World};
use crate::event::{Event, PoolNo, Queueing, What};
use crate::grown::grown;
use crate::plan::Plan;

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// Queueings that wait for their time, wait, or run.
    outstanding: u32,
    is_gone: bool,
}

#[derive(Debug)]
pub(super) struct Life {
    queues: Vec<Queue>,
    /// By item, whether its timer runs.
    is_armed: Vec<bool>,
    /// By pool, how often queues lead to it; `None`: none ever did, or it is never closed.
    leads: Vec<Option<u32>>,
}

impl Life {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            queues: vec![Queue::default(); plan.queues.len()],
            is_armed: vec![false; plan.items.len()],
            leads: Vec::new(),
        }
    }

    fn arrive(&mut self, what: Queueing) -> Result<(), String> {
        let queue = &mut self.queues[what.queue];
        queue.outstanding += 1;
        if queue.is_gone {
            return Err(format!(
                "item {} is queued on queue {}, which has gone",
                what.item, what.queue
            ));
        }
        Ok(())
    }
}

impl Checker for Life {
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::Armed(what, _) => {
                self.is_armed[what.item] = true;
                return self.arrive(what);
            }
            What::Queued(what, _) if !std::mem::take(&mut self.is_armed[what.item]) => {
                return self.arrive(what);
            }
            What::Cancelled(what) => {
                self.is_armed[what.item] = false;
                self.queues[what.queue].outstanding -= 1;
            }
            What::Finished(what, _) => self.queues[what.queue].outstanding -= 1,
            What::QueueGone(number) => {
                let queue = &mut self.queues[number];
                queue.is_gone = true;
                if queue.outstanding != 0 {
                    let left = queue.outstanding;
                    return Err(format!(
                        "queue {number} goes while {left} of its items are not done"
                    ));
                }
            }
            What::QueueMade(queue) => self.queues[queue].is_gone = false,
            What::Linked(_, pool) => *grown(&mut self.leads, pool).get_or_insert(0) += 1,
            What::Unlinked(_, pool) => *grown(&mut self.leads, pool).get_or_insert(0) -= 1,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, world: &World<'_>) -> Result<(), String> {
        let left = |(pool, leads): (PoolNo, &Option<u32>)| {
            let Gauge { kind, nr_workers, .. } = world.gauges[pool];
            // It may be a usual one now.
            let is_unused = *leads == Some(0) && !kind.is_usual();
            (is_unused && nr_workers != 0).then_some((pool, nr_workers))
        };
        match self.leads.iter().enumerate().find_map(left) {
            Some((pool, nr_workers)) => {
                Err(format!("no queue leads to pool {pool}, which keeps {nr_workers} workers"))
            }
            None => Ok(()),
        }
    }
}
