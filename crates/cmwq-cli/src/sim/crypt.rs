//! `cmwq sim --crypt`: the documented comparison of affinity scopes.

use std::fmt::Write as _;
use std::process::ExitCode;

use cmwq_sim::studies::crypt::{self, Figures, ISSUERS, Way};
use serde::Serialize;

use super::Args;
use crate::output::print;

/// Virtual time of a run.
const LENGTH_NS: u64 = 1_000_000_000;
/// Runs of which a row is the mean, unless one seed was asked for.
const RUNS: u64 = 20;

/// A line of the table; ratios are to scope `system` with as many issuers, the first line of each.
#[derive(Debug, Serialize)]
struct Row {
    issuers: usize,
    queue: &'static str,
    mib_per_s: f64,
    cpu_percent: f64,
    remote_percent: f64,
    ratio_percent: f64,
    /// Of the runs by themselves.
    ratio_percent_min: f64,
    ratio_percent_max: f64,
    documented_mib_per_s: Option<f64>,
    documented_cpu_percent: Option<f64>,
    documented_ratio_percent: Option<f64>,
}

#[derive(Serialize)]
struct Document<'a> {
    first_seed: u64,
    runs: u64,
    rows: &'a [Row],
}

/// Runs everything and prints the table.
pub(super) fn run(args: &Args) -> ExitCode {
    let (first_seed, runs) = args.seed.map_or((1, RUNS), |seed| (seed, 1));
    let seeds = || first_seed..first_seed.saturating_add(runs);
    let mut rows = Vec::new();
    for issuers in ISSUERS {
        let run = |way| seeds().map(|seed| crypt::run(seed, way, issuers, LENGTH_NS)).collect();
        let runs: Vec<Vec<Figures>> = Way::ALL.into_iter().map(run).collect();
        let of_ways = Way::ALL.into_iter().zip(&runs);
        rows.extend(of_ways.map(|(way, figures)| row(issuers, way, figures, &runs[0])));
    }
    let document = Document { first_seed, runs, rows: &rows };
    print(&if args.json { json(&document) } else { text(&document) })
}

fn row(issuers: usize, way: Way, figures: &[Figures], system: &[Figures]) -> Row {
    let mean = |figures: &[Figures], part: fn(&Figures) -> f64| {
        figures.iter().map(part).sum::<f64>() / figures.len() as f64
    };
    let bandwidth = |figures: &[Figures]| mean(figures, |one| one.mib_per_s);
    let percent = |ours: f64, theirs: f64| 100.0 * (ours / theirs - 1.0);
    let pairs = figures.iter().zip(system);
    let each = pairs.map(|(ours, theirs)| percent(ours.mib_per_s, theirs.mib_per_s));
    let (min, max) = each.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), ratio| {
        (min.min(ratio), max.max(ratio))
    });
    let documented = crypt::documented(way, issuers);
    let of_system = crypt::documented(Way::System, issuers);
    Row {
        issuers,
        queue: way.name(),
        mib_per_s: bandwidth(figures),
        cpu_percent: mean(figures, |one| one.cpu),
        remote_percent: mean(figures, |one| one.remote.unwrap_or(f64::NAN)),
        ratio_percent: percent(bandwidth(figures), bandwidth(system)),
        ratio_percent_min: min,
        ratio_percent_max: max,
        documented_mib_per_s: documented.map(|there| there.mib_per_s),
        documented_cpu_percent: documented.map(|there| there.cpu),
        documented_ratio_percent: documented
            .zip(of_system)
            .map(|(there, system)| percent(there.mib_per_s, system.mib_per_s)),
    }
}

fn json(document: &Document<'_>) -> String {
    serde_json::to_string(document).expect("numbers and strings are valid JSON") + "\n"
}

fn text(document: &Document<'_>) -> String {
    let mut text = String::from(
        "                          simulated                                          documented\n\
         issuers  queue              MiB/s   CPU %  remote %  to system %             MiB/s   CPU \
         %  to system %\n",
    );
    for row in document.rows {
        let range = format!("({:+.1} to {:+.1})", row.ratio_percent_min, row.ratio_percent_max);
        let Row { issuers, queue, mib_per_s, cpu_percent, remote_percent, .. } = row;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{issuers:>7}  {queue:<14} {mib_per_s:>9.1} {cpu_percent:>7.2} {remote_percent:>9.1} \
             {:>+7.2} {range:<16}",
            row.ratio_percent
        );
        let there = row
            .documented_mib_per_s
            .zip(row.documented_cpu_percent)
            .zip(row.documented_ratio_percent);
        if let Some(((mib_per_s, cpu), ratio)) = there {
            let _ = write!(text, " {mib_per_s:>8.1} {cpu:>7.2} {ratio:>+12.2}");
        }
        text.push('\n');
    }
    let Document { first_seed, runs, .. } = document;
    let _ = writeln!(
        text,
        "Means of {runs} runs of 1 s of virtual time, seeds from {first_seed}; see --help."
    );
    text
}
