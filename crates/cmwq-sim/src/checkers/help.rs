//! An idle pod helps a busy one: no work of a managed queue waits at a pod that is busy computing
//! while another managed pod has an idle CPU and nobody on the way.

use super::waiting::Waiting;
use super::{Checker, Gauge, World};
use crate::Nanos;
use crate::event::{Event, PoolNo};
use crate::places::PoolKind;
use crate::plan::Plan;
use crate::scenario::Flag;

#[derive(Debug)]
pub(super) struct Help {
    waiting: Waiting,
    /// There is more than one pod to expect help from, and the plan has managed queues.
    is_wanted: bool,
    since: Option<Nanos>,
}

impl Help {
    pub(super) fn new(plan: &Plan) -> Self {
        let is_managed = |queue: &crate::scenario::QueueSpec| queue.flags.has(Flag::Managed);
        let is_wanted = plan.queues.iter().any(is_managed);
        Self { waiting: Waiting::new(plan), is_wanted, since: None }
    }

    /// A pod that waits for help, and one that could give it.
    fn find(&self, world: &World<'_>) -> Option<(PoolNo, PoolNo)> {
        let gauges = || world.gauges.iter().enumerate();
        let idle: Vec<_> =
            gauges().filter(|(_, gauge)| could_help(gauge, world)).map(|(pool, _)| pool).collect();
        if idle.is_empty() {
            return None;
        }
        self.waiting.groups.iter().find_map(|group| {
            let mut pools = group.pools().peekable();
            let busy = *pools.peek()?;
            let all_busy = pools.all(|pool| needs_help(&world.gauges[pool]));
            let high = |pool: PoolNo| world.gauges[pool].is_high;
            let helper = idle.iter().find(|&&pool| high(pool) == high(busy))?;
            all_busy.then_some((busy, *helper))
        })
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
    fn name(&self) -> &'static str {
        "help"
    }

    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        if self.is_wanted {
            self.waiting.observe(event);
        }
        Ok(())
    }

    fn settle(
        &mut self,
        now: Nanos,
        until: Option<Nanos>,
        touched: &[PoolNo],
        world: &World<'_>,
    ) -> Result<(), String> {
        let config = world.config;
        // Without a thread to lend there is no help. And nobody looks at the workers of a pod where
        // no work waits: if a report about one is lost or wrong, the pod believes itself busy.
        let may_expect = config.faults.creation_is_sure() && config.faults.detection_is_exact();
        if !self.is_wanted || !config.lending || !may_expect {
            return Ok(());
        }
        let changed = self.waiting.take_changed(touched);
        if changed.is_empty() && touched.is_empty() && self.since.is_none() {
            return Ok(());
        }
        let Some((busy, idle)) = self.find(world) else {
            self.since = None;
            return Ok(());
        };
        let since = *self.since.get_or_insert(now);
        // Pods ask each other when work begins to wait, and at every tick.
        let tick = config.detect.tick.map_or(0, |tick| tick.longest);
        let excused_until = since + config.patience() + 2 * tick;
        if until.is_some_and(|until| until <= excused_until) {
            return Ok(());
        }
        Err(format!(
            "work waits at busy {:?} since {since} ns although {:?} has an idle CPU",
            world.gauges[busy].kind, world.gauges[idle].kind
        ))
    }
}
