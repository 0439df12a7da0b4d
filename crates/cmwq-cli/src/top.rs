//! `cmwq top`: a live view of a process's queues, pools and workers, and of why pools did or did
//! not grow.
//!
//! [`take`] looks at the process and gives a [`mod@sample`]; [`model`] makes rows with rates of two
//! of them, [`table`], [`why`] and [`about`] put them into words, [`view`] draws them, [`input`]
//! lets keys change what is seen ([`ui`]): all pure, and tested so. [`screen`] is the loop around
//! them, and all that touches the terminal.

mod about;
mod events;
#[cfg(test)]
mod fixture;
mod format;
mod input;
mod json;
mod model;
mod plain;
mod sample;
mod screen;
mod table;
mod take;
mod theme;
mod ui;
mod view;
mod why;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek as _};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use cmwq_observe::inspect::Target;
use regex::Regex;

use crate::descriptors::Waiting;
use crate::launch::{Group, Launched};
use crate::look::Which;
use crate::{exit, look, message};
use model::Model;
use take::Taker;
use ui::{Tab, Ui};

/// Watch the queues, pools and workers of a running process, and why its pools did or did not grow
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("top/help.txt"))]
pub(crate) struct Args {
    /// The process: its number or name; `-` is the only one that uses cmwq
    #[arg(value_name = "PROCESS", default_value = "-")]
    process: String,

    /// Show only rows in which this expression finds something; `/` changes it
    #[arg(value_name = "REGEX", value_parser = Regex::new)]
    filter: Option<Regex>,

    /// Start this program and watch it; it ends with the view. What stands before the -- is the
    /// REGEX then
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "filter")]
    program: Vec<OsString>,

    /// Seconds from one look to the next; + and - change it
    #[arg(short, long, value_name = "SECS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,

    /// What to show first
    #[arg(long, value_enum, value_name = "LIST", default_value = "queues")]
    view: Tab,

    /// Print one screen as plain text, with rates of one interval, and end; needs no terminal
    #[arg(long)]
    once: bool,

    /// Show all queues, pools and workers, however many they are
    #[arg(long)]
    all: bool,

    /// Print everything as one JSON object and line per interval; with --once: one line
    #[arg(short, long)]
    json: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.05..=3600.0).contains(&seconds) {
        return Err("seconds from 0.05 to 3600".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    match top(args) {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(code) => code,
    }
}

fn top(args: &Args) -> Result<(), ExitCode> {
    let process = Which::parse(&args.process).map_err(usage)?;
    let is_live = !args.once && !args.json;
    if is_live {
        screen::check_terminal()?;
    }
    if args.program.is_empty() {
        return watch(args, look::open(&process)?, args.filter.clone());
    }
    let filter = (args.process != "-").then(|| Regex::new(&args.process));
    let filter = filter.transpose().map_err(|error| usage(error.to_string()))?;
    // What the program writes would spoil the screen, or be between lines of JSON.
    let kept = tempfile::tempfile().map_err(|error| failed(&error))?;
    let launched = Launched::start(&args.program, Group::Own, |command| {
        command.stdin(Stdio::null()).stdout(io::stderr());
        if is_live {
            command.stdout(kept.try_clone()?).stderr(kept.try_clone()?);
        }
        Ok(())
    });
    let watched = launched.and_then(|mut launched| {
        look::bound_memory();
        let target = launched.wait_for_queues()?;
        watch(args, target, filter)
    });
    hand_on(kept);
    watched
}

/// What the program has written meanwhile, if anything.
fn hand_on(mut kept: File) {
    let copied = kept.rewind().and_then(|()| io::copy(&mut kept, &mut Waiting(io::stdout())));
    if let Err(error) = copied {
        message::say(format_args!("what the program wrote cannot be shown: {error}"));
    }
}

fn usage(text: String) -> ExitCode {
    message::say(text);
    ExitCode::from(exit::USAGE)
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    message::say(format_args!("top: {error}"));
    ExitCode::from(exit::FAILED)
}

fn watch(args: &Args, target: Target, filter: Option<Regex>) -> Result<(), ExitCode> {
    let mut taker = Taker::new(target, args.all);
    let model = Model::new(sample(&mut taker)?);
    let mut ui = Ui::new(args.view, args.interval);
    ui.filter = filter;
    if !args.once && !args.json {
        return screen::run(taker, model, ui);
    }
    plain::run(taker, model, ui, args)
}

/// A look, or what is wrong with the process.
fn sample(taker: &mut Taker) -> Result<sample::Sample, ExitCode> {
    taker.sample().map_err(|error| {
        message::say(format_args!("process {}: {error}", taker.pid()));
        ExitCode::from(exit::FAILED)
    })
}
