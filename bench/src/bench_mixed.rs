//! Mixed load: items that burn CPU time and then block, many per CPU, all queued at once.
//!
//! The ideal keeps every CPU computing from the first item to the last and then waits for one last
//! block. A pool of one thread per CPU leaves its CPUs idle while items block; a pool of one thread
//! per item lets them fight for the CPUs.

use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::child::{COUNT_EVERY, Measured};
use crate::cli::MixedOptions;
use crate::computing::Computing;
use crate::gate::Gate;
use crate::job::{Bench, Job};
use crate::peers::{self, Peer};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, best_peer, row_of};
use crate::rounds::{Cell, Outcome, Rounds, Session};
use crate::sys::{self, ThreadCount};
use crate::systems::System;

const RUNS: usize = 5;
const RUNS_FOREIGN: usize = 3;

/// What part of all CPU time foreign loops are to keep, of which they would have half beside one
/// thread on each CPU.
const FOREIGN_SHARE: f64 = 0.4;

/// How much CPU time a pool may use for that of its items.
const CPU_GOAL: f64 = 1.03;

const ITEMS_PER_CPU: usize = 200;
const BURN_US: u64 = 1000;
const SLEEP_US: u64 = 5000;

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    pub(crate) makespan_ns: f64,
    /// Most items in their computing part at once.
    max_computing: f64,
    /// CPU time of the process meanwhile.
    cpu_ns: f64,
    /// Threads that the process had before the pool was made.
    base_threads: u64,
}

/// Runs one round in this process.
pub(crate) fn measure<P: Peer>(job: &Job) -> Result<Sample> {
    let threads = ThreadCount::of("self")?;
    let base_threads = threads.read().context("reading this process' number of threads")?;
    let peer = P::start(job)?;
    peers::warm_up(&peer, job.cpus);

    let computing: &'static Computing = Box::leak(Box::default());
    let burn = job.burn();
    let gate = Gate::leaked(job.count);
    let (start, cpu_before) = (Instant::now(), sys::cpu_ns());
    for _ in 0..job.count {
        if job.first_us == 0 {
            peer.spawn_mixed(move || computing.burn(burn), job.wait(), || gate.done());
        } else {
            peer.spawn_fetching(
                job.first_wait(),
                move || computing.burn(burn),
                job.wait(),
                || gate.done(),
            );
        }
    }
    gate.wait();
    let makespan_ns = sys::duration_ns(start.elapsed()) as f64;
    let cpu_ns = (sys::cpu_ns() - cpu_before) as f64;
    Ok(Sample { makespan_ns, max_computing: computing.most(), cpu_ns, base_threads })
}

/// Measures all chosen systems and makes the table.
pub(crate) fn run(session: &mut Session, options: &MixedOptions) -> Result<Section> {
    let count = session.size(options.items_per_cpu, ITEMS_PER_CPU, ITEMS_PER_CPU) * session.cpus;
    let job = Job {
        burn_us: options.burn_us.unwrap_or(BURN_US),
        wait_us: options.sleep_us.unwrap_or(SLEEP_US),
        first_us: options.first_us.unwrap_or_default(),
        ..Job::new(Bench::Mixed, session.cpus, count)
    };
    let runs = if options.foreign { RUNS_FOREIGN } else { RUNS };
    let rounds = Rounds {
        count_threads: Some(COUNT_EVERY),
        foreign: options.foreign,
        ..session.rounds(runs)
    };
    let ideal_ns = ideal_ns(&job);
    let entrants = session.entrants(Bench::Mixed);
    // Those in other languages do not know that part of the load, and an asynchronous item would
    // not block.
    let waits_first = |system: System| system.runs_threads() || job.first_us == 0;
    let entrants = entrants.iter().filter(|&&(system, _)| waits_first(system));
    let cells = entrants.map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let outcomes = session.alternate::<Sample>(name(options.foreign), cells, rounds)?;

    let rows: Vec<Row> = outcomes.iter().map(|outcome| row(outcome, &job, ideal_ns)).collect();
    let ratios = ratios(&rows, ideal_ns, session.cpus, options.foreign);
    Ok(Section {
        curves: Vec::new(),
        name: name(options.foreign).to_owned(),
        title: title(&job, rounds, ideal_ns),
        columns: columns(options.foreign),
        rows,
        ratios,
        notes: notes(options.foreign),
    })
}

/// The load without options, and its ideal.
pub(crate) fn usual(cpus: usize) -> (Job, f64) {
    let job = Job {
        burn_us: BURN_US,
        wait_us: SLEEP_US,
        ..Job::new(Bench::Mixed, cpus, ITEMS_PER_CPU * cpus)
    };
    let ideal_ns = ideal_ns(&job);
    (job, ideal_ns)
}

fn columns(foreign: bool) -> Vec<Column> {
    let mut columns = vec![
        Column::new("makespan", Unit::Time),
        Column::new("x ideal", Unit::Plain),
        Column::new("pool threads", Unit::Count),
        Column::new("computing at once", Unit::Count),
        Column::new("CPU / work", Unit::Plain),
    ];
    columns.extend(foreign.then(|| Column::new("foreign share", Unit::Plain)));
    columns
}

fn notes(foreign: bool) -> Vec<String> {
    let threads = "pool threads: most threads of the process, less those it had before the pool \
                   was made (Go: all)";
    let cpu = "CPU / work: CPU time of the process from the first queueing to the last end, by \
               that which its items burn";
    let share = "foreign share: what the process left of all CPU time until the last item's end, \
                 which the busy loops had; a pool that computes in many threads at once is fast \
                 here by taking it from them";
    [threads, cpu].into_iter().chain(foreign.then_some(share)).map(str::to_owned).collect()
}

