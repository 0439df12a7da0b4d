//! `cmwq sim`: the simulator by itself. Random machines, loads and faults, one per seed, watched by
//! checkers.

mod crypt;
mod json;
mod runs;
mod scale;

use std::io::{self, IsTerminal as _, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use cmwq_sim::config::Sabotage;
use cmwq_sim::swarm::{Fault, FaultSet, Options};
use cmwq_sim::{ParseError, Plan, Report, Scope, Shape};

use crate::descriptors::Waiting;
use crate::meant::did_you_mean;
use crate::output::print;
use crate::scenario::load;
use crate::{exit, message};
use runs::Total;

/// Simulate random machines under random load and faults, and check what the scheduler does
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("sim/help.txt"))]
pub(crate) struct Args {
    /// Run this seed alone
    #[arg(
        long, value_name = "N", conflicts_with = "seeds",
        value_parser = clap::value_parser!(u64).range(..u64::MAX)
    )]
    seed: Option<u64>,

    /// Run the seeds from A up to, but not including, B
    #[arg(long, value_name = "A..B", value_parser = parse_seeds, default_value = "0..1000")]
    seeds: Range<u64>,

    /// The number of CPUs, instead of a random one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cpus: Option<u32>,

    /// The number of queues, instead of a random one
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000),
        conflicts_with = "scenario"
    )]
    queues: Option<u32>,

    /// The number of work items, instead of a random one
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000_000),
        conflicts_with = "scenario"
    )]
    items: Option<u32>,

    /// The virtual machine: NODESxCORESxTHREADS, NODESxCACHESxCORESxTHREADS, or a name (see --help)
    #[arg(long, value_name = "TOPOLOGY", conflicts_with = "cpus")]
    topology: Option<Shape>,

    /// Which CPUs one pool of an unbound or managed queue serves: cpu, smt, cache_shard, cache,
    /// numa or system, instead of a random choice
    #[arg(long, value_name = "SCOPE", value_parser = parse_scope)]
    scope: Option<Scope>,

    /// CPUs leave and come back in every run, not only where the seed wants it
    #[arg(long)]
    hotplug: bool,

    /// Show how cost grows: run large loads, up to N times the smallest (1 to 1000, 1000 if not
    /// given), or the one of --cpus, --queues, --items; see --help
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1000",
        value_parser = clap::value_parser!(u32).range(1..=1_000),
        conflicts_with_all = ["seeds", "scenario", "sabotage", "events", "faults", "hotplug"]
    )]
    scale: Option<u32>,

    /// Compare affinity scopes as the kernel's documentation does, on its machine; see --help
    #[arg(
        long,
        conflicts_with_all = [
            "seeds", "scenario", "sabotage", "events", "faults", "hotplug", "scale",
            "cpus", "queues", "items", "topology", "scope"]
    )]
    crypt: bool,

    /// The faults that seeds may draw from: all, none, or names separated by commas (see --help)
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = parse_faults)]
    faults: FaultSet,

    /// Run this scenario, under each seed's conditions, instead of random loads
    #[arg(long, value_name = "FILE|NAME")]
    scenario: Option<PathBuf>,

    /// Make a deliberate mistake, to see the checkers complain (see --help)
    #[arg(long, value_name = "MISTAKE", value_parser = parse_mistake)]
    sabotage: Option<Sabotage>,

    /// With --seed: print every event
    #[arg(long, requires = "seed")]
    events: bool,

    /// Print one JSON document instead of text
    #[arg(long, conflicts_with = "events")]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    if args.crypt {
        return crypt::run(args);
    }
    if args.scale.is_some() {
        return scale::run(args);
    }
    let mut options = Options {
        cpus: args.cpus,
        shape: args.topology,
        scope: args.scope,
        hotplug: args.hotplug,
        items: args.items.map(|n| n as usize),
        queues: args.queues.map(|n| n as usize),
        faults: args.faults,
        sabotage: args.sabotage,
    };
    let plan = match args.scenario.as_deref().map(load).transpose() {
        Ok(scenario) => scenario.map(|scenario| {
            options.cpus = options.cpus.or(Some(scenario.cpus)).filter(|_| args.topology.is_none());
            Plan::from(&scenario)
        }),
        Err(error) => {
            message::say(error);
            return ExitCode::from(exit::FAILED);
        }
    };
    let cpus = options.shape.map(Shape::cpus).or(options.cpus);
    if let (Some(plan), Some(cpus)) = (&plan, cpus)
        && let Some(cpu) = plan.greatest_cpu().filter(|&cpu| cpu >= cpus)
    {
        message::say(format_args!(
            "the scenario queues work on CPU {cpu}: --cpus must be {} or more",
            cpu + 1
        ));
        return ExitCode::from(exit::FAILED);
    }
    let source = runs::Source { plan, options, keep_events: args.events };
    if args.events {
        return one(args.seed.unwrap_or_default(), &source);
    }
    many(args, &source)
}

