//! The best pool size: how many threads each pool should have had for a load, found by search, and
//! where cmwq stands that was given no size at all.
//!
//! Sizes are tried in powers of two, from the largest down to one that is far too small, then
//! around the best one in ever smaller steps. What looked best once may have been lucky, so in the
//! end every pool is measured again at its best size, in turns with cmwq; only those rounds are
//! compared.

use anyhow::{Context as _, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::job::{Bench, Job, value_name};
use crate::perf_wq::{self, Variant, WORKLOADS};
use crate::report::{Column, Curve, Ratio, Row, Section, Side, Unit, best_peer, row_of};
use crate::rounds::{Cell, Outcome, Rounds, Session, each_round};
use crate::stats::Spread;
use crate::systems::{Role, System};
use crate::{bench_hash, bench_mixed, bench_perf_wq, sys};

const RUNS: usize = 5;
const LARGEST: usize = 512;
const LARGEST_QUICK: usize = 64;
const SCALE: f64 = 0.1;
const SCALE_QUICK: f64 = 0.02;
const FILES: usize = 2000;
const FILES_QUICK: usize = 400;

/// How much slower than the best size cmwq may be.
pub(crate) const GOAL: f64 = 1.03;

/// The same for files from a cold cache, where the device has a part in it.
const HASH_GOAL: f64 = 1.05;

const AGAIN: &str = "again: the same load a second time in the same process; pools of a size have \
                     their threads \
                     before the first time, those that grow make them during it";

const BEST_SIZE: &str = "best size: threads that the pool was given because that was fastest in \
                         one run of each size; cmwq is given none";

/// Steps of refinement around the best power of two; each halves the distance in the exponent.
const REFINEMENTS: usize = 2;

/// Which makespan, divided by the best one, ends the search: pools that are still smaller take
/// minutes, one item after the other.
const HOPELESS: f64 = 4.0;

/// Options of `sizes`.
#[derive(Args, Debug, Default)]
pub(crate) struct SizesOptions {
    /// Largest pool to try [default: 512, with --quick 64].
    #[arg(long)]
    pub(crate) largest: Option<usize>,
    /// Length of perf-wq's works, 1 is that of 2010 [default: 0.1, with --quick 0.02].
    #[arg(long)]
    pub(crate) scale: Option<f64>,
    /// Only perf-wq's workloads of these numbers, without the other loads [default: all, with
    /// --quick 0].
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(..6))]
    pub(crate) workloads: Vec<u8>,
    /// Only the directory hash.
    #[arg(long, conflicts_with = "workloads")]
    pub(crate) hash: bool,
    /// How many files that hashes [default: 2000, with --quick 400].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) files: Option<u32>,
}

/// A load for which a size is looked for.
pub(crate) struct Load {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) job: Job,
    /// `None`: nobody knows what the device can do.
    pub(crate) ideal_ns: Option<f64>,
    /// How much slower than the best size cmwq may be.
    pub(crate) goal: f64,
}

/// One round of one system, where nothing but its makespan is measured.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Makespan {
    pub(crate) makespan_ns: f64,
    /// The same load once more in the same process, if that was asked for ([`Job::again`]).
    pub(crate) again_ns: Option<f64>,
}

impl Makespan {
    fn once(makespan_ns: f64) -> Self {
        Self { makespan_ns, again_ns: None }
    }

    /// Of a load that is done as often as `job` says.
    pub(crate) fn of(job: &Job, mut load: impl FnMut() -> Result<f64>) -> Result<Self> {
        let makespan_ns = load()?;
        let again_ns = if job.again > 0 { Some(load()?) } else { None };
        Ok(Self { makespan_ns, again_ns })
    }
}

/// The largest pool to try: as given, or the default.
pub(crate) fn largest(session: &Session, given: Option<usize>) -> usize {
    let default = if session.quick { LARGEST_QUICK } else { LARGEST };
    given.unwrap_or(default).max(1)
}

/// Measures each load and makes a table for it.
pub(crate) fn run(session: &mut Session, options: &SizesOptions) -> Result<Vec<Section>> {
    let largest = largest(session, options.largest);
    loads(session, options)?.iter().map(|load| table(session, load, largest)).collect()
}

