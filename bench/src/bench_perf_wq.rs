//! perf-wq beside a foreground program: how much slower that becomes, and how the works fare.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child::Measured;
use crate::foreground::{Foreground, Kind};
use crate::job::{Bench, Job, value_name};
use crate::peers::Reschedules;
use crate::perf_wq::{self, Length, Load, Variant, WORKLOADS};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, best_peer, row_of};
use crate::rounds::{Cell, Outcome, Rounds, Session, each_round};
use crate::stats::{Spread, percentile};
use crate::sys::{self, ThreadCount};
use crate::systems::System;

const RUNS: usize = 3;
const SCALE: f64 = 0.1;
const SCALE_QUICK: f64 = 0.04;
const WORKLOADS_QUICK: [usize; 2] = [0, 5];

/// How long the foreground program takes at scale 1.
const FOREGROUND: Duration = Duration::from_secs(25);

/// How often the threads of a child are counted: seldom, because something else is timed.
const COUNT_EVERY: Duration = Duration::from_millis(20);

/// The kernel's own figure for the slowest case.
const SLOWDOWN_GOAL: f64 = 1.026;

/// Cycle ends are counted in portions of so much time.
const BUCKET_NS: u64 = 10_000_000;

/// Options of `perf-wq`.
#[derive(Args, Debug, Default)]
pub(crate) struct PerfWqOptions {
    /// Workloads, 0 (most short works) to 5 (none) [default: all, with --quick 0 and 5].
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(..6))]
    pub(crate) workloads: Vec<u8>,
    /// How much the works burn [default: both, with --quick l].
    #[arg(long, value_delimiter = ',')]
    pub(crate) variants: Vec<Variant>,
    /// Length of the works and of the foreground program; 1 is that of 2010, 25 s
    /// [default: 0.1, with --quick 0.04].
    #[arg(long)]
    pub(crate) scale: Option<f64>,
    /// The foreground program.
    #[arg(long, default_value = "auto")]
    pub(crate) foreground: Kind,
    /// Everything on one CPU, as in 2010.
    #[arg(long)]
    pub(crate) one_cpu: bool,
}

/// One round of one system.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Sample {
    pub(crate) makespan_ns: f64,
    cycles: u64,
    /// Of all works and of each length: median, 99th percentile and most; `None` without such
    /// works.
    late_ns: [Option<[f64; 3]>; 4],
    /// Cycles that had ended after 10 ms, 20 ms, ...
    ended: Vec<u64>,
    cpu_ns: f64,
    switches: f64,
    /// Threads that the process had before the queues were made.
    base_threads: u64,
}

/// No load at all.
pub(crate) fn nothing() -> Result<Sample> {
    Ok(Sample::default())
}

/// Runs one round in this process.
pub(crate) fn measure<R: Reschedules>(job: &Job) -> Result<Sample> {
    let base_threads = ThreadCount::of("self")?.read().unwrap_or_default();
    let load: &'static Load = Box::leak(Box::new(Load::new(perf_wq::parse(&job.works)?)));
    let system = R::start(job, load)?;
    let before = sys::own_usage()?;
    let start_ns = sys::now_ns();
    for work in 0..load.len() {
        load.arm(work).into_iter().for_each(|delay| system.arm(work, delay));
    }
    load.wait();
    let end_ns = sys::now_ns();
    let after = sys::own_usage()?;
    let ended: Vec<u64> = load.each().flat_map(|progress| progress.ended_ns.clone()).collect();
    Ok(Sample {
        makespan_ns: (end_ns - start_ns) as f64,
        cycles: ended.len() as u64,
        late_ns: lateness(load),
        ended: cumulated(&ended, start_ns, end_ns),
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns) as f64,
        switches: after.switches.saturating_sub(before.switches) as f64,
        base_threads,
    })
}

fn lateness(load: &Load) -> [Option<[f64; 3]>; 4] {
    let of = |wanted: &dyn Fn(Length) -> bool| {
        let works = load.each().filter(|progress| wanted(progress.work.length));
        let late: Vec<f64> =
            works.flat_map(|progress| progress.late_ns.clone()).map(|ns| ns as f64).collect();
        let at = |percent| percentile(&late, percent);
        Some([at(50.0)?, at(99.0)?, at(100.0)?])
    };
    let [short, medium, long] = Length::ALL.map(|length| of(&|other| other == length));
    [of(&|_| true), short, medium, long]
}

/// How many of `times` are past after each portion of the time from `start` to `end`.
fn cumulated(times: &[u64], start: u64, end: u64) -> Vec<u64> {
    let portion = |time: u64| (time.saturating_sub(start) / BUCKET_NS) as usize;
    let mut counts = vec![0; portion(end) + 1];
    let last = counts.len() - 1;
    times.iter().for_each(|&time| counts[portion(time).min(last)] += 1);
    counts
        .iter()
        .scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
        .collect()
}

