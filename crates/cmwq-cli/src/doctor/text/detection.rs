//! The section about the sources of detection: a table, and what it does not say.

use cmwq::CpuSet;
use cmwq_observe::doctor::{ChosenBy, Source};

use super::Report;
use crate::doctor::Findings;
use crate::doctor::children::Measured;
use crate::doctor::trials::Latency;

pub(super) fn write(report: &mut Report, findings: &Findings) {
    let diagnosis = &findings.diagnosis;
    report.section("Detection of blocked workers");
    let heading = ["", "source", "state", "p50", "p99", "max"];
    report.line(row(heading.map(str::to_owned)));
    for (source, measured) in diagnosis.sources.iter().zip(&findings.measured) {
        let mark = if source.detect == diagnosis.detect { "*" } else { "" };
        let names = [mark, source.detect.name(), source.availability.name()].map(str::to_owned);
        let [mark, name, state] = names;
        let [p50, p99, max] = times(measured);
        report.line(row([mark, name, state, p50, p99, max]));
    }
    let why = match diagnosis.chosen_by {
        ChosenBy::Environment => "because CMWQ_DETECT says so",
        ChosenBy::Program => "because the program says so",
        _ => "the best that works here (CMWQ_DETECT overrides)",
    };
    report.wrapped("  ", &format!("* in use: {}, {why}", diagnosis.detect));
    if let Some(child) = findings.measured.iter().find_map(|measured| measured.as_ref().ok()) {
        report.wrapped("  ", &legend(&child.latency));
        load(report, findings);
    }
    if !findings.is_measured {
        report.line("  Nothing was measured (--no-measure).");
    }
    for (source, measured) in diagnosis.sources.iter().zip(&findings.measured) {
        remarks(report, source, measured, findings.is_measured);
    }
}

fn row([mark, source, state, p50, p99, max]: [String; 6]) -> String {
    let row = format!("{mark:>3} {source:9} {state:8} {p50:>9} {p99:>9} {max:>9}");
    row.trim_end().to_owned()
}

fn times(measured: &Measured) -> [String; 3] {
    match measured {
        Ok(child) => {
            let latency = &child.latency;
            [latency.p50_us, latency.p99_us, latency.max_us].map(time)
        }
        Err(_) => [const { String::new() }; 3],
    }
}

/// Microseconds with three digits that count, in a unit that suits.
fn time(us: f64) -> String {
    match us {
        ..9.995 => format!("{us:.2} µs"),
        ..99.95 => format!("{us:.1} µs"),
        ..999.5 => format!("{us:.0} µs"),
        ..9995.0 => format!("{:.2} ms", us / 1e3),
        _ => format!("{:.1} ms", us / 1e3),
    }
}

fn legend(latency: &Latency) -> String {
    let cpus: Vec<String> = latency.cpus.iter().map(u32::to_string).collect();
    let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    format!(
        "Measured: from the moment an item blocks to the start of the next item on the same CPU; \
         {} trials each, on {noun} {}.",
        latency.trials,
        cpus.join(", ")
    )
}

/// Numbers from a busy machine say more about the other programs.
fn load(report: &mut Report, findings: &Findings) {
    let nr_online = findings.diagnosis.machine.online.as_ref().map_or(1, CpuSet::count);
    if let Some(load) = findings.load_average.filter(|load| *load > nr_online as f64 / 2.0) {
        let text =
            "Other programs compete for the CPUs, so times are longer than on a calm machine";
        report.wrapped("  ", &format!("{text} (load average {load})."));
    }
}

fn remarks(report: &mut Report, source: &Source, measured: &Measured, is_measured: bool) {
    let start = format!("  {}: ", source.detect);
    if let Some((why, advice)) = source.availability.obstacle() {
        report.wrapped(
            &start,
            &format!("{}: {why}. To change that, {advice}.", source.availability.name()),
        );
    }
    match measured {
        Ok(child) => {
            let Latency { trials, late, early, .. } = child.latency;
            if late > 0 {
                let text = "trials the next item started only when the block was over";
                report.wrapped(&start, &format!("in {late} of {trials} {text}"));
            }
            if early > 0 {
                let text = "trials the next item did not wait for the block";
                report.wrapped(&start, &format!("in {early} of {trials} {text}"));
            }
        }
        Err(why) if is_measured && source.availability.is_usable() => {
            report.wrapped(&start, &format!("not measured: {why}"));
        }
        Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (us, expected) in [
            (0.0, "0.00 µs"),
            (1.234, "1.23 µs"),
            (9.996, "10.0 µs"),
            (99.96, "100 µs"),
            (999.4, "999 µs"),
            (999.6, "1.00 ms"),
            (4321.0, "4.32 ms"),
            (9999.0, "10.0 ms"),
            (123_456.0, "123.5 ms"),
        ] {
            assert_eq!(time(us), expected, "{us}");
        }
    }
}
