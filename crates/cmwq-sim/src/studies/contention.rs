//! What the locks of pools would have to bear: a run's decisions, as holds of the locks under which
//! a driver makes them.
//!
//! The simulator makes one decision at a time and has no locks. But it knows when each pool is
//! asked for what, and a driver takes the pool's lock for that: once to queue an item, once when a
//! worker that was woken looks for one, once when it has finished an item, which includes finding
//! the next. [`hottest`] lines these holds up behind each other, as a fair lock would, each as long
//! as [`Holds`] says.
//!
//! The model is *open*: who has to wait does not come later to its next item. So it is right as
//! long as locks are free most of the time, tells when they are not any more, and exaggerates
//! waiting from there on. What queueing does without the lock (the runtime's inbox of a pool that
//! has as many workers as it may) is counted as a hold all the same.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Nanos;
use crate::config::{Checks, Config};
use crate::event::{Event, PoolNo, What, WorkerNo};
use crate::plan::{Call, Item, Op, Plan};
use crate::rng::Rng;
use crate::scenario::{Flag, Flags, QueueSpec};
use crate::topology::{Scope, Shape};

/// How long a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// For one call of the core.
    pub hold: Nanos,
    /// The more if the one before was another thread: the lock and what it protects are in that
    /// one's cache.
    pub transfer: Nanos,
}

/// What the most wanted lock has to bear.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Contention {
    /// Holds of all locks, per item.
    pub holds_per_item: f64,
    /// The part of all holds that are of this lock.
    pub share: f64,
    /// The part of the time in which it is held; more than 1 if it cannot be held as often as it is
    /// wanted.
    pub utilisation: f64,
    /// How long one waits for it, on average.
    pub mean_wait: f64,
    /// How long 99 of 100 wait at most.
    pub p99_wait: f64,
}

/// One lock.
#[derive(Debug, Default)]
struct Lock {
    free_at: Nanos,
    last: Option<WorkerNo>,
    held: Nanos,
    waits: Vec<Nanos>,
}

impl Lock {
    /// `who` is `None` for a caller from outside, who is somebody else each time.
    fn take(&mut self, at: Nanos, who: Option<WorkerNo>, holds: Holds) {
        let is_near = who.is_some() && self.last == who;
        let hold = holds.hold + if is_near { 0 } else { holds.transfer };
        let from = self.free_at.max(at);
        self.waits.push(from - at);
        self.free_at = from + hold;
        self.held += hold;
        self.last = who;
    }
}

/// Lines up what the events of a run demand of each pool's lock.
#[must_use]
pub fn hottest(events: &[Event], holds: Holds) -> Contention {
    let mut locks: HashMap<PoolNo, Lock> = HashMap::new();
    // By worker, where it runs an item, or when and where it has just finished one.
    let mut running: HashMap<WorkerNo, PoolNo> = HashMap::new();
    let mut finished: HashMap<WorkerNo, (Nanos, PoolNo)> = HashMap::new();
    let mut items = 0_u64;
    for Event { t, what } in events {
        match *what {
            What::Queued(_, site) => {
                items += 1;
                locks.entry(site.pool).or_default().take(*t, None, holds);
            }
            What::Started(_, site, runner) => {
                running.insert(runner.worker, site.pool);
                if finished.remove(&runner.worker) != Some((*t, site.pool)) {
                    locks.entry(site.pool).or_default().take(*t, Some(runner.worker), holds);
                }
            }
            What::Finished(_, runner) => {
                if let Some(pool) = running.remove(&runner.worker) {
                    locks.entry(pool).or_default().take(*t, Some(runner.worker), holds);
                    finished.insert(runner.worker, (*t, pool));
                }
            }
            _ => {}
        }
    }
    let length = events.last().map_or(0, |event| event.t).max(1) as f64;
    let total: usize = locks.values().map(|lock| lock.waits.len()).sum();
    // Equal ones differ in nothing that is told but perhaps the waits: the longest.
    let key = |lock: &Lock| (lock.held, lock.waits.iter().sum::<Nanos>());
    let Some(mut lock) = locks.into_values().max_by_key(key) else { return Contention::default() };
    lock.waits.sort_unstable();
    let nr = lock.waits.len();
    Contention {
        holds_per_item: total as f64 / items.max(1) as f64,
        share: nr as f64 / total.max(1) as f64,
        utilisation: lock.held as f64 / length,
        mean_wait: lock.waits.iter().sum::<Nanos>() as f64 / nr.max(1) as f64,
        p99_wait: lock.waits.get(nr * 99 / 100).copied().unwrap_or_default() as f64,
    }
}

/// One managed queue on a machine whose CPUs share a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// CPUs.
    pub cpus: u32,
    /// Which CPUs a pool serves.
    pub scope: Scope,
    /// All items come from one CPU; otherwise from any.
    pub one_producer: bool,
    /// How long an item computes on average.
    pub burn: Nanos,
    /// The part of the CPUs that items take, in hundredths.
    pub load: u64,
    /// Items.
    pub items: usize,
    /// Of times and lengths.
    pub seed: u64,
}

impl Load {
    fn plan(&self) -> Plan {
        let mut rng = Rng::new(self.seed);
        let flags = Flags::NONE.with(Flag::Managed);
        let scope = Some(self.scope);
        let queue = QueueSpec { name: "q".to_owned(), flags, scope, ..QueueSpec::default() };
        let mut plan = Plan { queues: vec![queue], ..Plan::default() };
        let mut at_ps = 0;
        for item in 0..self.items {
            let ops: Arc<[Op]> = [Op::Burn(rng.between(1, 2 * self.burn))].into();
            plan.items.push(Item { queue: 0, ops, nr_queueings: 0 });
            let mean_gap = self.burn * 1_000 * 100 / self.load.max(1) / u64::from(self.cpus);
            at_ps += rng.below(2 * mean_gap + 1);
            // Every pool has to be there, or nobody can help: each gets an item before that.
            let cpu = if item < self.cpus as usize {
                item as u32
            } else if self.one_producer {
                0
            } else {
                rng.below(u64::from(self.cpus)) as u32
            };
            plan.calls.push(Call { at: at_ps / 1_000, op: Op::Queue { item, cpu: Some(cpu) } });
        }
        plan
    }

    /// Runs it; what the most wanted lock would have had to bear.
    ///
    /// # Panics
    /// If the core finds one of its invariants broken (in builds with debug assertions).
    #[must_use]
    pub fn run(&self, holds: Holds) -> Contention {
        let config = Config {
            shape: Shape::Pods { cpus: self.cpus, pod_cpus: self.cpus, node_pods: 1 },
            checks: Checks::None,
            keep_events: true,
            ..super::round_costs()
        };
        let mut outcome = crate::simulate(&self.plan(), &config);
        let is_last = |event: &Event| event.t > outcome.last_item;
        let end = outcome.events.iter().position(is_last).unwrap_or(outcome.events.len());
        outcome.events.truncate(end);
        hottest(&outcome.events, holds)
    }
}
