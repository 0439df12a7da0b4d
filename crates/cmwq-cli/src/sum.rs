//! `cmwq sum`: checksums of every file below the paths.
//!
//! [`walk`] is the parallel part: listing a directory and hashing a batch of files are items of one
//! managed [`queue`]. What it found comes back as one [`outcome::Outcome`], which is sorted and
//! printed by [`lines`] or [`json`].

mod digest;
mod files;
mod json;
mod lines;
mod names;
mod outcome;
mod place;
mod progress;
mod queue;
mod stats;
mod walk;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Instant;

use crate::descriptors::Waiting;
use crate::{exit, message};
use outcome::{Outcome, Problem};
use progress::Progress;
use stats::Stats;

/// Print the SHA-256 checksum of every regular file below the paths
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("sum/help.txt"))]
pub(crate) struct Args {
    /// Files, and directories with all that is below them
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<OsString>,

    /// Print one JSON document instead of lines
    #[arg(long)]
    json: bool,

    /// Say on standard error, at the end, what was done and how fast
    #[arg(long)]
    stats: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    let started = Instant::now();
    let walked = match walk::run(&args.paths, &Progress::on_stderr()) {
        Ok(walked) => walked,
        Err(error) => {
            message::say(format_args!("cannot start the workqueue: {error}"));
            return ExitCode::from(exit::NO_RESULT);
        }
    };
    let stats = Stats::new(&walked, started.elapsed());
    let outcome = walked.outcome;
    say_problems(&outcome);

    let mut code = if stats.errors == 0 { exit::DONE } else { exit::FAILED };
    if let Err(error) = print(args.json, &outcome, &stats) {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return ExitCode::from(exit::OUTPUT_CLOSED);
        }
        message::say(format_args!("cannot write to standard output: {error}"));
        code = exit::FAILED;
    }
    if args.stats {
        message::say(&stats);
    }
    if walked.load.lost != 0 {
        message::say(format_args!(
            "{} work items did not finish, so files are missing above; please report this as a bug",
            walked.load.lost
        ));
        code = exit::NO_RESULT;
    }
    ExitCode::from(code)
}

fn say_problems(outcome: &Outcome) {
    for note in &outcome.notes {
        match note.problem {
            Problem::Failed(errno) => message::say_about(&note.path, message::errno_text(errno)),
            Problem::Skipped(kind) => {
                message::say_about(&note.path, format_args!("skipped: {}", files::kind_name(kind)));
            }
        }
    }
}

fn print(as_json: bool, outcome: &Outcome, stats: &Stats) -> io::Result<()> {
    // The handle of the standard library buffers by lines; this output is written in large pieces.
    let mut out = BufWriter::with_capacity(64 << 10, Waiting(io::stdout()));
    if as_json {
        json::write(&mut out, outcome, stats)?;
    } else {
        lines::write(&mut out, outcome)?;
    }
    out.flush()
}