fn loads(session: &mut Session, options: &SizesOptions) -> Result<Vec<Load>> {
    let scale = options.scale.unwrap_or(if session.quick { SCALE_QUICK } else { SCALE });
    let mut loads = Vec::new();
    if options.workloads.is_empty() {
        let files = options.files.map(|files| files as usize);
        let files = files.unwrap_or(if session.quick { FILES_QUICK } else { FILES });
        loads.push(Load {
            name: "sizes-hash".to_owned(),
            title: format!("directory hash of {files} files from a cold cache"),
            job: bench_hash::job(session.cpus, files)?,
            ideal_ns: None,
            goal: HASH_GOAL,
        });
    }
    if options.hash {
        return Ok(loads);
    }
    if options.workloads.is_empty() {
        let (job, ideal_ns) = bench_mixed::usual(session.cpus);
        let (name, title) = ("sizes-mixed".to_owned(), "mixed".to_owned());
        loads.push(Load { name, title, job, ideal_ns: Some(ideal_ns), goal: GOAL });
    }
    let mut workloads: Vec<usize> = options.workloads.iter().map(|&w| usize::from(w)).collect();
    if workloads.is_empty() {
        workloads = if session.quick { vec![0] } else { (0..WORKLOADS.len()).collect() };
    }
    let seed = session.rng.u64(1..);
    let perf_wq = workloads.into_iter().map(|workload| {
        let works = perf_wq::works(workload, Variant::L, scale, seed);
        Load {
            name: format!("sizes-perf-wq-{workload}"),
            title: format!("perf-wq, workload {workload}, scale {scale}"),
            ideal_ns: Some(sys::duration_ns(perf_wq::ideal(&works)) as f64),
            goal: GOAL,
            job: Job {
                works: perf_wq::spell(&works),
                ..Job::new(Bench::PerfWq, session.cpus, works.len())
            },
        }
    });
    loads.extend(perf_wq);
    Ok(loads)
}

/// The best size of each pool for `load`, and cmwq beside all of them.
pub(crate) fn table(session: &mut Session, load: &Load, largest: usize) -> Result<Section> {
    let rounds = session.rounds(RUNS);
    let is_done_again = matches!(load.job.bench, Bench::Hash | Bench::Waits | Bench::Pictures);
    let job = Job { again: is_done_again.into(), ..load.job.clone() };
    let mut cells = Vec::new();
    let mut curves = Vec::new();
    for (system, role) in session.entrants(load.job.bench) {
        if role == Role::Ours {
            cells.push(Cell { system, job: job.clone() });
            continue;
        }
        if !system.has_size() {
            continue;
        }
        if session.external.absent(system).is_some() {
            // Its row says why.
            cells.push(Cell { system, job: job.clone() });
            continue;
        }
        let mut tried = Search::default();
        tried.run(largest, |size| once(session, load, system, size))?;
        let best = tried.best().with_context(|| format!("{} never ended", system.name()))?;
        cells.push(Cell { system, job: Job { size: best, ..job.clone() } });
        let points = tried.0.iter().map(|&(size, ns)| (size as f64, ns)).collect();
        curves.push(Curve { name: system.name(), points });
    }
    let (outcomes, complaint) = makespans(session, load, cells, rounds)?;
    let rows: Vec<Row> = outcomes.iter().map(|outcome| row(outcome, load, is_done_again)).collect();
    curves.extend(outcomes.iter().filter_map(|outcome| level(outcome, largest)));
    let ratios = ratios(load.goal, &outcomes, &rows, is_done_again);
    let mut columns = vec![
        Column::new("makespan", Unit::Time),
        Column::new("x ideal", Unit::Plain),
        Column::new("best size", Unit::Count),
    ];
    columns.extend(is_done_again.then(|| Column::new("again", Unit::Time)));
    let notes = [BEST_SIZE].into_iter().chain(is_done_again.then_some(AGAIN)).map(str::to_owned);
    Ok(Section {
        name: load.name.clone(),
        title: format!(
            "best pool size, {}: sizes 1 to {largest} on {} CPUs{}; then {} rounds with the best \
             ones",
            load.title,
            session.cpus,
            load.ideal_ns.map_or_else(String::new, |ns| format!(", ideal {}", Unit::Time.show(ns))),
            rounds.runs,
        ),
        columns,
        ratios,
        rows,
        notes: complaint.into_iter().chain(notes).collect(),
        curves,
    })
}

/// The column of the second time.
const AGAIN_COLUMN: usize = 3;

