//! No item of a queue with a rescuer waits, while nobody of its pools can come and the rescuer
//! sleeps, for longer than it takes to be called. Whether threads can be had does not matter.

use std::collections::BTreeMap;

use cmwq_core::consts::{MAYDAY_INITIAL_TIMEOUT_NS, MAYDAY_INTERVAL_NS};

use super::{Checker, Moment, World};
use crate::Nanos;
use crate::event::{Event, GroupNo, What, WorkerNo};
use crate::machine::State;
use crate::plan::{Plan, QueueId};
use crate::scenario::Flag;

#[derive(Debug)]
pub(super) struct Rescue {
    is_wanted: bool,
    rescuers: BTreeMap<QueueId, WorkerNo>,
    /// Rescuers in the function of an item.
    busy: Vec<WorkerNo>,
    queue_of: BTreeMap<GroupNo, QueueId>,
    /// Groups that stand still, and since when their rescuer could have been called.
    suspects: BTreeMap<GroupNo, Nanos>,
}

impl Rescue {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            is_wanted: plan.queues.iter().any(|queue| queue.flags.has(Flag::MemReclaim)),
            rescuers: BTreeMap::new(),
            busy: Vec::new(),
            queue_of: BTreeMap::new(),
            suspects: BTreeMap::new(),
        }
    }

    /// The rescuer that is to come for `group`, if it has one.
    fn rescuer(&self, group: GroupNo) -> Option<WorkerNo> {
        self.rescuers.get(self.queue_of.get(&group)?).copied()
    }

    fn is_at_rest(&self, rescuer: WorkerNo, world: &World<'_>) -> bool {
        let is_off = world.machine.threads[rescuer - 1].state == State::Off;
        is_off && !self.busy.contains(&rescuer)
    }
}

impl Checker for Rescue {
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        if !self.is_wanted {
            return Ok(());
        }
        let is_rescuer = |worker| self.rescuers.values().any(|rescuer| *rescuer == worker);
        match event.what {
            What::RescuerMade(queue, worker) => drop(self.rescuers.insert(queue, worker)),
            What::Queued(what, site) => drop(self.queue_of.insert(site.group, what.queue)),
            What::Started(_, site, runner) => {
                if is_rescuer(runner.worker) {
                    self.busy.push(runner.worker);
                }
                if let Some(since) = self.suspects.get_mut(&site.group) {
                    *since = event.t;
                }
            }
            What::Finished(_, runner) => self.busy.retain(|busy| *busy != runner.worker),
            _ => {}
        }
        Ok(())
    }

    fn end_moment(&mut self, moment: &Moment<'_>, world: &World<'_>) -> Result<(), String> {
        if !self.is_wanted {
            return Ok(());
        }
        let at_touched =
            moment.touched.iter().flat_map(|&pool| world.waiting.ready_at(pool)).copied();
        let mut concerned: Vec<GroupNo> = at_touched.collect();
        concerned.extend(world.waiting.changed());
        for group in concerned {
            if self.rescuer(group).is_some() && world.stands_still(group) {
                self.suspects.entry(group).or_insert(moment.now);
            } else {
                self.suspects.remove(&group);
            }
        }
        let mut suspects = std::mem::take(&mut self.suspects);
        let patience = MAYDAY_INITIAL_TIMEOUT_NS + MAYDAY_INTERVAL_NS + world.config.patience();
        let mut late = None;
        for (&group, since) in &mut suspects {
            let Some(rescuer) = self.rescuer(group) else { continue };
            if !self.is_at_rest(rescuer, world) {
                *since = moment.now;
            } else if moment.is_over_at(*since + patience) {
                late.get_or_insert((group, *since));
            }
        }
        self.suspects = suspects;
        late.map_or(Ok(()), |(group, since)| {
            let queue = self.queue_of.get(&group);
            Err(format!(
                "an item of queue {queue:?} waits since {since} ns, and its rescuer sleeps"
            ))
        })
    }
}