impl Sample {
    /// Cycles that had ended when the foreground program had.
    fn cycles_within(&self, ns: f64) -> u64 {
        let portions = (ns / BUCKET_NS as f64) as usize;
        match portions.checked_sub(1) {
            None => 0,
            Some(place) => self.ended.get(place).copied().unwrap_or(self.cycles),
        }
    }
}

/// Measures all chosen systems and makes a table for each workload and variant.
pub(crate) fn run(session: &mut Session, options: &PerfWqOptions) -> Result<Vec<Section>> {
    let one_cpu = options.one_cpu.then(sys::OneCpu::pin).transpose()?;
    let all_cpus = session.cpus;
    if one_cpu.is_some() {
        session.cpus = 1;
    }
    let sections = on_these_cpus(session, options);
    session.cpus = all_cpus;
    sections
}

fn on_these_cpus(session: &mut Session, options: &PerfWqOptions) -> Result<Vec<Section>> {
    let scale = options.scale.unwrap_or(if session.quick { SCALE_QUICK } else { SCALE });
    anyhow::ensure!(scale > 0.0, "--scale must be more than 0");
    let target = FOREGROUND.mul_f64(scale);
    let foreground = Foreground::prepare(options.foreground, target, session.cpus)?;
    let limit = session.limit;
    // A single thread behind 26 queues may need several times as long.
    session.limit = limit.max(Duration::from_secs(30) + target * 10);
    session.foreground = Some(foreground);
    let seed = session.rng.u64(1..);
    let mut sections = Ok(Vec::new());
    for (workload, variant) in chosen(session.quick, options) {
        let works = perf_wq::works(workload, variant, scale, seed);
        let section = table(session, &works, workload, variant, scale);
        sections = sections.and_then(|mut sections: Vec<Section>| {
            sections.push(section?);
            Ok(sections)
        });
        if sections.is_err() {
            break;
        }
    }
    session.foreground = None;
    session.limit = limit;
    sections
}

fn chosen(quick: bool, options: &PerfWqOptions) -> Vec<(usize, Variant)> {
    let mut workloads: Vec<usize> = options.workloads.iter().map(|&w| usize::from(w)).collect();
    if workloads.is_empty() {
        workloads = if quick { WORKLOADS_QUICK.to_vec() } else { (0..WORKLOADS.len()).collect() };
    }
    let mut variants = options.variants.clone();
    if variants.is_empty() {
        variants = if quick { vec![Variant::L] } else { vec![Variant::L, Variant::S] };
    }
    let each = |variant| workloads.iter().map(move |&workload| (workload, variant));
    variants.into_iter().flat_map(each).collect()
}

fn table(
    session: &mut Session,
    works: &[perf_wq::Work],
    workload: usize,
    variant: Variant,
    scale: f64,
) -> Result<Section> {
    let cycles: u64 = works.iter().map(|work| work.cycles).sum();
    let job =
        Job { works: perf_wq::spell(works), ..Job::new(Bench::PerfWq, session.cpus, works.len()) };
    let rounds = Rounds { count_threads: Some(COUNT_EVERY), ..session.rounds(RUNS) };
    let cells = session.entrants(Bench::PerfWq);
    let cells = cells.iter().map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let name = format!("perf-wq-{}{workload}", value_name(variant));
    let outcomes = session.alternate::<Sample>(&name, cells, rounds)?;
    let ideal_ns = sys::duration_ns(perf_wq::ideal(works)) as f64;
    let alone_ns = alone(&outcomes);
    let rows: Vec<Row> = outcomes.iter().map(|outcome| row(outcome, ideal_ns, alone_ns)).collect();
    let cpus = session.cpus;
    let beside = session.foreground.as_ref().map_or_else(String::new, Foreground::describe);
    Ok(Section {
        curves: Vec::new(),
        title: format!(
            "perf-wq, workload {workload}, variant {}: {} works of {} queues, {cycles} cycles, on \
             {cpus} CPUs beside {beside}; scale {scale}, ideal {}; {} rounds",
            value_name(variant).to_uppercase(),
            works.len(),
            works.iter().map(|work| work.queue + 1).max().unwrap_or(0),
            Unit::Time.show(ideal_ns),
            rounds.runs,
        ),
        name,
        columns: columns(),
        ratios: ratios(&rows, &outcomes),
        rows,
        notes: notes(),
    })
}

/// What the foreground program takes without load.
fn alone(outcomes: &[Outcome<Sample>]) -> Option<f64> {
    let nothing = outcomes.iter().find(|outcome| outcome.system == System::Nothing)?;
    let times: Vec<f64> = nothing.samples.iter().map(|one| one.foreground_ns).collect();
    Spread::of(&times).map(|spread| spread.median)
}

const SLOWDOWN: usize = 1;
const TIMES_IDEAL: usize = 3;
const LATE_P50: usize = 5;
const LATE_P99: usize = 6;

