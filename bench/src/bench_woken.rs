//! Many workers that wake at once: items that all wait for one event, and compute when it has come.
//!
//! How many of them then compute at the same time, and how soon the first half is done: who lets
//! them in one after the other has half of them done in half the time, who lets all of them run has
//! none done until shortly before the end.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child::COUNT_EVERY;
use crate::computing::Computing;
use crate::gate::Gate;
use crate::job::{Bench, Job};
use crate::peers::{self, Peer};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, best_peer, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::sys;
use crate::systems::System;

const RUNS: usize = 5;
const ITEMS_PER_CPU: usize = 100;
/// More than this do not wait at once in every system: tokio has 512 threads for what blocks.
const MOST_ITEMS: usize = 400;
const BURN_US: u64 = 2000;

/// Until so many items wait, at most.
const PATIENCE: Duration = Duration::from_secs(20);

/// Options of `woken`.
#[derive(Args, Debug, Default)]
pub(crate) struct WokenOptions {
    /// Items per CPU [default: 100, and on many CPUs 400 in all].
    #[arg(long)]
    pub(crate) items_per_cpu: Option<NonZeroUsize>,
    /// CPU time that each item burns, in microseconds [default: 2000].
    #[arg(long)]
    pub(crate) burn_us: Option<u64>,
}

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    /// From the event until the last item is done.
    makespan_ns: f64,
    /// From the event until half of the items are done.
    half_ns: f64,
    /// Most items in their computing part at once.
    max_computing: f64,
}

/// What every item of a round shares.
#[derive(Default)]
struct Load {
    waiting: AtomicUsize,
    event: AtomicU32,
    computing: Computing,
    done: AtomicUsize,
}

impl Load {
    /// All that an item does. Its place among those that are done, from 1.
    fn run<P: Peer>(&self, burn: Duration) -> usize {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        P::block(|| sys::block_until_released(&self.event, PATIENCE));
        self.computing.burn(burn);
        self.done.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Runs one round in this process.
pub(crate) fn measure<P: Peer>(job: &Job) -> Result<Sample> {
    let peer = P::start(job)?;
    peers::warm_up(&peer, job.cpus);
    let load: &'static Load = Box::leak(Box::default());
    let (half, all) = (Gate::leaked(1), Gate::leaked(job.count));
    for _ in 0..job.count {
        let (burn, count) = (job.burn(), job.count);
        peer.spawn(move || {
            if load.run::<P>(burn) == count.div_ceil(2) {
                half.done();
            }
            all.done();
        });
    }
    let give_up = Instant::now() + PATIENCE / 2;
    while load.waiting.load(Ordering::Relaxed) < job.count {
        let waiting = load.waiting.load(Ordering::Relaxed);
        ensure!(Instant::now() < give_up, "only {waiting} of {} items came to wait", job.count);
        std::thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    sys::release(&load.event);
    half.wait();
    let half_ns = sys::duration_ns(start.elapsed()) as f64;
    all.wait();
    let makespan_ns = sys::duration_ns(start.elapsed()) as f64;
    Ok(Sample { makespan_ns, half_ns, max_computing: load.computing.most() })
}

/// Measures all chosen systems and makes the table.
pub(crate) fn run(session: &mut Session, options: &WokenOptions) -> Result<Section> {
    let cpus = session.cpus;
    let usual = ITEMS_PER_CPU.min(MOST_ITEMS / cpus).max(1);
    let count = session.size(options.items_per_cpu, usual, usual) * cpus;
    let burn_us = options.burn_us.unwrap_or(BURN_US);
    let job = Job { burn_us, ..Job::new(Bench::Woken, cpus, count) };
    let mut rounds = session.rounds(RUNS);
    rounds.count_threads = Some(COUNT_EVERY);
    let entrants = session.entrants(Bench::Woken);
    let cells = entrants.iter().map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let outcomes = session.alternate::<Sample>("woken", cells, rounds)?;
    let ideal_ns = ideal_ns(&job);
    let rows: Vec<Row> = outcomes.iter().map(|outcome| row(outcome, ideal_ns)).collect();
    Ok(Section {
        curves: Vec::new(),
        name: "woken".to_owned(),
        title: format!(
            "woken: {} items wait for one event, and then compute for {} each, on {cpus} CPUs; \
             ideal {}; {} rounds",
            job.count,
            Unit::Time.show(job.burn_us as f64 * 1e3),
            Unit::Time.show(ideal_ns),
            rounds.runs,
        ),
        columns: vec![
            Column::new("all done", Unit::Time),
            Column::new("x ideal", Unit::Plain),
            Column::new("half done", Unit::Time),
            Column::new("computing at once", Unit::Count),
        ],
        ratios: ratios(&rows, cpus),
        rows,
        notes: vec![
            "half done: one after the other it is half of all done; if all run at once, the same"
                .to_owned(),
        ],
    })
}

/// All CPUs compute without a gap.
fn ideal_ns(job: &Job) -> f64 {
    (job.count.div_ceil(job.cpus) as u64 * job.burn_us * 1000) as f64
}

fn row(outcome: &Outcome<Sample>, ideal_ns: f64) -> Row {
    row_of(
        outcome,
        Bench::Woken,
        vec![
            outcome.figure(|one| one.sample.makespan_ns),
            outcome.figure(|one| one.sample.makespan_ns / ideal_ns),
            outcome.figure(|one| one.sample.half_ns),
            outcome.figure(|one| one.sample.max_computing),
        ],
    )
}

fn ratios(rows: &[Row], cpus: usize) -> Vec<Ratio> {
    let ours = |column| Side::of(rows, System::Cmwq, column);
    let cpus = Side::named("CPUs", cpus as f64);
    let compared = [
        Ratio::new("all done / best peer", Unit::Time, ours(0), best_peer(rows, 0)),
        Ratio::new("half done / best peer", Unit::Time, ours(2), best_peer(rows, 2)),
        Ratio::new("computing at once", Unit::Count, ours(3), Some(cpus)),
    ];
    compared.into_iter().filter_map(|ratio| ratio.value()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_computes_on_all_cpus_without_a_gap() {
        let job = |count| Job { burn_us: 2000, ..Job::new(Bench::Woken, 2, count) };
        assert_eq!(ideal_ns(&job(200)), 200e6);
        assert_eq!(ideal_ns(&job(201)), 202e6);
    }
}
