//! Pools and queues that stand still are reported, in time, and nothing else. Of circles only that
//! those wait that are said to: events do not say who waits for what.

use super::{Checker, Moment, World};
use crate::Nanos;
use crate::event::{Event, GroupNo, PoolNo, What};
use crate::grown::grown;
use crate::places::PoolKind;
use crate::plan::QueueId;

#[derive(Debug)]
pub(super) struct Watchdog {
    thresh: Nanos,
    pools: Vec<Pool>,
    queues: Vec<Queue>,
    groups: Vec<Group>,
    /// By item, since when its run is blocked.
    slept: Vec<Option<Nanos>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    started: Option<Nanos>,
    /// Since when something waits here, nothing is started, and nothing is said.
    still_since: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// When something of it was last started. What has ended is told to the pool later.
    started: Option<Nanos>,
    /// Since when something is held up, nothing starts or ends, and nothing is said.
    still_since: Option<Nanos>,
    is_frozen: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Of which something was queued.
    queue: Option<QueueId>,
    limit: u32,
    /// More may have been admitted than the limit says.
    was_lowered: bool,
}

impl Watchdog {
    pub(super) fn new(thresh: Nanos) -> Self {
        Self {
            thresh,
            pools: Vec::new(),
            queues: Vec::new(),
            groups: Vec::new(),
            slept: Vec::new(),
        }
    }

    /// A quarter until it begins to look, and another one because it looked just before.
    const fn due(&self, since: Nanos) -> Nanos {
        since + self.thresh + self.thresh / 2
    }

    fn goes_on(&mut self, queue: QueueId) {
        grown(&mut self.queues, queue).still_since = None;
    }

    fn limit_is_set(&mut self, group: GroupNo, limit: u32) {
        let group = grown(&mut self.groups, group);
        group.was_lowered |= limit < group.limit;
        group.limit = limit;
        if let Some(queue) = group.queue {
            self.goes_on(queue);
        }
    }

    /// Whether something waits at the pool that has a slot.
    fn waits_with_slot(pool: PoolNo, world: &World<'_>) -> bool {
        let ready = world.waiting.ready_at(pool);
        match world.gauges[pool].kind {
            PoolKind::Cpu(_) => !ready.is_empty(),
            // A node's slots may be held by what waits at another pool.
            _ => ready.iter().any(|group| world.waiting.has_room_for_all(*group)),
        }
    }

    fn end_moment_of_pools(
        &mut self,
        moment: &Moment<'_>,
        world: &World<'_>,
    ) -> Result<(), String> {
        for number in 0..self.pools.len() {
            let waits = Self::waits_with_slot(number, world);
            let since = &mut self.pools[number].still_since;
            *since = since.or(Some(moment.now)).filter(|_| waits);
            if let Some(since) = self.pools[number].still_since
                && moment.until.is_some_and(|until| until > self.due(since))
            {
                return Err(format!(
                    "work waits at pool {number} since {since} ns, nothing is started, and nobody \
                     says so"
                ));
            }
        }
        Ok(())
    }

    fn end_moment_of_queues(
        &mut self,
        moment: &Moment<'_>,
        world: &World<'_>,
    ) -> Result<(), String> {
        let mut is_held_up = vec![false; self.queues.len()];
        for (number, group) in self.groups.iter().enumerate() {
            if let Some(queue) = group.queue {
                is_held_up[queue] |= !group.was_lowered && world.waiting.is_held_up(number);
            }
        }
        for (number, is_held_up) in is_held_up.into_iter().enumerate() {
            let queue = &mut self.queues[number];
            let waits = is_held_up && !queue.is_frozen;
            queue.still_since = queue.still_since.or(Some(moment.now)).filter(|_| waits);
            if let Some(since) = queue.still_since
                && moment.until.is_some_and(|until| until > self.due(since))
            {
                return Err(format!(
                    "queue {number} is at its limit since {since} ns, nothing of it starts or \
                     ends, and nobody says so"
                ));
            }
        }
        Ok(())
    }
}

impl Checker for Watchdog {
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        let (t, thresh) = (event.t, self.thresh);
        match event.what {
            What::Queued(what, site) => {
                grown(&mut self.pools, site.pool);
                grown(&mut self.queues, what.queue);
                grown(&mut self.groups, site.group).queue = Some(what.queue);
            }
            What::Started(what, site, _) => {
                let queue = grown(&mut self.queues, what.queue);
                (queue.started, queue.still_since) = (Some(t), None);
                *grown(&mut self.pools, site.pool) = Pool { started: Some(t), still_since: None };
            }
            // A barrier that is passed is a start, too, and behind an item that is taken back
            // another one may begin to wait; events do not say where.
            What::WaitEnded(..) => {
                self.pools.iter_mut().for_each(|pool| pool.still_since = None);
            }
            What::Cancelled(what) => {
                self.pools.iter_mut().for_each(|pool| pool.still_since = None);
                self.goes_on(what.queue);
            }
            What::Finished(what, _) => self.goes_on(what.queue),
            What::LimitSet(group, limit) => self.limit_is_set(group, limit),
            What::Frozen(queue, is_frozen) => {
                let queue = grown(&mut self.queues, queue);
                (queue.is_frozen, queue.still_since) = (is_frozen, None);
            }
            What::Stalled(number, time) => {
                let pool = grown(&mut self.pools, number);
                pool.still_since = None;
                let is_still = pool.started.is_none_or(|started| t - started >= time);
                if time < thresh || !is_still {
                    return Err(format!(
                        "pool {number} is reported for {time} ns, and started something at {:?}",
                        pool.started
                    ));
                }
            }
            // Who waits has been blocked since.
            What::Slept(what, _) => *grown(&mut self.slept, what.item) = Some(t),
            What::Woke(what, _) => *grown(&mut self.slept, what.item) = None,
            What::CircleStalled(item, time) => {
                let since = *grown(&mut self.slept, item);
                if time < thresh || since.is_none_or(|since| t - since < time) {
                    return Err(format!(
                        "item {item} is said to have waited in a circle for {time} ns, and sleeps \
                         since {since:?}"
                    ));
                }
            }
            What::QueueStalled(queue, time) => {
                self.goes_on(queue);
                let started = self.queues[queue].started;
                if time < thresh || started.is_some_and(|started| t - started < time) {
                    return Err(format!(
                        "queue {queue} is reported for {time} ns, and started something at \
                         {started:?}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end_moment(&mut self, moment: &Moment<'_>, world: &World<'_>) -> Result<(), String> {
        self.end_moment_of_pools(moment, world)?;
        self.end_moment_of_queues(moment, world)
    }
}
