//! The checkers: they watch a run from outside and complain. None looks into the core.
//!
//! They see the events, and the *gauges*: what the simulator itself knows of its threads (how many
//! of a pool's workers are computing, on their way to work, being created), which is not what the
//! core believes.
//!
//! | checker | complains if |
//! |---|---|
//! | `stall` | work waits, may run, and nobody computes in its place or is on the way, for longer than late reports explain |
//! | `help` | work waits at a busy pod while another pod is idle, likewise |
//! | `board` | pods look at more of each other, or of the board, than so much for each item, block and idle worker (asked at the end) |
//! | `idle` | a worker whose wait is over waits for a CPU while another CPU is idle |
//! | `hogs` | an item that computes holds up a per-CPU pool for longer than the threshold and some ticks |
//! | `concurrency` | an item starts while as many workers compute as the pool has CPUs |
//! | `unseen` | a pool begins an item for an idle CPU alone, and its processes do not wait soon |
//! | `reentrance` | an item runs twice at once |
//! | `limit` | more items of a queue run than `max_active` allows |
//! | `node` | an unbound queue's limit is not split over the nodes as it should be |
//! | `place` | something runs on a CPU that is offline, or where its worker does not belong; or an item of a managed queue for which nobody named a CPU starts on an isolated one |
//! | `conservation` | what was queued is not run or cancelled exactly once |
//! | `order` | items of one queue and pool start in another order than they were queued |
//! | `life` | a queue goes before its items are done, is used after that, or leaves workers |
//! | `flush` | a flush returns too early, or never |
//! | `delay` | a delayed item is queued before its time, or long after it |
//! | `rescue` | an item of a queue with a rescuer waits, nobody can come for it, and the rescuer sleeps on |
//! | `watchdog` | a pool or a queue that stands still is not reported in time, or another one is, or items as a circle that do not wait (where there is a watchdog) |
//! | `bounds` | a pool has more workers than it needs |

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;

use crate::Nanos;
use crate::config::{Checks, Config};
use crate::event::{Digest, Event, GroupNo, PoolNo, What, WorkerNo};
use crate::grown::grown;
use crate::machine::Machine;
use crate::places::PoolKind;
use crate::plan::Plan;
use crate::report::Violation;

mod bounds;
mod concurrency;
mod conservation;
mod delay;
mod flush;
mod help;
mod hogs;
mod idle;
mod life;
mod limit;
mod node;
mod order;
mod place;
mod reentrance;
mod rescue;
mod stall;
mod unseen;
mod waiting;
mod watchdog;

use waiting::Waiting;

/// What the simulator's own threads do for a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauge {
    pub(crate) kind: PoolKind,
    pub(crate) is_high: bool,
    pub(crate) concurrency: u32,
    pub(crate) nr_workers: u32,
    /// Workers in the function of an item, blocked or not, here or elsewhere.
    pub(crate) executing: u32,
    /// Of those, the ones that have a CPU, or lost it to another thread.
    pub(crate) computing: u32,
    /// The same for items that do not count.
    pub(crate) intensive: u32,
    /// Workers whose wait is over but that have had no CPU since.
    pub(crate) waking: u32,
    /// Workers that are awake without an item, and workers in the making.
    pub(crate) transit: u32,
    /// Workers in the making.
    pub(crate) creating: u32,
    /// Workers that were told to leave and have not had a CPU to do so.
    pub(crate) leaving: u32,
}

impl Gauge {
    pub(crate) const fn new(kind: PoolKind, is_high: bool, concurrency: u32) -> Self {
        Self {
            kind,
            is_high,
            concurrency,
            nr_workers: 0,
            executing: 0,
            computing: 0,
            intensive: 0,
            waking: 0,
            transit: 0,
            creating: 0,
            leaving: 0,
        }
    }
}

/// What checkers may look at beside the event: of the simulator, and what the events tell of work
/// that waits.
pub(crate) struct World<'a> {
    scene: Scene<'a>,
    waiting: &'a Waiting,
    homes: &'a [Option<PoolNo>],
}

impl World<'_> {
    /// The worker's own pool. Rescuers have none.
    fn home(&self, worker: WorkerNo) -> Option<PoolNo> {
        *self.homes.get(worker)?
    }

    /// Whether the pool has room: nothing is in transit and fewer workers compute or wake than its
    /// concurrency.
    fn is_slack(&self, pool: PoolNo) -> bool {
        let gauge = &self.gauges[pool];
        // The tick takes one that only waits for a CPU for running.
        let waking = if self.config.detect.tick.is_some() { gauge.waking } else { 0 };
        gauge.transit == 0 && gauge.computing + waking < gauge.concurrency
    }

    /// Whether `group` stands still: it has work that may run, and at none of its pools somebody
    /// computes in its place or is on the way.
    fn stands_still(&self, group: GroupNo) -> bool {
        let mut pools = self.waiting.pools(group).peekable();
        pools.peek().is_some() && pools.all(|pool| self.is_slack(pool))
    }
}

/// The simulator's part of a [`World`].
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) config: &'a Config,
    pub(crate) gauges: &'a [Gauge],
    pub(crate) machine: &'a Machine,
}

impl<'a> Deref for World<'a> {
    type Target = Scene<'a>;

    fn deref(&self) -> &Scene<'a> {
        &self.scene
    }
}

/// A moment of the run, when all is done that happens at it.
pub(crate) struct Moment<'a> {
    now: Nanos,
    /// Nothing happens before; `None`: ever.
    until: Option<Nanos>,
    /// Only these pools' threads and CPUs changed since the last time.
    touched: &'a [PoolNo],
}

