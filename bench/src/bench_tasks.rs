//! Closures that tokio's tasks await: `cmwq_tokio::spawn_blocking` beside tokio's own.
//!
//! Once as a burst, all at once, and once as a steady stream that keeps the CPUs busy in part.
//! Beside the closures one more task wakes every millisecond, as a server's tasks do: how late it
//! comes is what the pool takes from the runtime.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::child::COUNT_EVERY;
use crate::job::{Bench, Job};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::systems::System;

const RUNS: usize = 7;
const BURN_US: u64 = 1000;
const WAIT_US: u64 = 5000;
const BURST_PER_CPU: usize = 200;
const STEADY_PER_CPU: usize = 2000;
const STEADY_PER_CPU_QUICK: usize = 400;
/// The part of the CPUs that the steady stream computes for, in per cent.
const STEADY_LOAD: u64 = 80;

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    pub(crate) makespan_ns: f64,
    /// From when a closure was due until its task had its value.
    pub(crate) latency_p50_ns: f64,
    pub(crate) latency_p99_ns: f64,
    /// How late the task came that wakes every millisecond.
    pub(crate) late_p99_ns: f64,
    pub(crate) max_computing: f64,
    /// Threads that the process had before the pool was made.
    pub(crate) base_threads: u64,
}

/// Measures both loads and makes a table of each.
pub(crate) fn run(session: &mut Session) -> Result<Vec<Section>> {
    let load =
        Job { burn_us: BURN_US, wait_us: WAIT_US, ..Job::new(Bench::Tasks, session.cpus, 0) };
    let burst = Job { count: BURST_PER_CPU * session.cpus, ..load.clone() };
    let per_cpu = session.size(None, STEADY_PER_CPU, STEADY_PER_CPU_QUICK);
    // One closure after the other, so far apart.
    let apart_us = BURN_US * 100 / STEADY_LOAD / session.cpus as u64;
    let steady = Job { count: per_cpu * session.cpus, first_us: apart_us, ..load };
    Ok(vec![section(session, "burst", &burst)?, section(session, "steady", &steady)?])
}

fn section(session: &mut Session, name: &str, job: &Job) -> Result<Section> {
    let mut rounds = session.rounds(RUNS);
    rounds.count_threads = Some(COUNT_EVERY);
    let entrants = session.entrants(Bench::Tasks);
    let cells = entrants.iter().map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let outcomes = session.alternate::<Sample>(name, cells, rounds)?;
    let rows: Vec<Row> = outcomes.iter().map(row).collect();
    let arrivals = match job.first_us {
        0 => "all at once".to_owned(),
        apart => format!("one every {apart} µs, which is {STEADY_LOAD} % of the CPUs"),
    };
    Ok(Section {
        curves: Vec::new(),
        name: format!("tasks-{name}"),
        title: format!(
            "{name}: {} closures, each {} of CPU time and then {} blocked, {arrivals}, on {} CPUs; \
             {} rounds",
            job.count,
            Unit::Time.show(job.burn_us as f64 * 1e3),
            Unit::Time.show(job.wait_us as f64 * 1e3),
            job.cpus,
            rounds.runs,
        ),
        columns: vec![
            Column::new("makespan", Unit::Time),
            Column::new("latency p50", Unit::Time),
            Column::new("latency p99", Unit::Time),
            Column::new("task late p99", Unit::Time),
            Column::new("pool threads", Unit::Count),
            Column::new("computing at once", Unit::Count),
        ],
        ratios: ratios(&rows),
        rows,
        notes: vec![
            "latency: from when a closure is due until the task that awaits it goes on".to_owned(),
            "task late: of a task of the runtime that wakes every millisecond".to_owned(),
        ],
    })
}

fn row(outcome: &Outcome<Sample>) -> Row {
    row_of(
        outcome,
        Bench::Tasks,
        vec![
            outcome.figure(|one| one.sample.makespan_ns),
            outcome.figure(|one| one.sample.latency_p50_ns),
            outcome.figure(|one| one.sample.latency_p99_ns),
            outcome.figure(|one| one.sample.late_p99_ns),
            outcome.figure(|one| one.peak_threads.saturating_sub(one.sample.base_threads) as f64),
            outcome.figure(|one| one.sample.max_computing),
        ],
    )
}

fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let compared = [
        ("makespan", Unit::Time, 0),
        ("latency p99", Unit::Time, 2),
        ("task late p99", Unit::Time, 3),
        ("threads", Unit::Count, 4),
    ];
    let ratio = |(name, unit, column): (&str, Unit, usize)| {
        let ours = Side::of(rows, System::CmwqTokio, column);
        Ratio::new(name, unit, ours, Side::of(rows, System::TokioBlocking, column)).value()
    };
    compared.into_iter().filter_map(ratio).collect()
}
