//! `cmwq dump`: the state of a process's queues and pools, once.
//!
//! KERNEL: `tools/workqueue/wq_dump.py` — same sections in the same order; a managed queue's type
//! is `managed`, and there is no default pool, since queues get their ways into pools when they
//! first use them.

mod json;
mod stuck;
mod text;

use std::process::ExitCode;

use cmwq_observe::inspect::{Snapshot, Target};

use crate::look::Which;
use crate::look::limit::LeftOut;
use crate::{look, message, output};
pub(crate) use stuck::{down_to_item, frame, is_own, line};
pub(crate) use text::short_name;

/// LIMIT: busy workers, each with its stack.
const MOST_STUCK: usize = 100;

/// Show affinity scopes, worker pools, and which queues lead to which pools, of a running process
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("dump/help.txt"))]
pub(crate) struct Args {
    /// The process: its number or name; `-` is the only one that uses cmwq
    #[arg(value_name = "PROCESS", default_value = "-", value_parser = Which::parse)]
    process: Which,

    /// Show instead what each busy worker runs, since when, and its stack; the thread is stopped
    /// for a moment
    #[arg(long)]
    stuck: bool,

    /// Show everything, however much it is
    #[arg(long)]
    all: bool,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    let target = match look::open(&args.process) {
        Ok(target) => target,
        Err(code) => return code,
    };
    let mut seen = match look::snapshot(&target) {
        Ok(seen) => seen,
        Err(code) => return code,
    };
    if args.stuck {
        return stuck(&target, &seen, args);
    }
    let left_out = if args.all { LeftOut::default() } else { look::limit::limit(&mut seen) };
    if args.json {
        let printed = output::print_json(&json::report(&seen, left_out));
        left_out.words().into_iter().for_each(message::say);
        return printed;
    }
    let words = left_out.words().map_or(String::new(), |words| format!("\n{words}\n"));
    output::print_foreign(&(text::report(&seen) + &words))
}

fn stuck(target: &Target, seen: &Snapshot, args: &Args) -> ExitCode {
    let most = if args.all { usize::MAX } else { MOST_STUCK };
    let (mut busy, left_out) = stuck::busy(seen, most);
    if let Ok(now) = target.snapshot() {
        stuck::keep_those_that_still_run(&mut busy, &now);
    }
    let words = (left_out > 0).then(|| {
        format!("Left out: {left_out} workers, which are busy for less long. --all shows all.")
    });
    if args.json {
        let printed = output::print_json(&json::document(&busy));
        words.into_iter().for_each(message::say);
        return printed;
    }
    let words = words.map_or(String::new(), |words| format!("\n{words}\n"));
    output::print_foreign(&(stuck::text(&busy) + &words))
}