/// One seed, event by event.
fn one(seed: u64, source: &runs::Source) -> ExitCode {
    let report = source.run(seed);
    let mut out = io::BufWriter::new(Waiting(io::stdout()));
    let written = report
        .outcome
        .events
        .iter()
        .try_for_each(|event| writeln!(out, "{:>15} ns  {:?}", event.t, event.what))
        .and_then(|()| out.flush());
    drop(out);
    let mut is_written = true;
    if let Err(error) = written {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return ExitCode::from(exit::OUTPUT_CLOSED);
        }
        message::say(format_args!("cannot write to standard output: {error}"));
        is_written = false;
    }
    if let Some(violation) = report.violation() {
        message::say(format_args!("seed {seed}: {violation}"));
        return ExitCode::from(exit::FAILED);
    }
    ExitCode::from(if is_written { exit::DONE } else { exit::FAILED })
}

fn many(args: &Args, source: &runs::Source) -> ExitCode {
    let seeds = match args.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => args.seeds.clone(),
    };
    let total = runs::run_all(source, seeds, io::stderr().is_terminal());
    let again = |report: &Report| replay(args, report);
    let text = if args.json { json::write(&total, again) } else { summary(&total, again) };
    let printed = print(&text);
    if total.complaints.is_empty() { printed } else { ExitCode::from(exit::FAILED) }
}

/// The command that runs a seed again as it was run here.
fn replay(args: &Args, report: &Report) -> String {
    let Some(scenario) = &args.scenario else { return report.replay() };
    format!("{} --scenario {}", report.replay(), shown(scenario))
}

fn shown(path: &std::path::Path) -> String {
    use os_display::Quotable as _;
    path.maybe_quote().to_string()
}

/// How many seeds with complaints are named.
const NAMED: usize = 10;

fn summary(total: &Total, again: impl Fn(&Report) -> String) -> String {
    let mut text = format!(
        "{} seed{}, {} items, {} events, {:.1} s of virtual time in {:.1} s: ",
        total.seeds,
        if total.seeds == 1 { "" } else { "s" },
        total.items,
        total.events,
        total.virtual_ns as f64 / 1e9,
        total.elapsed.as_secs_f64()
    );
    let Some(first) = total.complaints.first() else {
        return text + "no complaint\n";
    };
    text += &format!("complaints in {}\n\n", total.complaints.len());
    for event in &first.outcome.recent {
        text += &format!("{:>15} ns  {:?}\n", event.t, event.what);
    }
    for report in total.complaints.iter().take(NAMED) {
        if let Some(violation) = report.violation() {
            text += &format!("\nseed {}: {violation}\n  again: {}\n", report.seed, again(report));
        }
    }
    if total.complaints.len() > NAMED {
        text += &format!("\nand {} more\n", total.complaints.len() - NAMED);
    }
    text
}

fn parse_scope(text: &str) -> Result<Scope, String> {
    let names = Scope::ALL.iter().map(|(_, name)| *name);
    text.parse().map_err(|error: ParseError| error.to_string() + &did_you_mean(text, names))
}

fn parse_mistake(text: &str) -> Result<Sabotage, String> {
    let names = Sabotage::ALL.iter().map(|(_, name)| *name);
    text.parse().map_err(|error: ParseError| error.to_string() + &did_you_mean(text, names))
}

fn parse_faults(text: &str) -> Result<FaultSet, String> {
    let names = || Fault::ALL.iter().map(|(_, name, _)| *name);
    let unknown = || text.split(',').map(str::trim).find(|text| names().all(|name| name != *text));
    text.parse().map_err(|error: ParseError| {
        error.to_string()
            + &unknown().map(|unknown| did_you_mean(unknown, names())).unwrap_or_default()
    })
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("'{text}' is no range of seeds: write A..B, as in 0..1000");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let range = number(from)?..number(to)?;
    if range.is_empty() {
        Err(format!("'{text}' has no seed: B must be above A"))
    } else {
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_seeds() {
        assert_eq!(parse_seeds("3..7"), Ok(3..7));
        assert!(parse_seeds("7").unwrap_err().contains("A..B"));
        assert!(parse_seeds("7..3").unwrap_err().contains("above"));
        assert!(parse_seeds("a..3").unwrap_err().contains("0..1000"));
    }
}
