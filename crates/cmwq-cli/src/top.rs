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

use std::process::ExitCode;
use std::time::Duration;

use regex::Regex;

use crate::{exit, look, message};
use model::Model;
use take::Taker;
use ui::{Tab, Ui};

/// Watch the queues, pools and workers of a running process, and why its pools did or did not grow
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("top/help.txt"))]
pub(crate) struct Args {
    /// The process
    #[arg(value_name = "PID")]
    pid: u32,

    /// Show only rows in which this expression finds something; `/` changes it
    #[arg(value_name = "REGEX", value_parser = Regex::new)]
    filter: Option<Regex>,

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
    let is_live = !args.once && !args.json;
    if is_live {
        screen::check_terminal()?;
    }
    let mut taker = Taker::new(look::open(args.pid)?, args.all);
    let model = Model::new(sample(&mut taker)?);
    let mut ui = Ui::new(args.view, args.interval);
    ui.filter.clone_from(&args.filter);
    if is_live {
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
