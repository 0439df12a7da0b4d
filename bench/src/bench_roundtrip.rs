//! Queue one empty item, wait for it, and again: what a hand-over costs when nothing else goes on.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::cli::RoundtripOptions;
use crate::job::{Bench, Job};
use crate::peers::{self, Peer, Trips};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, best_peer, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::stats::percentile;
use crate::systems::System;

// A round takes a tenth of a second, and where the scheduler happens to place the two threads
// matters much.
const RUNS: usize = 9;
const TRIPS: usize = 20_000;
const TRIPS_QUICK: usize = 5_000;

/// Trips made before the ones that count.
pub(crate) const WARM_UP: usize = 500;

const NOTES: [&str; 4] = [
    "futex: two threads that sleep and wake each other in turn; where the scheduler puts them \
     decides between futex-same and futex-apart",
    "crossbeam: both ends of a channel spin and yield before they sleep",
    "cmwq-run: the caller runs the item itself, within the queue's books, since nothing else waits",
    "go: caller and item share one thread, so nothing is handed over",
];

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    p50_ns: f64,
    p99_ns: f64,
}

/// Summarises a round. The caller has made at least one trip.
pub(crate) fn sample(trips_ns: &[f64]) -> Sample {
    let at = |percent| percentile(trips_ns, percent).unwrap_or(f64::NAN);
    Sample { p50_ns: at(50.0), p99_ns: at(99.0) }
}

/// Runs one round in this process.
pub(crate) fn measure<P: Peer>(job: &Job) -> Result<Sample> {
    let peer = P::start(job)?;
    peers::warm_up(&peer, job.cpus);
    let mut trips = Trips::new(WARM_UP + job.count);
    peer.round_trips(&mut trips);
    let counted = trips.ns.get(WARM_UP..).filter(|trips| !trips.is_empty());
    Ok(sample(counted.context("no round trips to measure: --count must be at least 1")?))
}

/// Measures all chosen systems and makes the table.
pub(crate) fn run(session: &mut Session, options: &RoundtripOptions) -> Result<Section> {
    let rounds = session.rounds(RUNS);
    let trips = session.size(options.trips, TRIPS, TRIPS_QUICK);
    let job = Job::new(Bench::Roundtrip, session.cpus, trips);
    let entrants = session.entrants(Bench::Roundtrip);
    let cells = entrants.iter().map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let outcomes = session.alternate::<Sample>("roundtrip", cells, rounds)?;
    let rows: Vec<Row> = outcomes.iter().map(row).collect();
    Ok(Section {
        curves: Vec::new(),
        name: "roundtrip".to_owned(),
        title: format!(
            "roundtrip: queue one empty item and wait for it; {} rounds of {} trips",
            rounds.runs, trips,
        ),
        columns: vec![Column::new("p50", Unit::Time), Column::new("p99", Unit::Time)],
        ratios: ratios(&rows),
        rows,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

fn row(outcome: &Outcome<Sample>) -> Row {
    row_of(
        outcome,
        Bench::Roundtrip,
        vec![outcome.figure(|one| one.sample.p50_ns), outcome.figure(|one| one.sample.p99_ns)],
    )
}

fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let of = |system| Side::of(rows, system, 0);
    let mut ratios = Vec::new();
    // Where the scheduler puts the two threads of `futex` changes from round to round.
    let floor = Side::least([System::Futex, System::FutexSame, System::FutexApart].map(of));
    for system in [System::Cmwq, System::CmwqWork, System::CmwqPercpu] {
        let what = format!("{} / best futex", system.name());
        ratios.extend(Ratio::new(what, Unit::Time, of(system), floor.clone()).goal(1.2));
    }
    let best = || best_peer(rows, 0);
    ratios.extend(Ratio::new("cmwq / best peer", Unit::Time, of(System::Cmwq), best()).value());
    let by_caller = of(System::CmwqRun);
    ratios.extend(Ratio::new("cmwq-run / best peer", Unit::Time, by_caller, best()).goal(1.0));
    ratios.extend(Ratio::new("best peer / best futex", Unit::Time, best(), floor).value());
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    #[test]
    fn the_floor_is_the_best_placement_of_two_threads() {
        let row = |(system, p50): (System, f64)| {
            Row::computed(system, system.name().as_ref(), vec![Some(Spread::single(p50))])
        };
        let futexes =
            [(System::Futex, 59e3), (System::FutexSame, 1.5e3), (System::FutexApart, 61e3)];
        let ours = [(System::Cmwq, 3e3), (System::CmwqPercpu, 1.5e3)];
        let rows: Vec<Row> = futexes.into_iter().chain(ours).map(row).collect();
        let ratios = serde_json::to_value(ratios(&rows)).unwrap();
        let of = |at: usize| (ratios[at]["what"].as_str(), ratios[at]["ratio"].as_f64());
        assert_eq!(of(0), (Some("cmwq / best futex"), Some(2.0)));
        assert_eq!(of(1), (Some("cmwq-percpu / best futex"), Some(1.0)));
    }
}
