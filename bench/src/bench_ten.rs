//! Ten items that only sleep, queued at once behind a limit: how long until all are done, on one
//! CPU.
//!
//! Of `S` seconds each, `M` at a time, they take `ceil(10 / M) × S`. The original workqueue has no
//! limit to set: one thread takes them one after the other.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::gate::Gate;
use crate::job::{Bench, Job};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::stats::Spread;
use crate::sys;
use crate::systems::{Role, System};

const RUNS: usize = 1;
const ITEMS: usize = 10;
const SLEEPS_S: [u64; 3] = [0, 1, 5];
const LIMITS: [usize; 3] = [1, 5, 256];

/// How far from the ideal a makespan may be.
const GOAL: f64 = 1.01;

/// Options of `ten`.
#[derive(Args, Debug, Default)]
pub(crate) struct TenOptions {
    /// Length of the seconds in "1 s" and "5 s", in milliseconds [default: 1000, with --quick 100].
    #[arg(long)]
    pub(crate) second_ms: Option<u64>,
}

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    makespan_ns: f64,
}

/// Something that runs items, at most so many at a time.
pub(crate) trait Limited: Sized {
    /// On the first CPU of this process, which is its only one; `max_active` as in the job.
    fn start(max_active: usize) -> Result<Self>;

    fn queue(&self, item: impl Fn() + Send + Sync + 'static);
}

/// Runs one round in this process.
pub(crate) fn measure<L: Limited>(job: &Job) -> Result<Sample> {
    let queue = L::start(job.max_active)?;
    let warm = Gate::leaked(1);
    queue.queue(|| warm.done());
    warm.wait();
    let (gate, sleep) = (Gate::leaked(job.count), job.wait());
    let start = Instant::now();
    for _ in 0..job.count {
        queue.queue(move || {
            if !sleep.is_zero() {
                thread::sleep(sleep);
            }
            gate.done();
        });
    }
    gate.wait();
    Ok(Sample { makespan_ns: sys::duration_ns(start.elapsed()) as f64 })
}

/// A column: sleep in its own unit, and limit.
struct Cross {
    sleep_s: u64,
    limit: usize,
}

fn crosses() -> impl Iterator<Item = Cross> {
    SLEEPS_S.iter().flat_map(|&sleep_s| LIMITS.map(|limit| Cross { sleep_s, limit }))
}

fn ideal_s(items: usize, cross: &Cross) -> u64 {
    items.div_ceil(cross.limit) as u64 * cross.sleep_s
}

/// Measures all chosen systems and makes the table.
pub(crate) fn run(session: &mut Session, options: &TenOptions) -> Result<Section> {
    let second_ms = options.second_ms.unwrap_or(if session.quick { 100 } else { 1000 });
    let rounds = session.rounds(RUNS);
    let entrants = session.entrants(Bench::Ten);
    let mut figures: Vec<Vec<Option<Spread>>> = vec![Vec::new(); entrants.len()];
    let mut last: Vec<Outcome<Sample>> = Vec::new();
    for cross in crosses() {
        let job = Job {
            wait_us: cross.sleep_s * second_ms * 1000,
            max_active: cross.limit,
            ..Job::new(Bench::Ten, 1, ITEMS)
        };
        // A system without a limit is measured once for each sleep.
        let takes_part = |role: Role| role == Role::Ours || cross.limit == 1;
        let cells = entrants.iter().filter(|entrant| takes_part(entrant.1));
        let cells = cells.map(|&(system, _)| Cell { system, job: job.clone() }).collect();
        let label = format!("ten, {} s, max_active {}", cross.sleep_s, cross.limit);
        let one_cpu = sys::OneCpu::pin()?;
        let outcomes = session.alternate::<Sample>(&label, cells, rounds)?;
        drop(one_cpu);
        for (place, (system, _)) in entrants.iter().enumerate() {
            let outcome = outcomes.iter().find(|outcome| outcome.system == *system);
            figures[place].push(outcome.and_then(makespan));
        }
        if cross.limit == 1 {
            last = outcomes;
        }
    }
    let rows: Vec<Row> = last
        .iter()
        .zip(figures)
        .map(|(outcome, figures)| row_of(outcome, Bench::Ten, figures))
        .collect();
    Ok(Section {
        curves: Vec::new(),
        name: "ten".to_owned(),
        title: format!(
            "ten: {ITEMS} items that sleep 0, 1 or 5 s, at most 1, 5 or 256 at a time, on one \
             CPU{}; {} rounds",
            if second_ms == 1000 { String::new() } else { format!(" (1 s = {second_ms} ms)") },
            rounds.runs
        ),
        columns: crosses()
            .map(|Cross { sleep_s, limit }| {
                Column::new(&format!("{sleep_s} s, {limit}"), Unit::Time)
            })
            .collect(),
        ratios: ratios(&rows, second_ms),
        rows,
        notes: vec![
            "columns: sleep, max_active; the ideal is ceil(10 / max_active) times the sleep"
                .to_owned(),
            "the original workqueue has no limit to set: its thread runs one item at a time"
                .to_owned(),
        ],
    })
}

fn makespan(outcome: &Outcome<Sample>) -> Option<Spread> {
    outcome.figure(|one| one.sample.makespan_ns)
}

fn ratios(rows: &[Row], second_ms: u64) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for (column, cross) in crosses().enumerate().filter(|(_, cross)| cross.sleep_s > 0) {
        let ideal = Duration::from_millis(ideal_s(ITEMS, &cross) * second_ms);
        let ideal = || Some(Side::named("ideal", sys::duration_ns(ideal) as f64));
        let what = |whose| format!("{whose}{} s, max_active {}", cross.sleep_s, cross.limit);
        for system in [System::CmwqPercpu, System::Cmwq] {
            let ours = Side::of(rows, system, column);
            ratios.extend(Ratio::new(what(""), Unit::Time, ours, ideal()).goal(GOAL));
        }
        let theirs = Side::of(rows, System::OriginalMt, column);
        ratios.extend(Ratio::new(what("original, "), Unit::Time, theirs, ideal()).value());
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_is_a_whole_number_of_turns() {
        let ideal = |sleep_s, limit| ideal_s(10, &Cross { sleep_s, limit });
        assert_eq!((ideal(1, 1), ideal(1, 5), ideal(1, 256)), (10, 2, 1));
        assert_eq!((ideal(5, 1), ideal(5, 3), ideal(0, 1)), (50, 20, 0));
    }
}
