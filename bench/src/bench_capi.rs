//! What calling the library from C costs, beside the same calls from Rust.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::cli::CapiOptions;
use crate::job::{Bench, Job};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::systems::System;

const RUNS: usize = 15;
const COUNT: usize = 300_000;
const COUNT_QUICK: usize = 50_000;

const TITLES: [&str; 5] =
    ["queue, run, done", "CPU time", "queue and flush", "CPU time of that", "queue a pending one"];
/// The last column is there to see where a difference comes from; it has no goal.
const WITH_GOAL: usize = 4;

const NOTES: [&str; 2] = [
    "CPU time: of the whole process, workers included; it depends less than the time that \
     passes on what else wants the CPUs",
    "queue a pending one: the call that finds that there is nothing to do",
];

/// How much longer a call from C may take.
const GOAL: f64 = 1.05;

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    pub(crate) item_ns: f64,
    pub(crate) item_cpu_ns: f64,
    pub(crate) trip_ns: f64,
    pub(crate) trip_cpu_ns: f64,
    pub(crate) call_ns: f64,
}

/// Measures all chosen systems and makes the table.
pub(crate) fn run(session: &mut Session, options: &CapiOptions) -> Result<Section> {
    let rounds = session.rounds(RUNS);
    let count = session.size(options.count, COUNT, COUNT_QUICK);
    let job = Job::new(Bench::Capi, session.cpus, count);
    let entrants = session.entrants(Bench::Capi);
    let cells = entrants.iter().map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let outcomes = session.alternate::<Sample>("capi", cells, rounds)?;
    let rows: Vec<Row> = outcomes.iter().map(row).collect();
    Ok(Section {
        curves: Vec::new(),
        name: "capi".to_owned(),
        title: format!(
            "capi: embedded items of a per-CPU queue, from C and from Rust, time per item; {} \
             rounds of {count} items",
            rounds.runs,
        ),
        columns: TITLES.map(|title| Column::new(title, Unit::Time)).to_vec(),
        ratios: ratios(&rows),
        rows,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

fn row(outcome: &Outcome<Sample>) -> Row {
    let figures = vec![
        outcome.figure(|one| one.sample.item_ns),
        outcome.figure(|one| one.sample.item_cpu_ns),
        outcome.figure(|one| one.sample.trip_ns),
        outcome.figure(|one| one.sample.trip_cpu_ns),
        outcome.figure(|one| one.sample.call_ns),
    ];
    row_of(outcome, Bench::Capi, figures)
}

fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for system in [System::Capi, System::CapiStatic] {
        for (column, title) in TITLES.into_iter().enumerate() {
            let of = |system| Side::of(rows, system, column);
            let what = format!("{title}, {} / Rust", system.name());
            let ratio = Ratio::new(what, Unit::Time, of(system), of(System::CmwqRaw));
            if column < WITH_GOAL {
                ratios.extend(ratio.goal(GOAL));
            } else {
                ratios.extend(ratio.value());
            }
        }
    }
    ratios
}
