//! What a queue costs that has nothing to do: memory, and the time to make it.

use std::time::Instant;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::cli::IdleOptions;
use crate::job::{Bench, Job};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, best_peer, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::sys;
use crate::systems::System;

const RUNS: usize = 3;
const COUNT: usize = 1_000_000;
const COUNT_QUICK: usize = 100_000;

const TITLES: [(&str, Unit); 4] = [
    ("time to make one", Unit::Time),
    ("bytes each", Unit::Count),
    ("memory in all, MiB", Unit::Count),
    ("threads", Unit::Count),
];
const TIME: usize = 0;
const BYTES: usize = 1;

const NOTES: [&str; 2] = [
    "bytes: growth of the resident set, allocator's overhead included",
    "tokio and go have no queues: a task or goroutine that waits on a channel of its own is what \
     takes their place",
];

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    ns_each: f64,
    bytes_each: f64,
    threads: f64,
}

/// Something that makes queues and keeps them.
pub(crate) trait Makes: Sized {
    /// Room for `count` queues, touched already.
    fn start(count: usize) -> Result<Self>;

    /// Makes one more.
    fn make(&mut self) -> Result<()>;

    /// Waits until all that were made are really idle.
    fn settle(&mut self) {}
}

/// Runs one round in this process.
pub(crate) fn measure<M: Makes>(job: &Job) -> Result<Sample> {
    let mut queues = M::start(job.count)?;
    // The first one starts what all of them share.
    queues.make()?;
    queues.settle();
    let before = sys::resident_bytes()?;
    let start = Instant::now();
    for _ in 1..job.count {
        queues.make()?;
    }
    queues.settle();
    let elapsed = sys::duration_ns(start.elapsed());
    let grown = sys::resident_bytes()?.saturating_sub(before);
    let made = job.count.saturating_sub(1).max(1) as f64;
    let threads = sys::ThreadCount::of("self")?.read().unwrap_or_default();
    Ok(Sample {
        ns_each: elapsed as f64 / made,
        bytes_each: grown as f64 / made,
        threads: threads as f64,
    })
}

/// Measures all chosen systems and makes the table.
pub(crate) fn run(session: &mut Session, options: &IdleOptions) -> Result<Section> {
    let rounds = session.rounds(RUNS);
    let count = session.size(options.count, COUNT, COUNT_QUICK);
    let job = Job::new(Bench::Idle, session.cpus, count);
    let entrants = session.entrants(Bench::Idle);
    let cells = entrants.iter().map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let outcomes = session.alternate::<Sample>("idle", cells, rounds)?;
    let rows: Vec<Row> = outcomes.iter().map(|outcome| row(outcome, count)).collect();
    Ok(Section {
        curves: Vec::new(),
        name: "idle".to_owned(),
        title: format!("idle: {count} queues that are never used; {} rounds", rounds.runs),
        columns: TITLES.map(|(title, unit)| Column::new(title, unit)).to_vec(),
        ratios: ratios(&rows),
        rows,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

fn row(outcome: &Outcome<Sample>, count: usize) -> Row {
    let figures = vec![
        outcome.figure(|one| one.sample.ns_each),
        outcome.figure(|one| one.sample.bytes_each),
        outcome.figure(|one| one.sample.bytes_each * count as f64 / f64::from(1 << 20)),
        outcome.figure(|one| one.sample.threads),
    ];
    row_of(outcome, Bench::Idle, figures)
}

fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let ours = |column| Side::of(rows, System::Cmwq, column);
    // 10 million in 4 GiB.
    let most = (4_u64 << 30) as f64 / 1e7;
    [
        Ratio::new("time", Unit::Time, ours(TIME), Some(Side::named("1 µs", 1e3))).goal(1.0),
        Ratio::new(
            "bytes",
            Unit::Count,
            ours(BYTES),
            Some(Side::named("4 GiB / 10 million", most)),
        )
        .goal(1.0),
        Ratio::new("bytes / best peer", Unit::Count, ours(BYTES), best_peer(rows, BYTES)).value(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
