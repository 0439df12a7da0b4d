//! The `cmwq` command: one module per verb.
//!
//! A verb is a module with `Args` (what clap parses, and the help) and `run(&Args) -> ExitCode`,
//! one variant of [`Verb`] and one line in [`main`]. What verbs share lies in [`exit`],
//! [`message`], [`picture`] and [`look`].

mod descriptors;
mod doctor;
mod dump;
mod enough;
mod exit;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod ignored;
mod launch;
mod look;
mod manual;
mod meant;
mod message;
mod monitor;
mod output;
mod paint;
mod picture;
mod programs;
mod ps;
mod run;
mod scenario;
mod set;
mod sim;
mod stat;
mod sum;
mod top;
mod trace;
mod written;

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Workqueues over shared worker pools that size themselves.
#[derive(Debug, Parser)]
#[command(name = "cmwq", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = include_str!("help.txt"))]
struct Cli {
    /// When to use colours; on a terminal, unless NO_COLOR is set, if this is not given
    #[arg(
        long,
        value_name = "WHEN",
        global = true,
        default_value = "auto",
        hide_default_value = true
    )]
    color: ColorChoice,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Doctor(doctor::Args),
    Dump(dump::Args),
    Monitor(monitor::Args),
    Ps(ps::Args),
    Run(run::Args),
    Sum(sum::Args),
    Scenario(scenario::Args),
    Set(set::Args),
    Sim(sim::Args),
    Top(top::Args),
    Trace(trace::Args),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// Runs the verb that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    let colours = paint::choice_in(std::env::args_os());
    let command = Cli::command().color(colours).mut_subcommand("run", run::with_hints);
    let matches = match command.try_get_matches() {
        Ok(matches) => matches,
        Err(error) if error.use_stderr() => error.exit(),
        // Help, and the version. To print itself it would not say whether it could.
        Err(help) => {
            paint::choose(colours);
            return output::print(&paint::stdout().styled(&help.render()));
        }
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    paint::choose(cli.color);
    ignored::let_processes_be_waited_for();
    match cli.verb {
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Dump(args) => dump::run(&args),
        Verb::Monitor(args) => monitor::run(&args),
        Verb::Ps(args) => ps::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Sum(args) => sum::run(&args),
        Verb::Scenario(args) => scenario::run(&args),
        Verb::Set(args) => set::run(&args),
        Verb::Sim(args) => sim::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Trace(args) => trace::run(&args),
        Verb::Completions(args) => manual::completions(&args),
        Verb::Man(args) => manual::man(&args),
    }
}
