//! An idle pod helps a busy one: no work of a managed queue waits at a pod that is busy computing,
//! or whose workers are on the way and get no CPU, while another managed pod has an idle CPU and
//! nobody on the way.

use std::collections::BTreeMap;

use cmwq_core::consts::TICKS_UNTIL_STARVED;
use cmwq_core::help::WATCHED;

use super::{Checker, Gauge, Moment, World};
use crate::Nanos;
use crate::bitset::BitSet;
use crate::board::Board;
use crate::config::{Config, TickRole};
use crate::event::{GroupNo, PoolNo};
use crate::places::PoolKind;
use crate::plan::Plan;
use crate::scenario::Flag;

/// For how many time slices a helper that was called may wait for its CPU.
const TURNS: u64 = 4;

#[derive(Debug)]
pub(super) struct Help {
    /// There is more than one pod to expect help from, and the plan has managed queues.
    is_wanted: bool,
    /// Pools that are busy, and pools that could help.
    busy: BitSet,
    /// Of normal and of high priority.
    helpers: [BitSet; 2],
    /// Since when there are any, without a break.
    helpers_since: [Option<Nanos>; 2],
    /// And since when each group is in need at each pool where it waits. By pool, since a group of
    /// many pools may wait always, each time at another one, and be helped each time.
    in_need: [BTreeMap<(GroupNo, PoolNo), Nanos>; 2],
    /// Of the board, once it was asked for.
    nr_words: Option<usize>,
}

impl Help {
    pub(super) fn new(plan: &Plan) -> Self {
        let is_managed = |queue: &crate::scenario::QueueSpec| queue.flags.has(Flag::Managed);
        let is_wanted = plan.queues.iter().any(is_managed);
        Self {
            is_wanted,
            busy: BitSet::default(),
            helpers: Default::default(),
            helpers_since: [None; 2],
            in_need: Default::default(),
            nr_words: None,
        }
    }

    /// A pod that waits for help, and one that could give it; and since when the group that waits
    /// there has been in need while somebody could have helped. The longest such time.
    fn find(&self) -> Option<(PoolNo, PoolNo, Nanos)> {
        let by_priority = self.in_need.iter().zip(&self.helpers).zip(&self.helpers_since);
        let longest = by_priority.filter_map(|((in_need, helpers), since)| {
            let (helper, since) = (helpers.next_from(0)?, (*since)?);
            let (&(_, pool), &needs_since) = in_need.iter().min_by_key(|(_, since)| **since)?;
            Some((pool, helper, since.max(needs_since)))
        });
        longest.min_by_key(|&(_, _, since)| since)
    }

    /// At how many ticks some pods have others' workers looked at, before all have been: those of a
    /// pod of which a false report says that it computes. 0: there are no such reports.
    fn turns_to_watch(&mut self, world: &World<'_>) -> u64 {
        if world.config.faults.detection_is_exact() {
            return 0;
        }
        let nr_words = || Board::new(world.machine.domains()).nr_words();
        let nr_words = *self.nr_words.get_or_insert_with(nr_words);
        let nr_pods = world.gauges.iter().filter(|it| matches!(it.kind, PoolKind::Managed(_)));
        // Every other turn may be the asker's own word's.
        2 * (nr_words + nr_pods.count() / WATCHED) as u64
    }

    /// Takes up what changed: of pools, and of groups.
    fn update(&mut self, now: Nanos, touched: &[PoolNo], world: &World<'_>) {
        let mut groups = Vec::new();
        for &pool in touched {
            let gauge = &world.gauges[pool];
            self.helpers[usize::from(gauge.is_high)].set(pool, could_help(gauge, world));
            let ready = world.waiting.ready_at(pool);
            let is_known = world.config.faults.spurious == 0;
            let needs_it = is_known && self.busy.contains(pool) && !ready.is_empty();
            if self.busy.set(pool, needs_help(gauge, needs_it)) {
                groups.extend(ready);
            }
        }
        for &group in world.waiting.changed().iter().chain(&groups) {
            self.reconsider(group, now, world);
        }
        for (since, helpers) in self.helpers_since.iter_mut().zip(&self.helpers) {
            let is_any = helpers.next_from(0).is_some();
            *since = is_any.then(|| since.unwrap_or(now));
        }
    }

    /// A group whose limit leaves room for one item only is in need at no pool while one of them
    /// will run it.
    fn reconsider(&mut self, group: GroupNo, now: Nanos, world: &World<'_>) {
        let pools = || world.waiting.pools(group);
        let is_in_need = pools().all(|pool| self.busy.contains(pool));
        let stays = |pool| is_in_need && pools().any(|waits_at| waits_at == pool);
        for in_need in &mut self.in_need {
            let before = in_need.range((group, PoolNo::MIN)..=(group, PoolNo::MAX));
            let before = before.map(|(&it, _)| it);
            let over: Vec<_> = before.filter(|&(_, pool)| !stays(pool)).collect();
            for key in over {
                in_need.remove(&key);
            }
        }
        for pool in pools().filter(|_| is_in_need) {
            let in_need = &mut self.in_need[usize::from(world.gauges[pool].is_high)];
            in_need.entry((group, pool)).or_insert(now);
        }
    }
}

/// A pod that [needs help](Help::busy) goes on to do so while its workers are on the way: they may
/// get no CPU. Nobody looks for that where no worker was busy, or was thought to be.
fn needs_help(gauge: &Gauge, needs_it: bool) -> bool {
    let Gauge { computing, transit, concurrency, .. } = *gauge;
    matches!(gauge.kind, PoolKind::Managed(_))
        && (needs_it || transit == 0)
        && computing + transit >= concurrency
}

fn could_help(gauge: &Gauge, world: &World<'_>) -> bool {
    gauge.kind.could_help(world.machine)
        && gauge.transit == 0
        && gauge.computing < gauge.concurrency
        && world.machine.nr_idle(gauge.kind.place()) > 0
}

/// For how long a helper that was called may wait for its CPU: for a few turns, since another pod's
/// worker may have woken up there; where there are no turns, for a foreign program.
fn waits_for_cpu(config: &Config) -> Nanos {
    let faults = &config.faults;
    match config.costs.slice {
        Some(slice) => TURNS * slice,
        None if faults.foreign_cpus == 0 => 0,
        None => faults.foreign.1 * faults.slowness.max(100) / 100,
    }
}

impl Checker for Help {
    fn end_moment(&mut self, moment: &Moment<'_>, world: &World<'_>) -> Result<(), String> {
        let config = world.config;
        // Without a thread to lend there is no help.
        let may_expect = config.faults.creation_is_sure();
        if !self.is_wanted || !config.lending || !may_expect {
            return Ok(());
        }
        self.update(moment.now, moment.touched, world);
        let Some((busy, idle, since)) = self.find() else { return Ok(()) };
        // Pods ask each other when work begins to wait, and at every tick, of which some must find
        // that nobody comes.
        let tick = config.detect.tick.map_or(0, TickRole::longest);
        let ticks = 2 + u64::from(TICKS_UNTIL_STARVED) + self.turns_to_watch(world);
        let excused_until = since + config.patience() + ticks * tick + waits_for_cpu(config);
        if !moment.is_over_at(excused_until) {
            return Ok(());
        }
        Err(format!(
            "work waits at busy {:?} since {since} ns although {:?} has an idle CPU",
            world.gauges[busy].kind, world.gauges[idle].kind
        ))
    }
}
