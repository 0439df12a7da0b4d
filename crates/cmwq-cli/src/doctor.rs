//! `cmwq doctor`: what this machine offers the library, measured.
//!
//! The library says what works and what does not ([`cmwq_observe::diagnose`]). Here each source of
//! detection is measured beside it, in a process of its own ([`children`] starts them, [`trials`]
//! is what they do), and both are printed, by [`text`] or [`json`].

mod children;
mod json;
mod text;
mod trials;

use std::fs;
use std::process::ExitCode;

use cmwq::ErrorKind;
use cmwq_observe::Diagnosis;
use cmwq_observe::doctor::Degradation;

use crate::output::{self, print};
use crate::{exit, message, paint};
use children::Measured;

/// Tell what this machine offers, measure how fast blocking is noticed, and say what is degraded
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("doctor/help.txt"))]
pub(crate) struct Args {
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,

    /// Measure nothing: say at once what works
    #[arg(long)]
    no_measure: bool,

    /// How often each source of detection is measured
    #[arg(
        long,
        value_name = "N",
        default_value = "200",
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    trials: u32,

    /// Measure the source in use, print the result for the parent and leave
    #[arg(long, hide = true)]
    measure_child: bool,
}

/// What is printed.
#[derive(Debug)]
struct Findings {
    diagnosis: Diagnosis,
    /// How many threads wanted to run, on average of the minute before; `None` if the system does
    /// not say.
    load_average: Option<f64>,
    /// Whether it was asked to measure.
    is_measured: bool,
    /// In the order of the sources.
    measured: Vec<Measured>,
    /// What the library has said, here and while it was measured.
    notices: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    if args.measure_child {
        return measure_child(args.trials);
    }
    let diagnosis = match cmwq_observe::diagnose() {
        Ok(diagnosis) => diagnosis,
        Err(error) => {
            let advice = match error.kind() {
                ErrorKind::ThreadCreation => {
                    " (raise RLIMIT_NPROC, ulimit -u, or the pids limit of the cgroup)"
                }
                _ => "",
            };
            message::say(format_args!("nothing works: {error}{advice}"));
            return ExitCode::from(exit::NO_RESULT);
        }
    };
    let trials = (!args.no_measure).then_some(args.trials);
    let findings = Findings::new(diagnosis, trials);
    let report = if args.json {
        json::document(&findings)
    } else {
        text::report(&findings, paint::stdout(), output::columns())
    };
    print(&report)
}

impl Findings {
    fn new(diagnosis: Diagnosis, trials: Option<u32>) -> Findings {
        let load_average = load_average();
        let measured = children::measure(&diagnosis.sources, trials);
        let mut notices = diagnosis.notices.clone();
        let by_children = measured.iter().filter_map(|measured| measured.as_ref().ok());
        for notice in by_children.flat_map(|child| &child.notices) {
            if !notices.contains(notice) {
                notices.push(notice.clone());
            }
        }
        Findings { diagnosis, load_average, is_measured: trials.is_some(), measured, notices }
    }

    fn verdict(&self) -> String {
        match self.diagnosis.degradations.len() {
            0 => "everything works".to_owned(),
            1 => "works with 1 degradation".to_owned(),
            count => format!("works with {count} degradations"),
        }
    }

    fn degradations(&self) -> &[Degradation] {
        &self.diagnosis.degradations
    }
}

fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn measure_child(trials: u32) -> ExitCode {
    match trials::run(trials) {
        Ok(measurement) => {
            let line = serde_json::to_string(&measurement).expect("numbers and strings");
            print(&(line + "\n"))
        }
        Err(problem) => {
            message::say(problem);
            ExitCode::from(exit::NO_RESULT)
        }
    }
}
