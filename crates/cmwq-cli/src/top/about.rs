//! The row under the cursor, in words. Pure.

use super::format::{duration, percent};
use super::model::{Model, State, WorkerRow};
use super::sample::Queue;
use super::table::RowId;
use super::why;

/// For the lines below a list.
pub(super) fn about(model: &Model, row: RowId) -> String {
    match row {
        RowId::Queue(key) => model.queue(key).map_or_else(String::new, queue),
        RowId::Pool(id) => model.pool(id).map_or_else(String::new, |pool| why::pool(model, pool)),
        RowId::Worker(_, place) => model.workers().get(place).map_or_else(String::new, worker),
        RowId::Decision(id, reason, first_ns) => {
            let Some(pool) = model.pool(id) else { return String::new() };
            let is_it =
                |row: &&super::sample::Decision| (row.reason, row.first_ns) == (reason, first_ns);
            let Some(decision) = pool.decisions.iter().find(is_it) else { return String::new() };
            let because = why::because(model, pool, decision);
            format!("{}, {}: {because}.", why::name(pool), decision.reason)
        }
    }
}

/// With the right ending.
pub(super) fn plural(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn waiting(items: u64) -> String {
    format!("{} wait{}", plural(items, "item"), if items == 1 { "s" } else { "" })
}

/// A queue and its limits.
pub(super) fn queue(queue: &Queue) -> String {
    let pools: Vec<_> = queue.pools.iter().map(u32::to_string).collect();
    let mut text = format!("Queue {} ({}): ", queue.name, queue.kind);
    text += &match pools.len() {
        0 => "no item has come yet".to_owned(),
        1 => format!("leads to pool {}", pools[0]),
        _ => format!("leads to pools {}", pools.join(", ")),
    };
    text += &format!("; max_active {}", queue.max_active);
    let has_min = !matches!(queue.kind, "percpu" | "bh" | "ordered");
    if has_min && queue.min_active < queue.max_active {
        text += &format!(", min_active {}", queue.min_active);
    }
    if !queue.behind.is_empty() {
        text += ": others wait behind it";
    }
    if queue.outside > 0 {
        text += &format!("; {} outside of the process", waiting(queue.outside));
    }
    if queue.is_mem_reclaim {
        let calls = plural(queue.mayday, "call");
        text += &format!("; it has a rescuer: {calls}, {}", plural(queue.rescued, "item"));
    }
    text + "."
}

fn worker(row: &WorkerRow<'_>) -> String {
    let (worker, age) = (row.worker, duration(row.since_ns));
    let doing = match (row.state, &row.function) {
        (State::NoThread, _) => "has no thread: it has not begun, or has ended".to_owned(),
        (_, None) => format!("idle for {age}"),
        (state, Some(function)) => {
            let queue = row.queue.map_or("a queue that is gone", |queue| &queue.name);
            let told = match state {
                State::Runs if worker.is_hog => "runs, and hogs the CPU: it does not count",
                State::Runs => "runs",
                State::Preempted => "wants a CPU and has none (preempted)",
                State::WaitsHard => "waits, not to be interrupted (D)",
                State::Stopped => "is stopped",
                _ => "waits",
            };
            let blocked = if worker.is_blocked { "; believed blocked" } else { "" };
            format!("{function} of queue {queue}, for {age}: it {told}{blocked}")
        }
    };
    let mut text = format!("{} (thread {})", worker.name, worker.tid);
    if let Some(pool) = worker.pool {
        text += &format!(" of pool {pool}");
    }
    text += &format!(": {doing}.");
    if row.wait.is_some() {
        text += &format!(
            " CPU {} %, without one though ready {} %.",
            percent(row.cpu),
            percent(row.wait)
        );
    }
    text
}
