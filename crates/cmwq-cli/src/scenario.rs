//! `cmwq scenario`: runs a small scenario, simulated or on real threads, and shows its timeline.
//!
//! [`source`] finds the scenario, [`mod@file`] reads it, the simulator or [`threads`] runs it;
//! [`text`], [`json`], [`svg`] and [`trace`] show what came of it.

mod chart;
mod file;
mod json;
mod source;
mod spans;
mod svg;
mod text;
mod threads;
mod trace;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use cmwq_sim::{Scenario, Timeline, run_scenario};

use crate::output::print;
use crate::{exit, message, paint};
use chart::Chart;
#[cfg(any(test, fuzzing))]
pub(crate) use file::parse;
pub(crate) use source::load;

/// Run a scenario and show its timeline
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("scenario/help.txt"))]
pub(crate) struct Args {
    /// A scenario file, `-` for standard input, or one of the names that --list shows
    #[arg(value_name = "FILE|NAME", required_unless_present = "list")]
    scenario: Option<PathBuf>,

    /// Where to run it
    #[arg(long, value_enum, default_value_t = Arm::Threads)]
    on: Arm,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,

    /// Also write the timeline as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Also write the timeline as a trace for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// List the scenarios that come with the command
    #[arg(long, conflicts_with_all = ["scenario", "svg", "trace"])]
    list: bool,
}

/// Where a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Arm {
    /// Real worker threads of this machine
    Threads,
    /// Virtual CPUs in virtual time: exact, and the same every time
    Sim,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    let Some(name) = args.scenario.as_deref().filter(|_| !args.list) else {
        return print(&source::list(args.json));
    };
    let scenario = match load(name) {
        Ok(scenario) => scenario,
        Err(error) => return fail(exit::FAILED, &error),
    };
    let timeline = match run_on(args.on, &scenario) {
        Ok(timeline) => timeline,
        Err((code, error)) => return fail(code, &error),
    };
    show(args, name, &scenario, &timeline)
}

fn run_on(arm: Arm, scenario: &Scenario) -> Result<Timeline, (u8, String)> {
    match arm {
        Arm::Sim => run_scenario(scenario).map_err(|violation| {
            let bug = format!(
                "{violation}; this is a bug in the scheduler or the simulator, please report it"
            );
            (exit::NO_RESULT, bug)
        }),
        Arm::Threads => threads::run(scenario),
    }
}

fn show(args: &Args, name: &Path, scenario: &Scenario, timeline: &Timeline) -> ExitCode {
    let arm = match args.on {
        Arm::Sim => "simulated",
        Arm::Threads => "on threads",
    };
    let title = format!("{}, {arm}", name.display());
    let chart = Chart::new(title, scenario, timeline);
    let files = [(&args.svg, svg::draw as fn(&Chart<'_>) -> String), (&args.trace, trace::write)];
    for (path, make) in files {
        let Some(path) = path else { continue };
        if let Err(error) = fs::write(path, make(&chart)) {
            return fail(exit::FAILED, &format!("{}: {error}", path.display()));
        }
    }
    print(&if args.json { json::write(&chart) } else { text::write(&chart, paint::stdout()) })
}

fn fail(code: u8, error: &str) -> ExitCode {
    message::say(error);
    ExitCode::from(code)
}
