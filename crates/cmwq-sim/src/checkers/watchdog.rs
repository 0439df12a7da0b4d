//! What stands still is reported, in time, and nothing else.

use super::{Checker, Moment, World};
use crate::Nanos;
use crate::event::{Event, What};
use crate::grown::grown;
use crate::places::PoolKind;

#[derive(Debug)]
pub(super) struct Watchdog {
    thresh: Nanos,
    pools: Vec<Pool>,
    /// By queue, when something of it was last started. What has ended is told to the pool later.
    started: Vec<Option<Nanos>>,
    /// By item, since when its run is blocked.
    slept: Vec<Option<Nanos>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    started: Option<Nanos>,
    /// Since when something waits here, nothing is started, and nothing is said.
    still_since: Option<Nanos>,
}

impl Watchdog {
    pub(super) fn new(thresh: Nanos) -> Self {
        Self { thresh, pools: Vec::new(), started: Vec::new(), slept: Vec::new() }
    }
}

impl Checker for Watchdog {
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        let (t, thresh) = (event.t, self.thresh);
        match event.what {
            What::Queued(_, site) => _ = grown(&mut self.pools, site.pool),
            What::Started(what, site, _) => {
                *grown(&mut self.started, what.queue) = Some(t);
                *grown(&mut self.pools, site.pool) = Pool { started: Some(t), still_since: None };
            }
            // A barrier that is passed is a start, too, and behind an item that is taken back
            // another one may begin to wait; events do not say where.
            What::WaitEnded(..) | What::Cancelled(_) => {
                self.pools.iter_mut().for_each(|pool| pool.still_since = None);
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
                let started = *grown(&mut self.started, queue);
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
        for (number, pool) in self.pools.iter_mut().enumerate() {
            // Elsewhere a node's slots may be held by what waits at another pool.
            let has_own_slots = matches!(world.gauges[number].kind, PoolKind::Cpu(_));
            if !has_own_slots || world.waiting.ready_at(number).is_empty() {
                pool.still_since = None;
                continue;
            }
            let since = *pool.still_since.get_or_insert(moment.now);
            // A quarter until it begins to look, and another one because it looked just before.
            let due = since + self.thresh + self.thresh / 2;
            if moment.until.is_some_and(|until| until > due) {
                return Err(format!(
                    "work waits at pool {number} since {since} ns, nothing is started, and nobody \
                     says so"
                ));
            }
        }
        Ok(())
    }
}
