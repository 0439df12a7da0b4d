//! An idle pod helps a busy one: no work of a managed queue waits at a pod that is busy computing
//! while another managed pod has an idle CPU and nobody on the way.

use std::collections::BTreeSet;

use super::{Checker, Gauge, Moment, World};
use crate::Nanos;
use crate::bitset::BitSet;
use crate::config::TickRole;
use crate::event::{GroupNo, PoolNo};
use crate::places::PoolKind;
use crate::plan::Plan;
use crate::scenario::Flag;

#[derive(Debug)]
pub(super) struct Help {
    /// There is more than one pod to expect help from, and the plan has managed queues.
    is_wanted: bool,
    since: Option<Nanos>,
    /// Pools that are busy, and pools that could help.
    busy: BitSet,
    /// Of normal and of high priority.
    helpers: [BitSet; 2],
    in_need: [BTreeSet<GroupNo>; 2],
}

impl Help {
    pub(super) fn new(plan: &Plan) -> Self {
        let is_managed = |queue: &crate::scenario::QueueSpec| queue.flags.has(Flag::Managed);
        let is_wanted = plan.queues.iter().any(is_managed);
        Self {
            is_wanted,
            since: None,
            busy: BitSet::default(),
            helpers: Default::default(),
            in_need: Default::default(),
        }
    }

    /// A pod that waits for help, and one that could give it.
    fn find(&self, world: &World<'_>) -> Option<(PoolNo, PoolNo)> {
        self.in_need.iter().zip(&self.helpers).find_map(|(in_need, helpers)| {
            let helper = helpers.next_from(0)?;
            let group = *in_need.first()?;
            Some((world.waiting.pools(group).next()?, helper))
        })
    }

    /// Takes up what changed: of pools, and of groups.
    fn update(&mut self, touched: &[PoolNo], world: &World<'_>) {
        for &group in world.waiting.changed() {
            self.reconsider(group, world);
        }
        for &pool in touched {
            let gauge = &world.gauges[pool];
            self.helpers[usize::from(gauge.is_high)].set(pool, could_help(gauge, world));
            if self.busy.set(pool, needs_help(gauge)) {
                for &group in world.waiting.ready_at(pool) {
                    self.reconsider(group, world);
                }
            }
        }
    }

    fn reconsider(&mut self, group: GroupNo, world: &World<'_>) {
        let mut pools = world.waiting.pools(group).peekable();
        let first = pools.peek().copied();
        let is_in_need = pools.all(|pool| needs_help(&world.gauges[pool]));
        match first {
            Some(pool) if is_in_need => {
                self.in_need[usize::from(world.gauges[pool].is_high)].insert(group);
            }
            _ => {
                for in_need in &mut self.in_need {
                    in_need.remove(&group);
                }
            }
        }
    }
}

fn needs_help(gauge: &Gauge) -> bool {
    let is_managed = matches!(gauge.kind, PoolKind::Managed(_));
    is_managed && gauge.transit == 0 && gauge.computing >= gauge.concurrency
}

fn could_help(gauge: &Gauge, world: &World<'_>) -> bool {
    matches!(gauge.kind, PoolKind::Managed(_))
        && gauge.transit == 0
        && gauge.computing < gauge.concurrency
        && world.machine.nr_idle(gauge.kind.place()) > 0
}

impl Checker for Help {
    fn end_moment(&mut self, moment: &Moment<'_>, world: &World<'_>) -> Result<(), String> {
        let config = world.config;
        // Without a thread to lend there is no help.
        let may_expect = config.faults.creation_is_sure();
        if !self.is_wanted || !config.lending || !may_expect {
            return Ok(());
        }
        self.update(moment.touched, world);
        let Some((busy, idle)) = self.find(world) else {
            self.since = None;
            return Ok(());
        };
        let since = *self.since.get_or_insert(moment.now);
        // Pods ask each other when work begins to wait, and at every tick.
        let tick = config.detect.tick.map_or(0, TickRole::longest);
        let excused_until = since + config.patience() + 2 * tick;
        if !moment.is_over_at(excused_until) {
            return Ok(());
        }
        Err(format!(
            "work waits at busy {:?} since {since} ns although {:?} has an idle CPU",
            world.gauges[busy].kind, world.gauges[idle].kind
        ))
    }
}
