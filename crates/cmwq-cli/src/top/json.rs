//! One look as one line of JSON.

use serde_json::{Value, json};

use super::model::{DecisionRow, Effect, Model, PoolRow, QueueRow, WorkerRow};
use super::sample::Process;

/// Times are seconds before the look; rates are those between this look and the one before, `null`
/// in the first.
pub(super) fn line(model: &Model, timestamp: f64) -> String {
    let now = &model.now;
    let decisions = model.decisions();
    let document = json!({
        "timestamp": timestamp,
        "pid": now.pid,
        "command": now.command,
        "state": match now.process {
            Process::Runs => "runs",
            Process::Stopped => "stopped",
            Process::Ended => "ended",
        },
        "cpus": now.cpus,
        "detect": now.detect,
        "frozen": now.is_frozen,
        "queues": model.queues().iter().map(queue).collect::<Vec<_>>(),
        "pools": model.pools().iter().map(|row| pool(row, &decisions)).collect::<Vec<_>>(),
        "workers": model.workers().iter().map(worker).collect::<Vec<_>>(),
        "not_shown": now.not_shown,
    });
    document.to_string() + "\n"
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn queue(row: &QueueRow<'_>) -> Value {
    let queue = row.queue;
    json!({
        "name": queue.name,
        "type": queue.kind,
        "per_second": row.rate,
        "in_flight": row.in_flight,
        "active": queue.nr_active,
        "max_active": queue.max_active,
        "waits_behind_max_active": !queue.behind.is_empty(),
        "cpu_percent": row.cpu,
        "oldest": row.oldest_ns.map(seconds),
        "outside": queue.outside,
        "started": queue.started,
        "completed": queue.completed,
        "cpu_time": seconds(queue.cpu_ns),
        "pools": queue.pools,
    })
}

fn pool(row: &PoolRow<'_>, decisions: &[DecisionRow<'_>]) -> Value {
    let pool = row.pool;
    let own = decisions.iter().filter(|decision| decision.pool.id == pool.id);
    let told = own.map(|row| {
        json!({
            "effect": Effect::of(row.decision.reason).sign().to_string(),
            "reason": row.decision.reason.name(),
            "times": row.decision.count,
            "new": row.more,
            "last_ago": seconds(row.ago_ns),
            "span": seconds(row.span_ns),
        })
    });
    json!({
        "id": pool.id,
        "cpus": pool.cpus,
        "kind": pool.kind,
        "nice": pool.nice,
        "workers": pool.nr_workers,
        "idle": pool.nr_idle,
        "running": pool.nr_running,
        "concurrency": pool.concurrency,
        "waits_s": row.waits_ns.map(seconds),
        "created": pool.created,
        "culled": pool.culled,
        "creations_failed": pool.failed,
        "decisions": told.collect::<Vec<_>>(),
    })
}

fn worker(row: &WorkerRow<'_>) -> Value {
    json!({
        "name": row.worker.name,
        "tid": row.worker.tid,
        "pool": row.worker.pool,
        "state": row.state.name(),
        "hog": row.worker.is_hog,
        "cpu_percent": row.cpu,
        "wait_percent": row.wait,
        "for": seconds(row.since_ns),
        "runs": row.worker.runs,
        "queue": row.queue.map(|queue| &queue.name),
        "function": row.function.as_deref(),
    })
}
