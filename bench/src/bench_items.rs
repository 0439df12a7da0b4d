//! What one empty item costs: queue a great many, wait until all have run, divide.
//!
//! Three producers: one thread outside the pool, one such thread per CPU, and an item inside the
//! pool.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::cli::ItemsOptions;
use crate::gate::Gate;
use crate::job::{Bench, Job, Producers};
use crate::peers::{self, Peer};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, best_peer, row_of};
use crate::rounds::{Cell, Outcome, Session, each_round};
use crate::sys;
use crate::systems::System;

const RUNS: usize = 5;
const COUNT: usize = 300_000;
const COUNT_QUICK: usize = 50_000;

/// One item in this many is run before the clock starts, for warm allocators and started threads.
const WARM_UP_SHARE: usize = 10;

/// What part of the best peer's time closures, and items that allocate nothing, may take.
const CLOSURES_GOAL: f64 = 0.8;
const WORK_GOAL: f64 = 0.6;
const FAR_GOAL: &str = "the far goal is 0.5 for closures and 0.25 for embedded items";

/// The columns of the table, in order.
const COLUMNS: [(Producers, &str); 3] = [
    (Producers::One, "one producer"),
    (Producers::Many, "a producer per CPU"),
    (Producers::Inside, "from inside"),
];

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    ns_per_item: f64,
}

/// Runs one round in this process.
pub(crate) fn measure<P: Peer>(job: &Job) -> Result<Sample> {
    let peer: &'static P = Box::leak(Box::new(P::start(job)?));
    peers::warm_up(peer, job.cpus);
    time(peer, job, job.count / WARM_UP_SHARE);
    let elapsed = time(peer, job, job.count);
    Ok(Sample { ns_per_item: sys::duration_ns(elapsed) as f64 / job.count as f64 })
}

fn time<P: Peer>(peer: &'static P, job: &Job, count: usize) -> Duration {
    let gate = Gate::leaked(count);
    match job.producers {
        Producers::One => {
            let mut feed = peer.feeder(gate);
            let start = Instant::now();
            feed(count);
            gate.wait();
            start.elapsed()
        }
        Producers::Many => time_many(peer, gate, count, job.cpus),
        Producers::Inside => {
            let mut feed = peer.feeder(gate);
            let start = Instant::now();
            peer.spawn(move || feed(count));
            gate.wait();
            start.elapsed()
        }
    }
}

fn time_many<P: Peer>(
    peer: &'static P,
    gate: &'static Gate,
    count: usize,
    producers: usize,
) -> Duration {
    let ready = Barrier::new(producers);
    // Stamped by the producers: this thread may get a CPU only long after they began.
    let began = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        for producer in 0..producers {
            // The first `count % producers` producers queue one more.
            let share = count / producers + usize::from(producer < count % producers);
            let mut feed = peer.feeder(gate);
            let (ready, began) = (&ready, &began);
            scope.spawn(move || {
                ready.wait();
                began.fetch_min(sys::now_ns(), Ordering::Relaxed);
                feed(share);
            });
        }
        gate.wait();
        let ended = sys::now_ns();
        Duration::from_nanos(ended.saturating_sub(began.load(Ordering::Relaxed)))
    })
}

/// Measures all chosen systems and makes the table.
pub(crate) fn run(session: &mut Session, options: &ItemsOptions) -> Result<Section> {
    let count = session.size(options.count, COUNT, COUNT_QUICK);
    let rounds = session.rounds(RUNS);
    let entrants = session.entrants(Bench::Items);
    let job = |producers| Job { producers, ..Job::new(Bench::Items, session.cpus, count) };
    let cells = entrants
        .iter()
        .flat_map(|&(system, _)| COLUMNS.map(|(producers, _)| Cell { system, job: job(producers) }))
        .collect();
    let outcomes = session.alternate::<Sample>("items", cells, rounds)?;
    // Cells of one system are neighbours: the order of the outcomes is that of the cells.
    let rows: Vec<Row> = outcomes.chunks(COLUMNS.len()).map(row).collect();
    Ok(Section {
        curves: Vec::new(),
        name: "items".to_owned(),
        title: format!(
            "items: queue, run and done of {} empty items, time per item; {} rounds",
            count, rounds.runs,
        ),
        columns: COLUMNS.map(|(_, title)| Column::new(title, Unit::Time)).to_vec(),
        ratios: ratios(&rows, &outcomes),
        rows,
        notes: vec![FAR_GOAL.to_owned()],
    })
}

fn row(outcomes: &[Outcome<Sample>]) -> Row {
    let figures = outcomes.iter().map(|outcome| outcome.figure(|one| one.sample.ns_per_item));
    // One cell's problem is the row's; the other cells keep their figures.
    let teller = outcomes.iter().find(|outcome| outcome.problem.is_some()).unwrap_or(&outcomes[0]);
    row_of(teller, Bench::Items, figures.collect())
}

fn ratios(rows: &[Row], outcomes: &[Outcome<Sample>]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for (column, (producers, title)) in COLUMNS.into_iter().enumerate() {
        let each = |name: &str| {
            let column = outcomes.iter().filter(|outcome| outcome.job.producers == producers);
            each_round(column, name, |one| one.sample.ns_per_item)
        };
        for (kind, system, goal) in
            [("closures", System::Cmwq, CLOSURES_GOAL), ("embedded", System::CmwqWork, WORK_GOAL)]
        {
            let what = format!("{title}, {kind} / best peer");
            let ours = Side::of(rows, system, column);
            let best = best_peer(rows, column);
            let theirs = best.as_ref().map_or_else(Vec::new, |side| each(side.name()));
            let ratio = Ratio::new(what, Unit::Time, ours, best);
            ratios.extend(ratio.rounds(&each(&system.name()), &theirs).goal(goal));
        }
    }
    ratios
}
