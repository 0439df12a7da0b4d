//! No work waits that may run while nobody computes in its place and nobody is on the way to it:
//! the promise of concurrency management. For longer than late reports and failed creations
//! explain.

use std::collections::BTreeMap;

use super::{Checker, Moment, World};
use crate::Nanos;
use crate::bitset::BitSet;
use crate::event::{Event, GroupNo, What};
use crate::grown::grown;

#[derive(Debug)]
pub(super) struct Stall {
    /// Groups that stand still, and since when.
    suspects: BTreeMap<GroupNo, Nanos>,
    /// No suspect's time is up before this; looking at all of them at every moment would take long.
    next_due: Nanos,
    /// Pools that are believed to be slack.
    slack: BitSet,
    /// By pool, when a creation last failed.
    failed_at: Vec<Option<Nanos>>,
}

impl Stall {
    pub(super) fn new() -> Self {
        Self {
            suspects: BTreeMap::new(),
            next_due: Nanos::MAX,
            slack: BitSet::default(),
            failed_at: Vec::new(),
        }
    }

    fn reconsider(&mut self, group: GroupNo, now: Nanos, world: &World<'_>) {
        if !world.stands_still(group) {
            self.suspects.remove(&group);
        } else {
            self.suspects.entry(group).or_insert(now);
            self.next_due = self.next_due.min(now);
        }
    }

    /// Until when the group may stand still.
    fn excused_until(&self, group: GroupNo, since: Nanos, world: &World<'_>) -> Nanos {
        let pools = world.waiting.pools(group);
        let retries = pools.filter_map(|pool| {
            Some(self.failed_at.get(pool).copied().flatten()? + world.config.create_cooldown)
        });
        retries.fold(since, Nanos::max) + world.config.patience()
    }
}

impl Checker for Stall {
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            // Slow is not still: every start begins the wait anew.
            What::Started(_, site, _) => {
                if let Some(since) = self.suspects.get_mut(&site.group) {
                    *since = event.t;
                }
            }
            What::CreateFailed(pool) => {
                *grown(&mut self.failed_at, pool) = Some(event.t);
            }
            _ => {}
        }
        Ok(())
    }

    fn end_moment(&mut self, moment: &Moment<'_>, world: &World<'_>) -> Result<(), String> {
        for &group in world.waiting.changed() {
            self.reconsider(group, moment.now, world);
        }
        for &pool in moment.touched {
            // Only where this changed does anything change for those that wait.
            if self.slack.set(pool, world.is_slack(pool)) {
                for &group in world.waiting.ready_at(pool) {
                    self.reconsider(group, moment.now, world);
                }
            }
        }
        if !moment.is_over_at(self.next_due) {
            return Ok(());
        }
        self.next_due = Nanos::MAX;
        for (&group, &since) in &self.suspects {
            let excused_until = self.excused_until(group, since, world);
            if !moment.is_over_at(excused_until) {
                self.next_due = self.next_due.min(excused_until);
                continue;
            }
            let Some(pool) = world.waiting.pools(group).next() else { continue };
            let gauge = &world.gauges[pool];
            return Err(format!(
                "work waits at pool {pool} ({:?}) since {since} ns, where {} of {} workers \
                 compute, none is on the way and {} CPUs are idle",
                gauge.kind,
                gauge.computing,
                gauge.nr_workers,
                world.machine.nr_idle(gauge.kind.place())
            ));
        }
        Ok(())
    }
}
