//! The table.

use std::fmt::Write as _;
use std::io::Write as _;

use super::load::Sample;
use super::{Cell, Options};

/// A sign of life.
pub(super) fn say(what: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Where and when, as the machine was before it began.
pub(super) fn circumstances() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
    let command: Vec<_> = std::env::args().skip(1).collect();
    let (command, kernel) = (command.join(" "), kernel.trim());
    let commit = commit().unwrap_or_else(|| "not recorded".to_owned());
    format!(
        "`thumbs {command}`  \n{cpus} CPUs, Linux {kernel}, load before {load}, {now}, commit \
         {commit}.  \n"
    )
}

/// Of the tree that this program was built in; `None` without git.
fn commit() -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/commit.sh");
    let output = std::process::Command::new("sh").arg(script).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}

/// Prints the medians over the rounds, in Markdown.
pub(super) fn print(
    options: &Options,
    circumstances: &str,
    most: f64,
    samples: &[(Cell, Sample)],
) -> anyhow::Result<()> {
    let Options { rounds, seconds, slow_disk_ms, .. } = options;
    let mut text = format!(
        "{circumstances}100 % are {most:.1} requests per second; medians of {rounds} rounds of \
         {seconds} s; every call of the database takes {slow_disk_ms} ms longer than the disk.\n\n",
    );
    text += "| load | pool | served/s | refused | failed | p50 | p99 | threads |\n";
    text += "|---:|---|---:|---:|---:|---:|---:|---:|\n";
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
            let [p50, p99] = [
                median(&|one| one.p50.as_secs_f64() * 1e3),
                median(&|one| one.p99.as_secs_f64() * 1e3),
            ];
            write!(text, "| {percent} % | {pool} | {served:.1} | {refused:.1} % | {failed:.1} % ")?;
            writeln!(text, "| {p50:.0} ms | {p99:.0} ms | {threads:.0} |")?;
        }
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
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
