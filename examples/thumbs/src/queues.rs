//! What the queue does, live: as JSON, and as a page.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Html;
use serde::Serialize;

use crate::pool::Pool;
use crate::process;
use crate::service::Service;

/// A queue at this moment. Times are in milliseconds, since the queue was made.
#[derive(Debug, Serialize)]
pub struct Queue {
    name: String,
    /// Closures that wait, and how many may.
    waiting: u64,
    places: Option<u32>,
    /// How long the oldest of them has waited.
    oldest_ms: Option<f64>,
    /// Closures that have begun and not ended: they compute or are blocked.
    begun: u64,
    completed: u64,
    /// Taken back, because their clients went away.
    cancelled: u64,
    waited_p50_ms: Option<f64>,
    waited_p99_ms: Option<f64>,
    ran_p50_ms: Option<f64>,
    ran_p99_ms: Option<f64>,
    /// CPU time of all closures, in seconds.
    cpu_s: f64,
    /// Requests that were refused for want of a place.
    refused: u64,
    /// Threads of the process.
    threads: usize,
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// `GET /queues`
pub(crate) async fn json(State(service): State<Service>) -> Result<Json<Queue>, StatusCode> {
    let Pool::Cmwq(spawner) = service.pool() else { return Err(StatusCode::NOT_FOUND) };
    let queue = spawner.queue();
    let (stats, times) = (queue.stats(), queue.times());
    let of = |quantile: Option<Duration>| quantile.map(ms);
    let waited = |part| of(times.as_ref().and_then(|times| times.waiting.quantile(part)));
    let ran = |part| of(times.as_ref().and_then(|times| times.running.quantile(part)));
    Ok(Json(Queue {
        name: queue.name().to_owned(),
        waiting: stats.queued,
        places: queue.max_queued(),
        oldest_ms: stats.oldest.map(ms),
        begun: stats.started.saturating_sub(stats.completed),
        completed: stats.completed,
        cancelled: stats.cancelled,
        waited_p50_ms: waited(0.5),
        waited_p99_ms: waited(0.99),
        ran_p50_ms: ran(0.5),
        ran_p99_ms: ran(0.99),
        cpu_s: stats.cpu_time.as_secs_f64(),
        refused: service.refused(),
        threads: process::threads("self").unwrap_or_default(),
    }))
}

/// `GET /`
pub(crate) async fn page() -> Html<&'static str> {
    Html(include_str!("page.html"))
}
