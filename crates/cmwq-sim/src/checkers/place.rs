//! Nothing runs on a CPU that is offline, and workers run where they belong: those of a CPU on it,
//! those of a pod within it, unless all of that is offline. Nor does an item of a managed queue
//! start on an isolated CPU, unless somebody has named a CPU for it. Unbound and ordered queues
//! lead to no pod without CPUs; only an item that runs there may be queued there again.

use cmwq_core::place;

use super::{Checker, World};
use crate::bitset::BitSet;
use crate::event::{Event, PoolNo, Runner, What};
use crate::machine::Place;
use crate::places::PoolKind;
use crate::plan::Plan;

#[derive(Debug)]
pub(super) struct Placement {
    /// Items for which somebody names a CPU at some time.
    with_cpu: BitSet,
    /// By item, the pool at which it last started.
    last_at: Vec<Option<PoolNo>>,
}

impl Placement {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { with_cpu: plan.with_cpu(), last_at: vec![None; plan.items.len()] }
    }

    fn check_pod(&self, item: usize, pool: PoolNo, world: &World<'_>) -> Result<(), String> {
        let kind = world.gauges[pool].kind;
        let leads_here =
            kind.in_core() == place::PoolKind::Unbound && self.last_at[item] != Some(pool);
        if leads_here && kind.nr_online(world.machine) == 0 {
            return Err(format!("item {item} is queued for {kind:?}, which has no CPU"));
        }
        Ok(())
    }

    fn check_isolated(
        &self,
        item: usize,
        pool: PoolNo,
        cpu: u32,
        world: &World<'_>,
    ) -> Result<(), String> {
        let is_managed = matches!(world.gauges[pool].kind, PoolKind::Managed(_));
        let domains = world.machine.domains();
        if !is_managed || domains.has(domains.managed(), cpu) || self.with_cpu.contains(item) {
            return Ok(());
        }
        Err(format!("item {item}, for which nobody named a CPU, starts on isolated CPU {cpu}"))
    }
}

impl Checker for Placement {
    fn observe(&mut self, event: &Event, world: &World<'_>) -> Result<(), String> {
        let (what, runner) = match event.what {
            What::Queued(what, site) => return self.check_pod(what.item, site.pool, world),
            What::Started(what, site, runner) => {
                self.last_at[what.item] = Some(site.pool);
                self.check_isolated(what.item, site.pool, runner.cpu, world)?;
                // A rescuer belongs to the pool that it visits.
                if world.home(runner.worker).is_none() {
                    return check_place(what.item, site.pool, runner.cpu, world);
                }
                (what, runner)
            }
            What::Slept(what, runner) | What::Woke(what, runner) | What::Finished(what, runner) => {
                (what, runner)
            }
            _ => return Ok(()),
        };
        match world.home(runner.worker) {
            Some(home) => check_worker(what.item, home, runner, world),
            None => Ok(()),
        }
    }
}

/// A worker of a managed pool that has blocked goes on anywhere, until it is idle.
fn check_worker(
    item: usize,
    home: PoolNo,
    runner: Runner,
    world: &World<'_>,
) -> Result<(), String> {
    let is_managed = matches!(world.gauges[home].kind, PoolKind::Managed(_));
    if is_managed && world.machine.is_in_place(runner.worker - 1) {
        return Ok(());
    }
    check_place(item, home, runner.cpu, world)
}

/// Where the pool's workers belong: to its pod, unless they are only woken there.
fn place_of(kind: PoolKind, world: &World<'_>) -> Place {
    let is_loose = world.config.caches.is_some_and(|caches| caches.is_loose);
    match kind.pod_to_leave() {
        Some((_, cpus)) if is_loose => Place::Domain(cpus),
        _ => kind.place(),
    }
}

fn check_place(item: usize, home: PoolNo, cpu: u32, world: &World<'_>) -> Result<(), String> {
    if !world.machine.is_online(cpu) {
        return Err(format!("item {item} runs on CPU {cpu}, which is offline"));
    }
    let kind = world.gauges[home].kind;
    let domains = world.machine.domains();
    let is_at_home = match place_of(kind, world) {
        Place::Cpu(home) => cpu == home || !world.machine.is_online(home),
        Place::Domain(home) => domains.has(home, cpu) || domains.nr_online(home) == 0,
    };
    if is_at_home {
        return Ok(());
    }
    Err(format!("item {item} runs on CPU {cpu}, but its worker belongs to {kind:?}"))
}
