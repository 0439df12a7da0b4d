//! From a block to the next item's start.
//!
//! Every trial fills all the workers that could take the next item with *blockers*. When all of
//! them run, one more item is queued behind them; each burns CPU time and then blocks in the
//! kernel. Measured is the time from the first block, when a CPU falls free, to the start of the
//! queued item, which then releases the blockers.
//!
//! - A pool that never notices leaves the item waiting until the blockers' own limit: *never*.
//! - A pool that starts a thread for every item starts it before anything has blocked: *early*.
//!   There is no reaction to time; the item competed for a CPU that was busy.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::cli::BlockOptions;
use crate::gate::Gate;
use crate::job::{Bench, Job};
use crate::peers::{self, Peer};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::stats::{Spread, percentile};
use crate::sys;
use crate::systems::System;

const RUNS: usize = 3;
const TRIALS: usize = 200;
const TRIALS_QUICK: usize = 60;

/// CPU time that every blocker burns first.
const BURN_US: u64 = 1000;

/// How long blockers stay blocked if nothing releases them.
const GIVE_UP_MS: u64 = 1000;
const GIVE_UP_MS_QUICK: u64 = 300;

/// Trials in which the item never started after which a system is believed.
const NEVER_ENOUGH: usize = 3;

/// How much longer than one that says so a block may take to be noticed.
const SENTINEL_GOAL: f64 = 2.0;
const PERF_GOAL: f64 = 1.5;

/// How long blockers wait for each other to start: generous, since the machine may be busy.
const FILL_LIMIT: Duration = Duration::from_secs(5);

/// A trial begins at a random point of this much time, so that no periodic check is always met in
/// the same phase.
const PHASE_US: u64 = 3000;

const NOTES: [&str; 3] = [
    "p50: over the trials of all rounds, in brackets the rounds' own p50",
    "never: not before the blocked items gave up; three of them end a round",
    "early: started before anything had blocked, beside as many computing items as there are \
     CPUs; such trials are in no percentile, and a system with mostly such trials has none",
];

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    /// Per trial; `null` for never.
    latencies_ns: Vec<Option<f64>>,
    /// Trials, beside those, in which the item started before anything had blocked.
    early: usize,
}

/// What the items of one trial share.
struct Trial {
    burn: Duration,
    limit: Duration,
    /// Counts the blockers that start.
    started: Gate,
    /// Whether the next item is in the queue.
    queued: AtomicBool,
    /// A blocker gave up waiting for the others to start.
    unfilled: AtomicBool,
    first_block: AtomicU64,
    next_start: AtomicU64,
    /// Futex word on which the blockers block.
    released: AtomicU32,
    /// Counts the items that end.
    ended: Gate,
}

/// How a trial ended.
enum Ending {
    After(f64),
    Early,
    Never,
}

impl Trial {
    fn new(blockers: usize, job: &Job) -> Arc<Self> {
        Arc::new(Self {
            burn: job.burn(),
            limit: job.wait(),
            started: Gate::new(blockers),
            queued: AtomicBool::new(false),
            unfilled: AtomicBool::new(false),
            first_block: AtomicU64::new(u64::MAX),
            next_start: AtomicU64::new(0),
            released: AtomicU32::new(0),
            ended: Gate::new(blockers + 1),
        })
    }

    fn blocker<P: Peer>(&self) {
        self.started.done();
        self.wait_until_queued();
        sys::burn(self.burn);
        self.first_block.fetch_min(sys::now_ns(), Ordering::Relaxed);
        P::block(|| sys::block_until_released(&self.released, self.limit));
        self.ended.done();
    }

    /// Spins, so that its worker stays runnable. Only a system with fewer workers than asked for
    /// gets to the limit.
    fn wait_until_queued(&self) {
        let start = Instant::now();
        // ORDERING: Acquire pairs with the Release in `trial`.
        while !self.queued.load(Ordering::Acquire) {
            if start.elapsed() > FILL_LIMIT {
                self.unfilled.store(true, Ordering::Relaxed);
                return;
            }
            hint::spin_loop();
        }
    }

    fn next(&self) {
        self.next_start.store(sys::now_ns(), Ordering::Relaxed);
        sys::release(&self.released);
        self.ended.done();
    }

    /// `ended` was waited for, so everything that the items wrote is visible.
    fn ending(&self) -> Result<Ending> {
        ensure!(
            !self.unfilled.load(Ordering::Relaxed),
            "not all blockers ran at the same time: fewer workers than CPUs"
        );
        let block = self.first_block.load(Ordering::Relaxed);
        let start = self.next_start.load(Ordering::Relaxed);
        Ok(match start.checked_sub(block) {
            None => Ending::Early,
            Some(ns) if ns < sys::duration_ns(self.limit) => Ending::After(ns as f64),
            Some(_) => Ending::Never,
        })
    }
}

/// Runs one round in this process.
pub(crate) fn measure<P: Peer>(job: &Job) -> Result<Sample> {
    let peer = P::start(job)?;
    peers::warm_up(&peer, job.cpus);
    let mut rng = Rng::with_seed(job.seed);
    let mut sample = Sample { latencies_ns: Vec::new(), early: 0 };
    let mut never = 0;
    for _ in 0..job.count {
        thread::sleep(Duration::from_micros(rng.u64(..PHASE_US)));
        match trial(&peer, job)? {
            Ending::After(ns) => sample.latencies_ns.push(Some(ns)),
            Ending::Early => sample.early += 1,
            Ending::Never => {
                sample.latencies_ns.push(None);
                never += 1;
            }
        }
        if never == NEVER_ENOUGH {
            break;
        }
    }
    Ok(sample)
}