fn columns() -> Vec<Column> {
    let columns = [
        ("foreground", Unit::Time),
        ("slowdown", Unit::Plain),
        ("works through", Unit::Time),
        ("x ideal", Unit::Plain),
        ("cycles beside it", Unit::Count),
        ("late p50", Unit::Time),
        ("late p99", Unit::Time),
        ("late max", Unit::Time),
        ("short p99", Unit::Time),
        ("medium p99", Unit::Time),
        ("long p99", Unit::Time),
        ("threads", Unit::Count),
        ("switches/cycle", Unit::Plain),
        ("CPU/cycle", Unit::Time),
    ];
    columns.map(|(title, unit)| Column::new(title, unit)).to_vec()
}

fn notes() -> Vec<String> {
    [
        "slowdown: time of the foreground program by its time without load",
        "works through: from the first arming to the last cycle's end; ideal: the longest work's \
         own sleeps, pauses and burns",
        "cycles beside it: those that had ended when the foreground program had",
        "late: from when a cycle was due to its start, timers included; p99 of each kind of work",
        "threads: most of the process, less those it had before the queues were made (Go: all)",
        "none: no load; original-mt, original-st: the workqueue before workers were shared, a \
         thread for each queue and CPU, or for each queue",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn row(outcome: &Outcome<Sample>, ideal_ns: f64, alone_ns: Option<f64>) -> Row {
    let figure = |value: &dyn Fn(&Measured<Sample>) -> Option<f64>| {
        Spread::of(&outcome.samples.iter().filter_map(value).collect::<Vec<_>>())
    };
    let late = |of: usize, at: usize| figure(&|one| Some(one.sample.late_ns[of]?[at]));
    // Where there is no load, there is nothing to say of it.
    let of_load = |value: &dyn Fn(&Measured<Sample>) -> f64| {
        figure(&|one| (one.sample.cycles > 0).then(|| value(one)))
    };
    let per_cycle = |value: f64, one: &Measured<Sample>| value / one.sample.cycles as f64;
    let figures = vec![
        figure(&|one| Some(one.foreground_ns).filter(|&ns| ns > 0.0)),
        figure(&|one| Some(one.foreground_ns / alone_ns?).filter(|&ratio| ratio > 0.0)),
        of_load(&|one| one.sample.makespan_ns),
        of_load(&|one| one.sample.makespan_ns / ideal_ns),
        of_load(&|one| one.sample.cycles_within(one.foreground_ns) as f64),
        late(0, 0),
        late(0, 1),
        late(0, 2),
        late(1, 1),
        late(2, 1),
        late(3, 1),
        of_load(&|one| one.peak_threads.saturating_sub(one.sample.base_threads) as f64),
        of_load(&|one| per_cycle(one.sample.switches, one)),
        of_load(&|one| per_cycle(one.sample.cpu_ns, one)),
    ];
    row_of(outcome, Bench::PerfWq, figures)
}

fn ratios(rows: &[Row], outcomes: &[Outcome<Sample>]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    let none = || Side::of(rows, System::Nothing, 0);
    let each = |system: System| each_round(outcomes, &system.name(), |one| one.foreground_ns);
    for system in [System::Cmwq, System::CmwqPercpu] {
        let ours = Side::of(rows, system, 0);
        let slowdown = Ratio::new("foreground / without load", Unit::Time, ours, none())
            .rounds(&each(system), &each(System::Nothing));
        ratios.extend(slowdown.goal(SLOWDOWN_GOAL));
    }
    for (what, system) in [("original-mt", System::OriginalMt), ("original-st", System::OriginalSt)]
    {
        let theirs = Side::of(rows, system, SLOWDOWN);
        let ours = Side::of(rows, System::Cmwq, SLOWDOWN);
        let what = format!("slowdown / {what}");
        ratios.extend(Ratio::new(what, Unit::Plain, ours, theirs).goal(1.0));
    }
    for (what, column, unit) in [
        ("works through, x ideal / best peer", TIMES_IDEAL, Unit::Plain),
        ("late p50 / best peer", LATE_P50, Unit::Time),
        ("late p99 / best peer", LATE_P99, Unit::Time),
    ] {
        let ours = Side::of(rows, System::Cmwq, column);
        ratios.extend(Ratio::new(what, unit, ours, best_peer(rows, column)).value());
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_counted_in_portions_of_time() {
        let ms = 1_000_000;
        let ended = cumulated(&[100 * ms, 109 * ms, 110 * ms, 135 * ms], 100 * ms, 135 * ms);
        assert_eq!(ended, [2, 3, 3, 4]);
        let sample = Sample { cycles: 4, ended, ..Sample::default() };
        let within = |ms| sample.cycles_within(f64::from(ms) * 1e6);
        assert_eq!((within(0), within(10), within(25), within(40), within(9000)), (0, 2, 3, 4, 4));
    }

    #[test]
    fn a_quick_look_takes_the_extremes() {
        let all = chosen(false, &PerfWqOptions::default());
        assert_eq!(all.len(), 12);
        let quick = chosen(true, &PerfWqOptions::default());
        assert_eq!(quick, [(0, Variant::L), (5, Variant::L)]);
        let given = PerfWqOptions {
            workloads: vec![3],
            variants: vec![Variant::S],
            ..PerfWqOptions::default()
        };
        assert_eq!(chosen(true, &given), [(3, Variant::S)]);
    }
}