/// How ours stand beside the best of the others, the first time and the second.
fn ratios(
    goal: f64,
    outcomes: &[Outcome<Makespan>],
    rows: &[Row],
    is_done_again: bool,
) -> Vec<Ratio> {
    let against = |system: System, column: usize, what: &str| {
        let times = |name: &str| match column {
            0 => each_round(outcomes, name, |one| one.sample.makespan_ns),
            _ => each_round(outcomes, name, |one| one.sample.again_ns),
        };
        let best = best_peer(rows, column);
        let theirs = best.as_ref().map_or_else(Vec::new, |side| times(side.name()));
        Ratio::new(what, Unit::Time, Side::of(rows, system, column), best)
            .rounds(&times(&system.name()), &theirs)
    };
    let first = "makespan / best size of the best peer";
    let again = "again / best peer's again";
    let mut ratios = vec![
        against(System::Cmwq, 0, first).goal(goal),
        against(System::CmwqPercpu, 0, first).value(),
    ];
    if is_done_again {
        ratios.push(against(System::Cmwq, AGAIN_COLUMN, again).goal(goal));
    }
    ratios.into_iter().flatten().collect()
}

fn first_times(outcome: &Outcome<Makespan>) -> Vec<f64> {
    outcome.samples.iter().map(|one| one.sample.makespan_ns).collect()
}

fn second_times(outcome: &Outcome<Makespan>) -> Vec<f64> {
    outcome.samples.iter().filter_map(|one| one.sample.again_ns).collect()
}

/// What takes no size, as a line across all of them.
fn level(outcome: &Outcome<Makespan>, largest: usize) -> Option<Curve> {
    let ns = first_times(outcome);
    let median = Spread::of(&ns).filter(|_| outcome.job.size == 0)?.median;
    let points = vec![(1.0, median), (largest as f64, median)];
    Some(Curve { name: outcome.system.name(), points })
}

fn row(outcome: &Outcome<Makespan>, load: &Load, is_done_again: bool) -> Row {
    let ns = first_times(outcome);
    let ideals = load.ideal_ns.map(|ideal| ns.iter().map(|ns| ns / ideal).collect::<Vec<_>>());
    let size = (outcome.job.size > 0).then(|| Spread::single(outcome.job.size as f64));
    let mut figures = vec![Spread::of(&ns), ideals.and_then(|ideals| Spread::of(&ideals)), size];
    figures.extend(is_done_again.then(|| Spread::of(&second_times(outcome))));
    row_of(outcome, load.job.bench, figures)
}

/// One measurement of one size; infinite if it failed or took too long.
fn once(session: &mut Session, load: &Load, system: System, size: usize) -> Result<f64> {
    let cells = vec![Cell { system, job: Job { size, ..load.job.clone() } }];
    let rounds = Rounds { runs: 1, ..session.rounds(1) };
    let (outcomes, _) = makespans(session, load, cells, rounds)?;
    let sample = outcomes.first().and_then(|outcome| outcome.samples.first());
    Ok(sample.map_or(f64::INFINITY, |one| one.sample.makespan_ns))
}

/// What each took, and what is to be said of it.
fn makespans(
    session: &mut Session,
    load: &Load,
    cells: Vec<Cell>,
    rounds: Rounds,
) -> Result<(Vec<Outcome<Makespan>>, Option<String>)> {
    let name = format!("{} ({})", load.name, value_name(load.job.bench));
    let mut complaint = None;
    let outcomes = match load.job.bench {
        Bench::Hash => {
            let outcomes = session.alternate::<bench_hash::Sample>(&name, cells, rounds)?;
            let samples = outcomes.iter().flat_map(|outcome| &outcome.samples);
            complaint = bench_hash::complaint(samples.map(|one| one.sample.cold));
            outcomes.into_iter().map(|outcome| outcome.map(|one| one.makespan)).collect()
        }
        Bench::Mixed => {
            let outcomes = session.alternate::<bench_mixed::Sample>(&name, cells, rounds)?;
            outcomes
                .into_iter()
                .map(|outcome| outcome.map(|one| Makespan::once(one.makespan_ns)))
                .collect()
        }
        Bench::Waits | Bench::Pictures => session.alternate(&name, cells, rounds)?,
        _ => {
            let outcomes = session.alternate::<bench_perf_wq::Sample>(&name, cells, rounds)?;
            outcomes
                .into_iter()
                .map(|outcome| outcome.map(|one| Makespan::once(one.makespan_ns)))
                .collect()
        }
    };
    Ok((outcomes, complaint))
}