fn name(foreign: bool) -> &'static str {
    if foreign { "mixed-foreign" } else { "mixed" }
}

fn title(job: &Job, rounds: Rounds, ideal_ns: f64) -> String {
    let Job { count, burn_us, wait_us, cpus, .. } = job;
    let beside = if rounds.foreign {
        format!(
            ", beside one foreign busy loop on each of {cpus} CPUs \
             (started before and killed after each measurement)"
        )
    } else {
        String::new()
    };
    let first = match job.first_us {
        0 => String::new(),
        first => format!("{} blocked, then ", Unit::Time.show(first as f64 * 1e3)),
    };
    format!(
        "mixed: {count} items, each {first}{} of CPU time and then {} blocked, on {cpus} \
         CPUs{beside}; \
         ideal {}; {} rounds",
        Unit::Time.show(*burn_us as f64 * 1e3),
        Unit::Time.show(*wait_us as f64 * 1e3),
        Unit::Time.show(ideal_ns),
        rounds.runs,
    )
}

/// All CPUs compute until the last item has computed; that one blocks at the very end.
fn ideal_ns(job: &Job) -> f64 {
    let turns = job.count.div_ceil(job.cpus) as f64;
    (job.first_us as f64 + turns * job.burn_us as f64 + job.wait_us as f64) * 1e3
}

fn row(outcome: &Outcome<Sample>, job: &Job, ideal_ns: f64) -> Row {
    let work_ns = job.count as f64 * job.burn_us as f64 * 1e3;
    let by_work = |one: &Measured<Sample>| one.sample.cpu_ns / work_ns;
    row_of(
        outcome,
        Bench::Mixed,
        vec![
            outcome.figure(|one| one.sample.makespan_ns),
            outcome.figure(|one| one.sample.makespan_ns / ideal_ns),
            outcome.figure(|one| one.peak_threads.saturating_sub(one.sample.base_threads) as f64),
            outcome.figure(|one| one.sample.max_computing),
            // Items that only wait are no work to divide by.
            outcome.figure(by_work).filter(|_| work_ns > 0.0),
            // Shown only in the table that has a column for it.
            outcome.figure(|one| foreign_share(&one.sample, job.cpus)),
        ],
    )
}

/// What the process left of all CPU time until the last item ended. Not what the loops had while
/// the process was there: one with sentinels may be there for long after its last item.
fn foreign_share(sample: &Sample, cpus: usize) -> f64 {
    1.0 - sample.cpu_ns / (sample.makespan_ns * cpus as f64)
}

fn ratios(rows: &[Row], ideal_ns: f64, cpus: usize, foreign: bool) -> Vec<Ratio> {
    let ours = |column| Side::of(rows, System::Cmwq, column);
    let mut ratios = Vec::new();
    if !foreign {
        let ideal = Side::named("ideal", ideal_ns);
        ratios.extend(Ratio::new("makespan / ideal", Unit::Time, ours(0), Some(ideal)).goal(1.03));
        let threads = Side::named("16 per 2 CPUs", 8.0 * cpus as f64);
        ratios.extend(Ratio::new("threads", Unit::Count, ours(2), Some(threads)).goal(1.0));
        let cpus = Side::named("CPUs", cpus as f64);
        ratios.extend(Ratio::new("computing at once", Unit::Count, ours(3), Some(cpus)).goal(1.0));
    }
    if foreign {
        let least = Side::named("wanted", FOREIGN_SHARE);
        let share = Ratio::new("wanted / foreign share", Unit::Plain, Some(least), ours(5));
        ratios.extend(share.goal(1.0));
        let work = Side::named("work", 1.0);
        ratios.extend(Ratio::new("CPU / work", Unit::Plain, ours(4), Some(work)).goal(CPU_GOAL));
    }
    // Beside foreign load that has no goal: who leaves it less is sooner through.
    let best = best_peer(rows, 0);
    ratios.extend(Ratio::new("makespan / best peer", Unit::Time, ours(0), best).value());
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    #[test]
    fn beside_foreign_load_the_goals_are_what_it_keeps_and_what_the_pool_uses() {
        let figures = [366e6, 1.787, 19.0, 2.0, 1.02, 0.5].map(|value| Some(Spread::single(value)));
        let rows = [Row::computed(System::Cmwq, "cmwq", figures.to_vec())];
        let ratios = serde_json::to_value(ratios(&rows, 205e6, 2, true)).unwrap();
        let of = |at: usize| (ratios[at]["ratio"].as_f64(), ratios[at]["goal"].as_f64());
        assert_eq!(of(0), (Some(0.8), Some(1.0)), "more than is wanted meets the goal");
        assert_eq!(of(1), (Some(1.02), Some(CPU_GOAL)));
    }

    #[test]
    fn the_foreign_share_is_what_the_process_left_until_the_last_item_ended() {
        let sample =
            Sample { makespan_ns: 364e6, max_computing: 2.0, cpu_ns: 439e6, base_threads: 1 };
        // 439 ms of the 728 ms that two CPUs have.
        let share = foreign_share(&sample, 2);
        assert!((share - 0.397).abs() < 0.0005, "{share}");
    }

    #[test]
    fn the_ideal_computes_without_a_gap_and_blocks_once() {
        let job = Job { burn_us: 1000, wait_us: 5000, ..Job::new(Bench::Mixed, 2, 400) };
        assert_eq!(ideal_ns(&job), 205e6);
        assert_eq!(ideal_ns(&Job { count: 401, ..job.clone() }), 206e6);
        assert_eq!(ideal_ns(&Job { first_us: 7000, ..job }), 212e6);
    }
}
