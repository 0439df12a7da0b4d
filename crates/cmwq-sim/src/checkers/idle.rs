//! No CPU is idle while a worker of a managed queue whose wait in an item is over, or whose item is
//! a hog, waits for another CPU. `stall` and `help` ask about items; this asks about workers.
//!
//! Where reports are late, lost or wrong, a worker that nobody saw block stays where it is. There
//! it is asked only about those that slept, while work waited at their own pool, for so long that
//! the tick found them.

use super::{Checker, Moment, World};
use crate::Nanos;
use crate::event::{Event, GroupNo, PoolNo, What, WorkerNo};
use crate::grown::grown;
use crate::machine::{Place, Tid};

/// What is known of a managed pool.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// How many groups have work that waits there, and nowhere else; and since when some have,
    /// without a break.
    nr_groups: u32,
    waits_since: Option<Nanos>,
    /// Workers that sleep in items, and since when; not those that had to be found already.
    sleepers: Vec<(WorkerNo, Nanos)>,
}

#[derive(Debug, Default)]
pub(super) struct Idle {
    pools: Vec<Pool>,
    /// By group, the only pool where its work waits.
    waits_at: Vec<Option<PoolNo>>,
    /// By worker, whether it had to be found blocked in the item that it runs.
    has_to_be_found: Vec<bool>,
}

impl Idle {
    /// Whoever has slept there for so long that it was found is remembered, unless its pool wants
    /// it to stay.
    fn settle(&mut self, pool: PoolNo, now: Nanos, world: &World<'_>) {
        let Pool { waits_since, sleepers, .. } = grown(&mut self.pools, pool);
        let Some(waits_since) = *waits_since else { return };
        let within = world.config.unnoticed_at_most();
        sleepers.retain(|&(worker, slept)| {
            let is_found = now > waits_since.max(slept) + within;
            if is_found && world.machine.threads[worker - 1].is_movable {
                *grown(&mut self.has_to_be_found, worker) = true;
            }
            !is_found
        });
    }

    /// The worker does not sleep any more.
    fn wakes(&mut self, worker: WorkerNo, now: Nanos, world: &World<'_>) {
        let Some(home) = world.home(worker) else { return };
        self.settle(home, now, world);
        grown(&mut self.pools, home).sleepers.retain(|&(other, _)| other != worker);
    }

    /// Takes up where the group's work waits. If at several pools, some of them may have all of its
    /// limit.
    fn reconsider(&mut self, group: GroupNo, now: Nanos, world: &World<'_>) {
        let mut pools = world.waiting.pools(group);
        let pool = pools.next().filter(|_| pools.next().is_none());
        let before = std::mem::replace(grown(&mut self.waits_at, group), pool);
        if before == pool {
            return;
        }
        if let Some(pool) = pool {
            let pool = grown(&mut self.pools, pool);
            pool.nr_groups += 1;
            pool.waits_since.get_or_insert(now);
        }
        if let Some(before) = before {
            self.pools[before].nr_groups -= 1;
            if self.pools[before].nr_groups == 0 {
                self.settle(before, now, world);
                self.pools[before].waits_since = None;
            }
        }
    }
}

/// A worker that waits for a CPU, and had to be found.
fn complain(tid: Tid, nr_idle: u32, world: &World<'_>) -> String {
    let cpu = world.machine.threads[tid].cpu;
    format!("worker {} waits for CPU {cpu} while {nr_idle} CPUs are idle", tid + 1)
}

impl Checker for Idle {
    fn observe(&mut self, event: &Event, world: &World<'_>) -> Result<(), String> {
        if world.config.detection_is_exact() {
            return Ok(());
        }
        match event.what {
            What::Started(_, _, runner) => *grown(&mut self.has_to_be_found, runner.worker) = false,
            What::Slept(_, runner) => {
                if let Some(home) = world.home(runner.worker) {
                    grown(&mut self.pools, home).sleepers.push((runner.worker, event.t));
                }
            }
            What::Woke(_, runner) => self.wakes(runner.worker, event.t, world),
            _ => {}
        }
        Ok(())
    }

    fn end_moment(&mut self, moment: &Moment<'_>, world: &World<'_>) -> Result<(), String> {
        // Where caches matter, a CPU looks around after a while only.
        if world.config.caches.is_some() {
            return Ok(());
        }
        let nr_idle = world.machine.nr_idle(Place::Domain(world.machine.domains().managed()));
        if world.config.detection_is_exact() {
            let waiting = world.machine.waiting_movable().next();
            let found = waiting.filter(|_| nr_idle > 0);
            return found.map_or(Ok(()), |tid| Err(complain(tid, nr_idle, world)));
        }
        for tid in world.machine.waiting_movable() {
            if world.machine.threads[tid].is_fresh {
                self.wakes(tid + 1, moment.now, world);
            }
            if nr_idle > 0 && *grown(&mut self.has_to_be_found, tid + 1) {
                return Err(complain(tid, nr_idle, world));
            }
        }
        for &group in world.waiting.changed() {
            self.reconsider(group, moment.now, world);
        }
        Ok(())
    }
}
