//! One table, or one line of JSON for each queue.

use std::fmt::Write as _;

use cmwq_observe::inspect::{Queue, QueueKind, Snapshot};
use serde::Serialize;

use super::stats;
use crate::dump::short_name;

/// What the kernel's tool prints. `cpu_time` in seconds.
#[derive(Serialize)]
struct Row<'a> {
    timestamp: f64,
    name: &'a str,
    unbound: bool,
    mem_reclaim: bool,
    started: u64,
    completed: u64,
    cpu_time: f64,
    cpu_intensive: u64,
    cm_wakeup: u64,
    repatriated: u64,
    mayday: u64,
    rescued: u64,
}

/// Started by attributes alone, not managed.
fn is_unbound(queue: &Queue) -> bool {
    matches!(queue.kind, QueueKind::Unbound | QueueKind::Ordered)
}

pub(super) fn json(seen: &Snapshot, queues: &[&Queue], timestamp: f64) -> String {
    let mut out = String::new();
    for queue in queues {
        let stats = stats(seen, queue);
        let row = Row {
            timestamp,
            name: &queue.name,
            unbound: is_unbound(queue),
            mem_reclaim: queue.is_mem_reclaim(),
            started: stats.started,
            completed: stats.completed,
            cpu_time: stats.cpu_time.as_secs_f64(),
            cpu_intensive: stats.cpu_intensive,
            cm_wakeup: stats.cm_wakeup,
            repatriated: stats.repatriated,
            mayday: stats.mayday,
            rescued: stats.rescued,
        };
        let line = serde_json::to_string(&row).unwrap_or_default();
        let _ = writeln!(out, "{line}");
    }
    out
}

pub(super) fn table(seen: &Snapshot, queues: &[&Queue]) -> String {
    let mut out = format!(
        "{:>24} {:>8} {:>5} {:>8} {:>7} {:>7} {:>7} {:>7}\n",
        "", "total", "infl", "CPUtime", "CPUitsv", "CMW/RPR", "mayday", "rescued"
    );
    for queue in queues {
        let stats = stats(seen, queue);
        let or_dash =
            |is_told: bool, count: u64| if is_told { count.to_string() } else { "-".to_owned() };
        let unbound = is_unbound(queue);
        let _ = writeln!(
            out,
            "{:24} {:8} {:5} {:8.1} {:>7} {:>7} {:>7} {:>7}",
            short_name(&queue.name),
            stats.started,
            stats.started.saturating_sub(stats.completed),
            stats.cpu_time.as_secs_f64(),
            or_dash(!unbound, stats.cpu_intensive),
            if unbound { stats.repatriated } else { stats.cm_wakeup },
            or_dash(queue.is_mem_reclaim(), stats.mayday),
            or_dash(queue.is_mem_reclaim(), stats.rescued),
        );
    }
    out.push('\n');
    out
}