impl Moment<'_> {
    /// Whether nothing happens until then, `due` itself included.
    fn is_over_at(&self, due: Nanos) -> bool {
        self.until.is_none_or(|until| until > due)
    }
}

/// One point of view.
pub(crate) trait Checker: fmt::Debug {
    /// Something happened.
    fn observe(&mut self, _event: &Event, _world: &World<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Everything that happens at this moment has happened.
    fn end_moment(&mut self, _moment: &Moment<'_>, _world: &World<'_>) -> Result<(), String> {
        Ok(())
    }

    /// The run is over.
    fn end(&mut self, _world: &World<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// How many events a complaint shows.
const RECENT: usize = 30;

/// All checkers, the digest, and the log.
#[derive(Debug)]
pub(crate) struct Checkers {
    /// By their names in complaints.
    checkers: Vec<(&'static str, Box<dyn Checker>)>,
    waiting: Waiting,
    /// By worker, its own pool.
    homes: Vec<Option<PoolNo>>,
    pub(crate) digest: Digest,
    pub(crate) nr_events: u64,
    pub(crate) events: Option<Vec<Event>>,
    pub(crate) recent: VecDeque<Event>,
    touched: Vec<PoolNo>,
    is_touched: Vec<bool>,
}

impl Checkers {
    pub(crate) fn new(plan: &Plan, config: &Config) -> Self {
        let mut checkers: Vec<(_, Box<dyn Checker>)> = vec![
            ("reentrance", Box::new(reentrance::Reentrance::new(plan))),
            ("conservation", Box::new(conservation::Conservation::new(plan))),
            ("limit", Box::new(limit::Limit::default())),
            ("life", Box::new(life::Life::new(plan))),
            ("node", Box::new(node::Node::new(plan))),
            ("order", Box::new(order::Order::new(plan))),
            ("place", Box::new(place::Placement::new(plan))),
            ("delay", Box::new(delay::Delay::default())),
            ("flush", Box::new(flush::Flush::new(plan))),
            ("concurrency", Box::new(concurrency::Concurrency::new(plan))),
            ("unseen", Box::new(unseen::Unseen::default())),
            ("bounds", Box::new(bounds::Bounds::default())),
            ("stall", Box::new(stall::Stall::new())),
            ("help", Box::new(help::Help::new(plan))),
            ("idle", Box::new(idle::Idle::default())),
            ("hogs", Box::new(hogs::Hogs::new(plan))),
            ("rescue", Box::new(rescue::Rescue::new(plan))),
        ];
        if let Some(thresh) = config.watchdog {
            checkers.push(("watchdog", Box::new(watchdog::Watchdog::new(thresh))));
        }
        checkers.retain(|(name, _)| match config.checks {
            Checks::None => false,
            Checks::All => true,
            Checks::Only(one) => *name == one,
        });
        Self {
            checkers,
            waiting: Waiting::new(plan),
            homes: Vec::new(),
            digest: Digest::default(),
            nr_events: 0,
            events: config.keep_events.then(Vec::new),
            recent: VecDeque::new(),
            touched: Vec::new(),
            is_touched: Vec::new(),
        }
    }

    /// A thread of this pool changed.
    pub(crate) fn touch(&mut self, pool: PoolNo) {
        if !std::mem::replace(grown(&mut self.is_touched, pool), true) {
            self.touched.push(pool);
        }
    }

    pub(crate) fn observe(
        &mut self,
        t: Nanos,
        what: What,
        scene: Scene<'_>,
    ) -> Result<(), Violation> {
        let event = Event { t, what };
        self.nr_events += 1;
        self.digest.add(&event);
        if let Some(events) = &mut self.events {
            events.push(event);
        }
        if self.checkers.is_empty() {
            return Ok(());
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(event);
        self.waiting.observe(&event);
        if let What::WorkerMade(pool, worker) = what {
            *grown(&mut self.homes, worker) = Some(pool);
        }
        self.ask(t, scene, |checker, world| checker.observe(&event, world))
    }

    /// The pools that something became of in this moment.
    pub(crate) fn touched(&self) -> &[PoolNo] {
        &self.touched
    }

    pub(crate) fn end_moment(
        &mut self,
        now: Nanos,
        until: Option<Nanos>,
        scene: Scene<'_>,
    ) -> Result<(), Violation> {
        let mut touched = std::mem::take(&mut self.touched);
        let moment = Moment { now, until, touched: &touched };
        let found = self.ask(now, scene, |checker, world| checker.end_moment(&moment, world));
        self.waiting.moment_has_ended();
        for pool in touched.drain(..) {
            self.is_touched[pool] = false;
        }
        self.touched = touched;
        found
    }

    pub(crate) fn end(&mut self, now: Nanos, scene: Scene<'_>) -> Result<(), Violation> {
        self.ask(now, scene, |checker, world| checker.end(world))
    }

    /// Asks all checkers, up to the first that complains.
    fn ask(
        &mut self,
        at: Nanos,
        scene: Scene<'_>,
        mut ask: impl FnMut(&mut dyn Checker, &World<'_>) -> Result<(), String>,
    ) -> Result<(), Violation> {
        let world = World { scene, waiting: &self.waiting, homes: &self.homes };
        self.checkers.iter_mut().try_for_each(|(checker, of)| {
            ask(of.as_mut(), &world).map_err(|message| Violation { checker, at, message })
        })
    }
}
