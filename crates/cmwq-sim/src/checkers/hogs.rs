//! Nobody holds up a per-CPU pool for good: while work waits that could start there, an item that
//! computes without sleeping is found within the threshold and some ticks, and another one starts
//! beside it.
//!
//! Looked at when the item blocks or ends: how much CPU time has it used since something last
//! happened in its pool that could have let another one start?

use super::{Checker, World};
use crate::Nanos;
use crate::config::TickRole;
use crate::event::{Event, PoolNo, Runner, What, WorkerNo};
use crate::grown::grown;
use crate::places::PoolKind;
use crate::plan::{Item, Op, Plan};
use crate::scenario::Flag;

/// Ticks until a look begins to measure, until it has measured enough, and until it comes again.
const TICKS: Nanos = 3;
/// Whoever is woken then waits for the CPU.
const SLICES: Nanos = 2;

/// An item that runs.
#[derive(Clone, Copy, Debug)]
struct Run {
    worker: WorkerNo,
    /// What its thread had used of the CPU when the hold began, or it began to run.
    used: Nanos,
}

#[derive(Debug)]
pub(super) struct Hogs {
    /// By item, whether it counts as running, and computes itself.
    counts: Vec<bool>,
    /// By group, its pool. Groups of per-CPU queues have one.
    groups: Vec<Option<PoolNo>>,
    /// By pool, what runs there.
    runs: Vec<Vec<Run>>,
    /// By pool, whether work waited that could start when something last happened there.
    is_held: Vec<bool>,
    /// By pool, from when on it may create another worker after it could not: before, there may be
    /// nobody to start the next item.
    may_create_from: Vec<Nanos>,
}

/// Whether the item counts as running, and its own thread is what computes: who waits for a process
/// is no hog, however long that computes.
fn counts(item: &Item, plan: &Plan) -> bool {
    let waits_for_process = item.ops.iter().any(|op| matches!(op, Op::Process(_)));
    !plan.queues[item.queue].flags.has(Flag::CpuIntensive) && !waits_for_process
}

impl Hogs {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            counts: plan.items.iter().map(|item| counts(item, plan)).collect(),
            groups: Vec::new(),
            runs: Vec::new(),
            is_held: Vec::new(),
            may_create_from: Vec::new(),
        }
    }

    /// Something happened in the pool: what runs there is measured from now on.
    fn restart(&mut self, t: Nanos, pool: PoolNo, world: &World<'_>) {
        for run in grown(&mut self.runs, pool) {
            run.used = world.machine.used(run.worker - 1, t);
        }
    }

    fn begins(&mut self, t: Nanos, runner: Runner, world: &World<'_>) {
        // Rescuers have no pool of their own.
        let Some(home) = world.home(runner.worker) else { return };
        let used = world.machine.used(runner.worker - 1, t);
        grown(&mut self.runs, home).push(Run { worker: runner.worker, used });
    }

    fn ends(&mut self, t: Nanos, runner: Runner, world: &World<'_>) -> Result<(), String> {
        let Some(home) = world.home(runner.worker) else { return Ok(()) };
        let runs = grown(&mut self.runs, home);
        let Some(at) = runs.iter().position(|run| run.worker == runner.worker) else {
            return Ok(());
        };
        let run = runs.swap_remove(at);
        let used = world.machine.used(run.worker - 1, t) - run.used;
        // Without a tick, reports are all there is.
        let Some(longest) = world.config.detect.tick.map(TickRole::longest) else { return Ok(()) };
        let slice = world.config.costs.slice.unwrap_or_default();
        let most = world.config.hog_thresh + TICKS * longest + SLICES * slice;
        let may_create_from = *grown(&mut self.may_create_from, home);
        if !*grown(&mut self.is_held, home) || used <= most || t < may_create_from + most {
            return Ok(());
        }
        Err(format!(
            "worker {} computed for {used} ns while work waited at pool {home}: {most} at most",
            run.worker
        ))
    }
}

impl Checker for Hogs {
    fn observe(&mut self, event: &Event, world: &World<'_>) -> Result<(), String> {
        let config = world.config;
        // Without time slices a worker that computes keeps its CPU in any case.
        let is_sliced = config.costs.slice.is_some();
        if config.hog_thresh == 0 || !is_sliced || !config.detection_is_exact() {
            return Ok(());
        }
        let t = event.t;
        if let What::CreateFailed(pool) = event.what {
            *grown(&mut self.may_create_from, pool) = t + config.create_cooldown;
        }
        match event.what {
            What::WorkerWanted(pool)
            | What::CreateFailed(pool)
            | What::WorkerMade(pool, _)
            | What::WorkerLeft(pool, _) => self.restart(t, pool, world),
            What::CpuLeft(_) | What::CpuReturned(_) => {
                (0..self.runs.len()).for_each(|pool| self.restart(t, pool, world));
            }
            What::Started(what, site, runner) => {
                self.restart(t, site.pool, world);
                let is_home = world.home(runner.worker) == Some(site.pool);
                let is_per_cpu = matches!(world.gauges[site.pool].kind, PoolKind::Cpu(_));
                if is_home && is_per_cpu && self.counts[what.item] {
                    self.begins(t, runner, world);
                }
            }
            What::Queued(_, site) => *grown(&mut self.groups, site.group) = Some(site.pool),
            What::Slept(_, runner) | What::Finished(_, runner) => self.ends(t, runner, world)?,
            What::Woke(what, runner) if self.counts[what.item] => {
                let home = world.home(runner.worker);
                let kind = home.and_then(|home| world.gauges.get(home)).map(|gauge| gauge.kind);
                if matches!(kind, Some(PoolKind::Cpu(_))) {
                    self.begins(t, runner, world);
                }
            }
            _ => {}
        }
        for &group in world.waiting.latest() {
            let Some(&Some(pool)) = self.groups.get(group) else { continue };
            let holds = !world.waiting.ready_at(pool).is_empty();
            if std::mem::replace(grown(&mut self.is_held, pool), holds) != holds {
                self.restart(t, pool, world);
            }
        }
        Ok(())
    }
}
