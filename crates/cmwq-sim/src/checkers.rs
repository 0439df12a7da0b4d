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
//! | `reentrance` | an item runs twice at once |
//! | `limit` | more items of a queue run than `max_active` allows |
//! | `node` | an unbound queue's limit is not split over the nodes as it should be |
//! | `place` | something runs on a CPU that is offline, or where its worker does not belong |
//! | `conservation` | what was queued is not run or cancelled exactly once |
//! | `order` | items of one queue and pool start in another order than they were queued |
//! | `life` | a queue goes before its items are done, is used after that, or leaves workers |
//! | `flush` | a flush returns too early, or never |
//! | `delay` | a delayed item is queued before its time, or long after it |
//! | `rescue` | an item of a queue with a rescuer waits, nobody can come for it, and the rescuer sleeps on |
//! | `watchdog` | a pool that stands still is not reported in time, or another one is (where there is a watchdog) |
//! | `bounds` | a pool has more workers than it needs |

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;

use crate::Nanos;
use crate::config::{Checks, Config};
use crate::event::{Digest, Event, PoolNo, What};
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
    /// Those whose wait is over but that have had no CPU since.
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
}

/// The simulator's part of a [`World`].
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) config: &'a Config,
    pub(crate) gauges: &'a [Gauge],
    pub(crate) machine: &'a Machine,
}

impl<'a> Scene<'a> {
    const fn with(self, waiting: &'a Waiting) -> World<'a> {
        World { scene: self, waiting }
    }
}

impl<'a> Deref for World<'a> {
    type Target = Scene<'a>;

    fn deref(&self) -> &Scene<'a> {
        &self.scene
    }
}

/// One point of view.
pub(crate) trait Checker: fmt::Debug {
    /// Its name in complaints.
    fn name(&self) -> &'static str;

    /// Something happened.
    fn observe(&mut self, _event: &Event, _world: &World<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Everything that happens at `now` has happened, and nothing will before `until` (`None`:
    /// ever). Only the `touched` pools' threads and CPUs changed since the last time.
    fn settle(
        &mut self,
        _now: Nanos,
        _until: Option<Nanos>,
        _touched: &[PoolNo],
        _world: &World<'_>,
    ) -> Result<(), String> {
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
pub(crate) struct Watchers {
    checkers: Vec<Box<dyn Checker>>,
    waiting: Waiting,
    pub(crate) digest: Digest,
    pub(crate) nr_events: u64,
    pub(crate) events: Option<Vec<Event>>,
    pub(crate) recent: VecDeque<Event>,
    touched: Vec<PoolNo>,
    is_touched: Vec<bool>,
}

impl Watchers {
    pub(crate) fn new(plan: &Plan, config: &Config) -> Self {
        let mut checkers: Vec<Box<dyn Checker>> = vec![
            Box::new(reentrance::Reentrance::new(plan)),
            Box::new(conservation::Conservation::new(plan)),
            Box::new(limit::Limit::default()),
            Box::new(life::Life::new(plan)),
            Box::new(node::Node::new(plan)),
            Box::new(order::Order::new(plan)),
            Box::new(place::Placement::default()),
            Box::new(delay::Delay::default()),
            Box::new(flush::Flush::new(plan)),
            Box::new(concurrency::Concurrency::new(plan)),
            Box::new(bounds::Bounds::default()),
            Box::new(stall::Stall::new()),
            Box::new(help::Help::new(plan)),
            Box::new(idle::Idle),
            Box::new(hogs::Hogs::new(plan)),
            Box::new(rescue::Rescue::new(plan)),
        ];
        let thresh = config.watchdog;
        checkers.extend(thresh.map(|t| Box::new(watchdog::Watchdog::new(t)) as Box<dyn Checker>));
        checkers.retain(|checker| match config.checks {
            Checks::None => false,
            Checks::All => true,
            Checks::Only(name) => checker.name() == name,
        });
        Self {
            checkers,
            waiting: Waiting::new(plan),
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
        if self.is_touched.len() <= pool {
            self.is_touched.resize(pool + 1, false);
        }
        if !std::mem::replace(&mut self.is_touched[pool], true) {
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
        let world = scene.with(&self.waiting);
        let found = first_complaint(&mut self.checkers, |checker| checker.observe(&event, &world));
        found.map_or(Ok(()), |(checker, message)| Err(Violation { checker, at: t, message }))
    }

    pub(crate) fn settle(
        &mut self,
        now: Nanos,
        until: Option<Nanos>,
        scene: Scene<'_>,
    ) -> Result<(), Violation> {
        let touched = std::mem::take(&mut self.touched);
        let world = scene.with(&self.waiting);
        let found = first_complaint(&mut self.checkers, |checker| {
            checker.settle(now, until, &touched, &world)
        });
        self.waiting.has_settled();
        for &pool in &touched {
            self.is_touched[pool] = false;
        }
        self.touched = touched;
        self.touched.clear();
        found.map_or(Ok(()), |(checker, message)| Err(Violation { checker, at: now, message }))
    }

    pub(crate) fn end(&mut self, now: Nanos, scene: Scene<'_>) -> Result<(), Violation> {
        let world = scene.with(&self.waiting);
        let found = first_complaint(&mut self.checkers, |checker| checker.end(&world));
        found.map_or(Ok(()), |(checker, message)| Err(Violation { checker, at: now, message }))
    }
}

fn first_complaint(
    checkers: &mut [Box<dyn Checker>],
    mut ask: impl FnMut(&mut dyn Checker) -> Result<(), String>,
) -> Option<(&'static str, String)> {
    checkers.iter_mut().find_map(|checker| {
        let message = ask(checker.as_mut()).err()?;
        Some((checker.name(), message))
    })
}
