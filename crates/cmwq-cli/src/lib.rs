//! The `cmwq` command: one module per verb.
//!
//! A verb is a module with `Args` (what clap parses, and the help) and `run(&Args) -> ExitCode`,
//! one variant of [`Verb`] and one line in [`main`]. What verbs share lies in [`exit`],
//! [`message`], [`picture`] and [`look`].

mod doctor;
mod dump;
mod exit;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod look;
mod message;
mod monitor;
mod output;
mod picture;
mod scenario;
mod set;
mod sim;
mod sum;
mod top;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Workqueues over shared worker pools that size themselves.
#[derive(Debug, Parser)]
#[command(name = "cmwq", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Doctor(doctor::Args),
    Dump(dump::Args),
    Monitor(monitor::Args),
    Sum(sum::Args),
    Scenario(scenario::Args),
    Set(set::Args),
    Sim(sim::Args),
    Top(top::Args),
    Trace(trace::Args),
}

/// Runs the verb that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Dump(args) => dump::run(&args),
        Verb::Monitor(args) => monitor::run(&args),
        Verb::Sum(args) => sum::run(&args),
        Verb::Scenario(args) => scenario::run(&args),
        Verb::Set(args) => set::run(&args),
        Verb::Sim(args) => sim::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Trace(args) => trace::run(&args),
    }
}