fn trial<P: Peer>(peer: &P, job: &Job) -> Result<Ending> {
    let blockers = peer.blockers(job.cpus);
    let trial = Trial::new(blockers, job);
    for _ in 0..blockers {
        let trial = Arc::clone(&trial);
        peer.spawn_block(move || trial.blocker::<P>());
    }
    trial.started.wait();
    peer.spawn_block({
        let trial = Arc::clone(&trial);
        move || trial.next()
    });
    // ORDERING: Release pairs with the Acquire in `wait_until_queued`.
    trial.queued.store(true, Ordering::Release);
    trial.ended.wait();
    trial.ending()
}

/// Measures all chosen systems and makes the table.
pub(crate) fn run(session: &mut Session, options: &BlockOptions) -> Result<Section> {
    let give_up_ms = if session.quick { GIVE_UP_MS_QUICK } else { GIVE_UP_MS };
    let trials = session.size(options.trials, TRIALS, TRIALS_QUICK);
    let job = Job {
        burn_us: BURN_US,
        wait_us: options.give_up_ms.unwrap_or(give_up_ms) * 1000,
        ..Job::new(Bench::Block, session.cpus, trials)
    };
    let rounds = session.rounds(RUNS);
    let entrants = session.entrants(Bench::Block);
    let cells = entrants.iter().map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let outcomes = session.alternate::<Sample>("block", cells, rounds)?;
    let rows: Vec<Row> = outcomes.iter().map(row).collect();
    Ok(Section {
        curves: Vec::new(),
        name: "block".to_owned(),
        title: format!(
            "block: from a worker's block to the start of the next item; \
             {} rounds of {} trials, given up after {}",
            rounds.runs,
            trials,
            Unit::Time.show(job.wait_us as f64 * 1e3),
        ),
        columns: vec![
            Column::new("p50", Unit::Time),
            Column::new("p90", Unit::Time),
            Column::new("p99", Unit::Time),
            Column::new("max", Unit::Time),
            Column::new("never", Unit::Count),
            Column::new("early", Unit::Count),
            Column::new("trials", Unit::Count),
        ],
        ratios: ratios(&rows),
        rows,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

fn row(outcome: &Outcome<Sample>) -> Row {
    let rounds: Vec<Vec<f64>> = outcome
        .samples
        .iter()
        .map(|one| one.sample.latencies_ns.iter().map(|ns| ns.unwrap_or(f64::INFINITY)).collect())
        .collect();
    let all = rounds.concat();
    let early: usize = outcome.samples.iter().map(|one| one.sample.early).sum();
    let never = all.iter().filter(|ns| ns.is_infinite()).count();
    // Of a pool that mostly starts items early, the few other trials say nothing.
    let at = |percent| percentile(&all, percent).filter(|_| all.len() > early).map(Spread::single);
    let each_p50: Vec<f64> = rounds.iter().filter_map(|round| percentile(round, 50.0)).collect();
    let p50 = at(50.0).zip(Spread::of(&each_p50));
    let p50 = p50.map(|(all, each)| Spread { median: all.median, ..each });
    let count = |count: usize| (!outcome.samples.is_empty()).then(|| Spread::single(count as f64));
    row_of(
        outcome,
        Bench::Block,
        vec![
            p50,
            at(90.0),
            at(99.0),
            at(100.0),
            count(never),
            count(early),
            count(all.len() + early),
        ],
    )
}

fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let side = |system, column| Side::of(rows, system, column);
    let told = || side(System::CmwqInline, 0);
    let limit = Some(Side::named("1 ms", 1e6));
    let mut ratios = Vec::new();
    for (what, system, goal) in [
        ("p50, sentinel / inline", System::CmwqSentinel, Some(SENTINEL_GOAL)),
        ("p50, perf / inline", System::CmwqPerf, Some(PERF_GOAL)),
        ("p50, tick / inline", System::CmwqTick, None),
    ] {
        let ratio = Ratio::new(what, Unit::Time, side(system, 0), told());
        ratios.extend(match goal {
            Some(goal) => ratio.goal(goal),
            None => ratio.value(),
        });
    }
    ratios.extend(
        Ratio::new("p99, sentinel / 1 ms", Unit::Time, side(System::CmwqSentinel, 2), limit)
            .goal(1.0),
    );
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial_with(block: u64, start: u64) -> Arc<Trial> {
        let job = Job { wait_us: 1, ..Job::new(Bench::Block, 1, 1) };
        let trial = Trial::new(1, &job);
        trial.first_block.store(block, Ordering::Relaxed);
        trial.next_start.store(start, Ordering::Relaxed);
        trial
    }

    #[test]
    fn endings_are_told_apart() {
        assert!(matches!(trial_with(100, 350).ending().unwrap(), Ending::After(250.0)));
        assert!(matches!(trial_with(100, 99).ending().unwrap(), Ending::Early));
        assert!(matches!(trial_with(100, 1100).ending().unwrap(), Ending::Never));
        assert!(matches!(trial_with(u64::MAX, 5).ending().unwrap(), Ending::Early));
    }

    #[test]
    fn a_pool_that_cannot_be_filled_is_an_error() {
        let trial = trial_with(1, 2);
        trial.unfilled.store(true, Ordering::Relaxed);
        assert!(trial.ending().is_err());
    }
}
