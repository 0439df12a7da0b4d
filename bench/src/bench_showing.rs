//! What it costs that a process can be looked at: its state shown, or not; its items traced, or
//! not.
//!
//! The differences are a few nanoseconds, so everything else is kept out: all happens on one
//! worker, and what matters are ratios within a round.

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::cli::ShowingOptions;
use crate::job::{Bench, Job};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::stats::{Spread, percentile};
use crate::systems::System;

const RUNS: usize = 41;
const COUNT: usize = 400_000;
const COUNT_QUICK: usize = 80_000;

const TITLES: [&str; 4] =
    ["reusable item, CPU time", "reusable item, time", "closure, CPU time", "closure, time"];

/// What is divided by what.
const PAIRS: [(System, System); 4] = [
    (System::CmwqShown, System::CmwqHidden),
    (System::CmwqTraced, System::CmwqShown),
    (System::CmwqShown, System::CmwqOther),
    (System::CmwqHidden, System::CmwqOther),
];

/// What an item may take longer while it is traced.
const TRACING_GOAL_NS: f64 = 50.0;

/// One round of one system: nanoseconds per item, as [`TITLES`] has them.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample(pub(crate) [f64; TITLES.len()]);

/// Measures all chosen systems and makes the table.
pub(crate) fn run(session: &mut Session, options: &ShowingOptions) -> Result<Section> {
    let rounds = session.rounds(RUNS);
    let count = session.size(options.count, COUNT, COUNT_QUICK);
    let job = Job::new(Bench::Showing, session.cpus, count);
    session.other = options.against.clone();
    let mut entrants = session.entrants(Bench::Showing);
    entrants.retain(|(system, _)| *system != System::CmwqOther || session.other.is_some());
    let cells = entrants.iter().map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let outcomes = session.alternate::<Sample>("showing", cells, rounds)?;
    let rows: Vec<Row> = outcomes.iter().map(row).collect();
    Ok(Section {
        curves: Vec::new(),
        name: "showing".to_owned(),
        title: format!(
            "showing: empty items of a per-CPU queue, all on one worker, time per item; {} rounds \
             of {count} items",
            rounds.runs,
        ),
        columns: TITLES.map(|title| Column::new(title, Unit::Time)).to_vec(),
        ratios: ratios(&rows),
        rows,
        notes: notes(&outcomes, options.against.as_ref()),
    })
}

fn row(outcome: &Outcome<Sample>) -> Row {
    let figures = (0..TITLES.len()).map(|column| Spread::of(&values(outcome, column))).collect();
    row_of(outcome, Bench::Showing, figures)
}

fn values(outcome: &Outcome<Sample>, column: usize) -> Vec<f64> {
    outcome.samples.iter().map(|one| one.sample.0[column]).collect()
}

fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for (above, below) in PAIRS {
        for (column, title) in TITLES.into_iter().enumerate() {
            let of = |system| Side::of(rows, system, column);
            ratios.extend(Ratio::new(title, Unit::Time, of(above), of(below)).value());
        }
    }
    ratios
}

fn notes(outcomes: &[Outcome<Sample>], against: Option<&PathBuf>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(path) = against {
        notes.push(format!("cmwq-other: {}", path.display()));
    }
    for outcome in outcomes {
        let of_column = |(column, title): (usize, &str)| {
            let [low, high] = quartiles(&values(outcome, column))?;
            Some(format!("{title} {}–{}", Unit::Time.show(low), Unit::Time.show(high)))
        };
        let all: Vec<_> = TITLES.into_iter().enumerate().filter_map(of_column).collect();
        if !all.is_empty() {
            notes.push(format!("quartiles of {}: {}", outcome.system.name(), all.join(", ")));
        }
    }
    for (above, below) in PAIRS {
        let find = |system| outcomes.iter().find(|outcome| outcome.system == system);
        let Some((above, below)) = find(above).zip(find(below)) else { continue };
        for (column, title) in TITLES.into_iter().enumerate() {
            let pairs = || values(above, column).into_iter().zip(values(below, column));
            let names = format!("{title}, {} and {}", above.system.name(), below.system.name());
            notes.extend(by_rounds(&names, pairs().map(|(above, below)| above / below).collect()));
            // Time that passes is other programs', too.
            if above.system == System::CmwqTraced && column % 2 == 0 {
                let more: Vec<f64> = pairs().map(|(above, below)| above - below).collect();
                notes.extend(goal(title, &more));
            }
        }
    }
    notes
}

/// The two of one round have the same machine around them, more or less.
fn by_rounds(names: &str, ratios: Vec<f64>) -> Option<String> {
    let (Spread { median, min, max }, [low, high]) = (Spread::of(&ratios)?, quartiles(&ratios)?);
    Some(format!(
        "{names}, ratio within a round: {median:.3}, quartiles {low:.3}–{high:.3}, all \
         {min:.3}–{max:.3}"
    ))
}

fn goal(title: &str, more: &[f64]) -> Option<String> {
    let (Spread { median, .. }, [low, high]) = (Spread::of(more)?, quartiles(more)?);
    let verdict = if median <= TRACING_GOAL_NS { "met" } else { "missed" };
    Some(format!(
        "{title}, traced: {median:.1} ns more, quartiles {low:.1}–{high:.1} (goal: at most \
         {TRACING_GOAL_NS} ns, {verdict})"
    ))
}

fn quartiles(values: &[f64]) -> Option<[f64; 2]> {
    Some([percentile(values, 25.0)?, percentile(values, 75.0)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_within_rounds_have_a_spread() {
        let said = by_rounds("x", vec![1.0, 1.1, 0.9, 1.2]).unwrap();
        assert_eq!(said, "x, ratio within a round: 1.050, quartiles 0.900–1.100, all 0.900–1.200");
        assert_eq!(by_rounds("x", Vec::new()), None);
    }

    #[test]
    fn the_goal_is_judged_by_the_median() {
        assert!(goal("x", &[49.0, 49.5, 300.0]).unwrap().ends_with("met)"));
        assert!(goal("x", &[49.0, 51.0, 300.0]).unwrap().ends_with("missed)"));
    }
}