/// Sizes tried and what they took, by size.
#[derive(Debug, Default)]
struct Search(Vec<(usize, f64)>);

impl Search {
    fn run(&mut self, largest: usize, mut measure: impl FnMut(usize) -> Result<f64>) -> Result<()> {
        let powers = std::iter::successors(Some(1), |size| Some(size * 2));
        let powers = powers.take_while(|&size| size < largest);
        let powers: Vec<usize> = powers.chain([largest]).collect();
        let mut nr_hopeless = 0;
        for &size in powers.iter().rev() {
            self.take(size, &mut measure)?;
            // Not after one: something else may have disturbed it.
            nr_hopeless = if self.is_hopeless(size) { nr_hopeless + 1 } else { 0 };
            if nr_hopeless == 2 {
                break;
            }
        }
        for _ in 0..REFINEMENTS {
            for size in self.between() {
                self.take(size, &mut measure)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, size: usize, measure: impl FnOnce(usize) -> Result<f64>) -> Result<()> {
        if let Err(place) = self.0.binary_search_by_key(&size, |&(size, _)| size) {
            self.0.insert(place, (size, measure(size)?));
        }
        Ok(())
    }

    /// Whether that size took so much longer than the best that smaller ones can hardly be better.
    fn is_hopeless(&self, size: usize) -> bool {
        let ns_of = |wanted| self.0.iter().find(|&&(size, _)| size == wanted).map(|&(_, ns)| ns);
        let best = self.best().and_then(ns_of);
        best.zip(ns_of(size)).is_some_and(|(best, ns)| ns > best * HOPELESS)
    }

    /// Between the best size and its neighbours, in the middle of their ratio.
    fn between(&self) -> Vec<usize> {
        let best = self.best();
        let Some(place) = self.0.iter().position(|&(size, _)| Some(size) == best) else {
            return Vec::new();
        };
        let middle = |other: Option<&(usize, f64)>| {
            let product = self.0[place].0 * other?.0;
            Some((product as f64).sqrt().round() as usize)
        };
        let below = place.checked_sub(1).and_then(|below| self.0.get(below));
        [middle(below), middle(self.0.get(place + 1))].into_iter().flatten().collect()
    }

    /// The fastest, and of two that are equally fast the smaller one.
    fn best(&self) -> Option<usize> {
        let ended = self.0.iter().filter(|(_, ns)| ns.is_finite());
        ended.min_by(|left, right| left.1.total_cmp(&right.1)).map(|&(size, _)| size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Best at one size, worse the further from it by ratio.
    fn search(optimum: f64, largest: usize) -> Search {
        let mut tried = Search::default();
        tried.run(largest, |size| Ok(1.0 + (size as f64 / optimum).ln().abs())).unwrap();
        tried
    }

    #[test]
    fn the_best_size_is_found_within_a_fifth() {
        for optimum in [1, 2, 3, 5, 11, 13, 48, 100, 181, 300, 512] {
            let best = search(f64::from(optimum), 512).best().unwrap();
            let ratio = best as f64 / f64::from(optimum);
            assert!((0.8..=1.25).contains(&ratio), "{best} for {optimum}");
        }
    }

    #[test]
    fn each_size_is_measured_once_and_none_beyond_the_largest() {
        let mut measured = Vec::new();
        Search::default()
            .run(100, |size| {
                measured.push(size);
                Ok(1.0 / size as f64)
            })
            .unwrap();
        let most = *measured.iter().max().unwrap();
        assert_eq!(most, 100);
        let count = measured.len();
        measured.sort_unstable();
        measured.dedup();
        assert_eq!(measured.len(), count);
    }

    #[test]
    fn far_below_the_best_size_none_is_tried() {
        let mut measured = Vec::new();
        Search::default()
            .run(512, |size| {
                measured.push(size);
                Ok(1.0 / size.min(64) as f64)
            })
            .unwrap();
        assert!(measured.contains(&8) && !measured.contains(&2), "{measured:?}");
    }

    #[test]
    fn sizes_that_never_end_are_not_best() {
        let mut tried = Search::default();
        tried.run(8, |size| Ok(if size < 4 { f64::INFINITY } else { 1.0 })).unwrap();
        assert_eq!(tried.best(), Some(4), "the smaller of two equals");
        let mut none = Search::default();
        none.run(4, |_| Ok(f64::INFINITY)).unwrap();
        assert_eq!(none.best(), None);
    }
}
