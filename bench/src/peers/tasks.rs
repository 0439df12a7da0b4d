//! Tasks of a runtime that await closures of a pool (tasks).

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::runtime::Runtime;

use crate::bench_tasks::Sample;
use crate::computing::Computing;
use crate::gate::Gate;
use crate::job::Job;
use crate::stats::percentile;
use crate::sys::{self, ThreadCount};
use crate::systems::System;

/// How often the task beside the load wakes.
const BEAT: Duration = Duration::from_millis(1);

/// Does `job` on `system` in this process and returns the result as one line of JSON.
pub(super) fn measure(system: System, job: &Job) -> Result<String> {
    let sample = match system {
        System::CmwqTokio => with(job, |item| async {
            cmwq_tokio::spawn_blocking(item).await.expect("an item does not panic");
        }),
        System::TokioBlocking => with(job, |item| async {
            tokio::task::spawn_blocking(item).await.expect("an item does not panic");
        }),
        System::TokioInplace => with(job, |item| async { tokio::task::block_in_place(item) }),
        other => bail!("{} takes no part", other.name()),
    }?;
    Ok(serde_json::to_string(&sample)?)
}

fn with<S, W>(job: &Job, spawn: S) -> Result<Sample>
where
    S: Fn(Box<dyn FnOnce() + Send>) -> W + Copy + Send + 'static,
    W: Future<Output = ()> + Send,
{
    let runtime = Runtime::new().context("starting tokio's runtime")?;
    // The runtime's threads are there; those of the pool are made from here on.
    let threads = ThreadCount::of("self")?.read().context("reading the number of threads")?;
    runtime.block_on(async {
        for _ in 0..job.cpus {
            spawn(Box::new(|| ())).await;
        }
    });
    let computing: &'static Computing = Box::leak(Box::default());
    let gate = Gate::leaked(job.count);
    let (done, latencies) = std::sync::mpsc::channel();
    let beats = runtime.spawn(beat(gate));
    let (burn, wait, apart) = (job.burn(), job.wait(), job.first_wait());
    let start = Instant::now();
    for number in 0..job.count {
        let due = start + apart * u32::try_from(number).context("too many items")?;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let done = done.clone();
        runtime.spawn(async move {
            let closure = move || {
                computing.burn(burn);
                std::thread::sleep(wait);
            };
            spawn(Box::new(closure)).await;
            // The other end waits for all of them.
            let _ = done.send(due.elapsed());
            gate.done();
        });
    }
    gate.wait();
    let makespan = start.elapsed();
    drop(done);
    let ns = |time: Duration| sys::duration_ns(time) as f64;
    let latencies: Vec<f64> = latencies.into_iter().map(ns).collect();
    let late = runtime.block_on(beats).context("the task beside the load")?;
    let late: Vec<f64> = late.into_iter().map(ns).collect();
    let at = |series: &[f64], percent| percentile(series, percent).unwrap_or(f64::NAN);
    Ok(Sample {
        makespan_ns: ns(makespan),
        latency_p50_ns: at(&latencies, 50.0),
        latency_p99_ns: at(&latencies, 99.0),
        late_p99_ns: at(&late, 99.0),
        max_computing: computing.most(),
        base_threads: threads,
    })
}

/// Wakes until the gate is open: how late, each time.
async fn beat(gate: &'static Gate) -> Vec<Duration> {
    let mut late = Vec::new();
    while gate.left() > 0 {
        let due = Instant::now() + BEAT;
        tokio::time::sleep_until(due.into()).await;
        late.push(due.elapsed());
    }
    late
}
