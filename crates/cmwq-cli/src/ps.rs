//! `cmwq ps`: which processes use cmwq.

use std::process::ExitCode;
use std::time::Duration;

use cmwq::foreign::harmless;
use cmwq_observe::inspect::Snapshot;
use serde_json::{Value, json};

use crate::look::others::{self, Others};
use crate::{exit, look, message, output};

/// List the processes that use cmwq
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("ps/help.txt"))]
pub(crate) struct Args {
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// A process.
struct Row {
    pid: u32,
    queues: usize,
    pools: usize,
    workers: usize,
    /// Workers that run an item.
    busy: usize,
    /// Items that were started and have not finished.
    in_flight: u64,
    up: Duration,
    command: String,
}

impl Row {
    fn new(seen: &Snapshot) -> Self {
        let in_flight = |queue| {
            let stats = seen.stats_of(queue);
            stats.started.saturating_sub(stats.completed)
        };
        Self {
            pid: seen.pid,
            queues: seen.queues.len(),
            pools: seen.pools.len(),
            workers: seen.workers.len(),
            busy: seen.workers.iter().filter(|worker| worker.activity.is_some()).count(),
            in_flight: seen.queues.iter().map(in_flight).fold(0, u64::saturating_add),
            up: Duration::from_nanos(seen.taken_ns.saturating_sub(seen.born_ns)),
            command: others::command(seen.pid),
        }
    }

    fn json(&self) -> Value {
        json!({
            "pid": self.pid,
            "workqueues": self.queues,
            "pools": self.pools,
            "workers": self.workers,
            "busy": self.busy,
            "in_flight": self.in_flight,
            "up_s": self.up.as_secs(),
            "command": self.command,
        })
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    look::bound_memory();
    let others = match Others::look(|target| target.snapshot().map(|seen| Row::new(&seen))) {
        Ok(others) => others,
        Err(error) => {
            message::say(error);
            return ExitCode::from(exit::FAILED);
        }
    };
    let rows = &others.taken;
    for (pid, error) in &others.unreadable {
        message::say(format_args!("process {pid}: {error}"));
    }
    let printed = if args.json {
        let processes: Vec<_> = rows.iter().map(Row::json).collect();
        let document = json!({ "processes": processes, "not_allowed": others.denied });
        output::print_json(&format!("{document}\n"))
    } else {
        output::print_foreign(&fitted(&table(rows)))
    };
    if others.denied > 0 && !args.json {
        message::say(format_args!("{} processes may not be looked into by you", others.denied));
    }
    match printed {
        code if code != ExitCode::from(exit::DONE) => code,
        code if others.unreadable.is_empty() => code,
        _ => ExitCode::from(exit::FAILED),
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>7} {:>6} {:>5} {:>7} {:>5} {:>9} {:>9}  COMMAND\n",
        "PID", "QUEUES", "POOLS", "WORKERS", "BUSY", "IN FLIGHT", "UP"
    );
    for row in rows {
        text += &format!(
            "{:>7} {:>6} {:>5} {:>7} {:>5} {:>9} {:>9}  {}\n",
            row.pid,
            row.queues,
            row.pools,
            row.workers,
            row.busy,
            row.in_flight,
            up(row.up),
            // On one line, whatever it says.
            harmless(&row.command)
        );
    }
    text
}

/// No wider than the terminal, if it goes to one.
fn fitted(table: &str) -> String {
    let Some(columns) = output::columns() else { return table.to_owned() };
    let cut = |line: &str| line.chars().take(columns).collect::<String>() + "\n";
    table.lines().map(cut).collect()
}

/// As `ps` has times: `1-02:03:04`, `02:03:04`, `03:04`.
fn up(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes:02}:{seconds:02}"),
        (0, _) => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_ps() {
        let shown = |seconds| up(Duration::from_secs(seconds));
        assert_eq!(shown(7), "00:07");
        assert_eq!(shown(3600), "01:00:00");
        assert_eq!(shown(93_784), "1-02:03:04");
    }
}
