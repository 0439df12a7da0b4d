//! The table.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::pool::Kind;

use super::load::Sample;
use super::server::PLACES;
use super::{Cell, Options};

/// A sign of life.
pub(super) fn say(what: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Prints medians over the rounds, their spread, and how the pools compare, in Markdown.
pub(super) fn print(
    options: &Options,
    circumstances: &str,
    capacities: &[f64],
    samples: &[(Cell, Sample)],
) -> anyhow::Result<()> {
    let Options { rounds, seconds, slow_disk_ms, .. } = options;
    let (least, most) = range(capacities.iter().copied());
    let at_once = options.pools.iter().map(|pool| format!("{pool} {}", pool.at_once()));
    let at_once = at_once.collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "{circumstances}Each server has {PLACES} places for requests that wait, and refuses more. \
         Begun and not ended are at most: {at_once}.  \n\
         100 % are {least:.1} to {most:.1} requests per second, found out in each round; medians \
         of {rounds} rounds of {seconds} s, for p99 and the last column also the least and the \
         most; every call of the database takes {slow_disk_ms} ms longer than the disk. p50 and \
         p99 are of what was served: of requests that were refused, or failed, there is only how \
         many they are. The last column is what cmwq's p99 was in a round, divided by the other \
         pool's in the same round: above 1 the other pool was better. Of each kind of pool only \
         these sizes were tried; another one may be better.\n\n",
    );
    text += "| load | pool | served/s | refused | failed | p50 | p99 | threads | cmwq ÷ it |\n";
    text += "|---:|---|---:|---:|---:|---:|---:|---:|---:|\n";
    for &percent in &options.loads {
        for &pool in &options.pools {
            let of_cell = samples
                .iter()
                .filter(|(cell, _)| cell.pool == pool && cell.percent == percent)
                .map(|(_, sample)| sample);
            let median = |value: &dyn Fn(&Sample) -> f64| median(of_cell.clone().map(value));
            let [served, threads] =
                [median(&|one| one.served_per_second), median(&|one| one.threads as f64)];
            let [refused, failed] =
                [median(&|one| one.refused * 100.0), median(&|one| one.failed * 100.0)];
            let [p50, p99] = [median(&|one| one.p50.as_secs_f64() * 1e3), median(&p99_ms)];
            let (low, high) = range(of_cell.clone().map(p99_ms));
            write!(text, "| {percent} % | {pool} | {served:.1} | {refused:.1} % | {failed:.1} % ")?;
            write!(text, "| {p50:.0} ms | {p99:.0} ms ({low:.0} to {high:.0}) | {threads:.0} ")?;
            let ratios = ratios_to_cmwq(samples, percent, pool);
            if ratios.is_empty() {
                text += "| |\n";
                continue;
            }
            let (low, high) = range(ratios.iter().copied());
            let ratio = self::median(ratios.into_iter());
            writeln!(text, "| {ratio:.2} ({low:.2} to {high:.2}) |")?;
        }
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn p99_ms(sample: &Sample) -> f64 {
    sample.p99.as_secs_f64() * 1e3
}

/// What cmwq's p99 is divided by this pool's, in each round under that load. None of cmwq itself,
/// nor if it was not measured.
fn ratios_to_cmwq(samples: &[(Cell, Sample)], percent: u32, pool: Kind) -> Vec<f64> {
    if pool == Kind::Cmwq {
        return Vec::new();
    }
    let of = |pool: Kind| {
        samples.iter().filter(move |(cell, _)| cell.pool == pool && cell.percent == percent)
    };
    let ratio = |(cell, it): &(Cell, Sample)| {
        let (_, cmwq) = of(Kind::Cmwq).find(|(other, _)| other.round == cell.round)?;
        Some(p99_ms(cmwq) / p99_ms(it))
    };
    of(pool).filter_map(ratio).collect()
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let widen = |(least, most): (f64, f64), value: f64| (least.min(value), most.max(value));
    values.fold((f64::INFINITY, f64::NEG_INFINITY), widen)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<_> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sample(p99: u64) -> Sample {
        let p99 = Duration::from_millis(p99);
        let (served_per_second, refused, failed, threads) = (0.0, 0.0, 0.0, 0);
        Sample { served_per_second, refused, failed, p50: p99, p99, threads }
    }

    #[test]
    fn pools_are_compared_within_a_round() {
        let cell = |round, pool| Cell { round, pool, percent: 80 };
        let other = Kind::Blocking(4);
        // The machine was ten times as slow in the second round, and a pool missed the third.
        let samples = [
            (cell(1, Kind::Cmwq), sample(30)),
            (cell(1, other), sample(20)),
            (cell(2, other), sample(200)),
            (cell(2, Kind::Cmwq), sample(500)),
            (cell(3, other), sample(1)),
        ];
        assert_eq!(ratios_to_cmwq(&samples, 80, other), [1.5, 2.5]);
        assert!(ratios_to_cmwq(&samples, 80, Kind::Cmwq).is_empty());
        assert!(ratios_to_cmwq(&samples, 50, other).is_empty());
    }
}
