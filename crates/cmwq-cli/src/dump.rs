//! `cmwq dump`: the state of a process's queues and pools, once.
//!
//! KERNEL: `tools/workqueue/wq_dump.py` — same sections in the same order; a managed queue's type is `managed`, and there
//! is no default pool, since queues get their ways into pools when they first use them.

mod text;

use std::process::ExitCode;

use crate::{look, scenario};

/// Show affinity scopes, worker pools, and which queues lead to which pools, of a running process
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("dump/help.txt"))]
pub(crate) struct Args {
    /// The process
    #[arg(value_name = "PID")]
    pid: u32,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    let report = look::open(args.pid)
        .and_then(|target| look::snapshot(&target))
        .map(|seen| text::report(&seen));
    match report {
        Ok(report) => scenario::print(&report),
        Err(code) => code,
    }
}
