//! `cmwq dump`: the state of a process's queues and pools, once.
//!
//! KERNEL: `tools/workqueue/wq_dump.py` — same sections in the same order; a managed queue's type is `managed`, and there
//! is no default pool, since queues get their ways into pools when they first use them.

mod json;
mod stuck;
mod text;

use std::process::ExitCode;

use crate::{look, output};
pub(crate) use stuck::{down_to_item, frame, is_own, line};
pub(crate) use text::short_name;

/// Show affinity scopes, worker pools, and which queues lead to which pools, of a running process
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("dump/help.txt"))]
pub(crate) struct Args {
    /// The process
    #[arg(value_name = "PID")]
    pid: u32,

    /// Show instead what each busy worker runs, since when, and its stack; the thread is stopped for a moment
    #[arg(long)]
    stuck: bool,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    let seen = match look::open(args.pid).and_then(|target| look::snapshot(&target)) {
        Ok(seen) => seen,
        Err(code) => return code,
    };
    let report = match (args.stuck, args.json) {
        (false, false) => text::report(&seen),
        (false, true) => json::report(&seen),
        (true, false) => stuck::text(&stuck::busy(&seen)),
        (true, true) => json::document(&stuck::busy(&seen)),
    };
    output::print(&report)
}
