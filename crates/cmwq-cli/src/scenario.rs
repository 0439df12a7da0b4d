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

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use cmwq_sim::{Scenario, Timeline, run_scenario};

use crate::output::print;
use crate::written::{self, Out};
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

    /// Also write the timeline as a picture; `-` is standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Also write the timeline as a trace for Perfetto or chrome://tracing; `-` as for --svg
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
    match run_shown(args, name) {
        Ok(code) => code,
        Err((code, error)) => {
            message::say(error);
            ExitCode::from(code)
        }
    }
}

/// What a verb ends with instead, and what it says then.
type Failure = (u8, String);

fn run_shown(args: &Args, name: &Path) -> Result<ExitCode, Failure> {
    let files = [args.svg.as_deref(), args.trace.as_deref()];
    let to_stdout = files.iter().filter(|file| **file == Some(Path::new("-"))).count();
    if to_stdout + usize::from(args.json) > 1 {
        let why = "only one of --svg, --trace and --json can be on standard output";
        return Err((exit::USAGE, why.to_owned()));
    }
    let failed = |error| (exit::FAILED, error);
    let scenario = load(name).map_err(failed)?;
    let [picture, trace] = files.map(|file| file.map(Out::open).transpose());
    let outs = [picture.map_err(failed)?, trace.map_err(failed)?];
    written::check(outs.each_ref().map(Option::as_ref), source::place(name), "--svg and --trace")
        .map_err(|error| (exit::USAGE, error))?;
    let timeline = run_on(args.on, &scenario)?;

    let arm = match args.on {
        Arm::Sim => "simulated",
        Arm::Threads => "on threads",
    };
    let title = format!("{}, {arm}", name.display());
    let chart = Chart::new(title, &scenario, &timeline);
    let makers: [fn(&Chart<'_>) -> String; 2] = [svg::draw, trace::write];
    let mut shown = None;
    for (out, make) in outs.into_iter().zip(makers) {
        let Some(out) = out else { continue };
        if matches!(out, Out::Stdout) {
            shown = Some(make(&chart));
            continue;
        }
        let mut file = out.begin().map_err(failed)?;
        let written = file.write_all(make(&chart).as_bytes());
        written.map_err(|error| failed(error.to_string()))?;
    }
    let shown = shown.unwrap_or_else(|| match args.json {
        true => json::write(&chart),
        false => text::write(&chart, paint::stdout()),
    });
    Ok(print(&shown))
}

fn run_on(arm: Arm, scenario: &Scenario) -> Result<Timeline, Failure> {
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
