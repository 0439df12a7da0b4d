//! Statistics for the [`metrics`] crate and its exporters, Prometheus among them (feature
//! `metrics`).
//!
//! Nothing is collected while items run: [`record`] looks at the counters that queues and pools
//! keep anyway, and gives them to the recorder that the program has installed. Call it before each
//! scrape, or at an interval; it takes the pools' locks one after the other, for a moment each. A
//! queue counts from its beginning, also what it did after the last call and before it went; one
//! that came and went between two calls is not seen.
//!
//! | metric | type, labels | meaning |
//! |---|---|---|
//! | `cmwq_workqueue_items_started_total` | counter, `workqueue` | items whose function was entered |
//! | `cmwq_workqueue_items_completed_total` | counter, `workqueue` | items whose function has returned |
//! | `cmwq_workqueue_items_cancelled_total` | counter, `workqueue` | items that were taken back before they ran |
//! | `cmwq_workqueue_items_in_flight` | gauge, `workqueue` | items that are running: started less completed |
//! | `cmwq_workqueue_cpu_seconds_total` | gauge that grows, `workqueue` | CPU time that items used |
//! | `cmwq_workqueue_cpu_intensive_total` | counter, `workqueue` | items that hogged the CPU |
//! | `cmwq_workqueue_cm_wakeups_total` | counter, `workqueue` | workers woken because one blocked or hogged the CPU |
//! | `cmwq_workqueue_repatriated_total` | counter, `workqueue` | workers sent back to their pod |
//! | `cmwq_workqueue_mayday_total` | counter, `workqueue` | calls for the rescuer |
//! | `cmwq_workqueue_rescued_total` | counter, `workqueue` | items that the rescuer ran |
//! | `cmwq_workqueue_max_active` | gauge, `workqueue` | how many items may be in execution at once |
//! | `cmwq_pool_workers` | gauge, `pool`, `cpus`, `nice` | workers, idle and busy |
//! | `cmwq_pool_idle_workers` | gauge, as above | workers without work |
//! | `cmwq_pool_running_workers` | gauge, as above | busy workers that are neither blocked nor CPU-intensive |
//! | `cmwq_worker_creation_failures_total` | counter | threads that could not be had |
//!
//! Queues of one name are added up. CPU time is a gauge because counters of that crate have no
//! fractions; it never falls.
//!
//! ```
//! let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
//! let prometheus = recorder.handle();
//! # metrics::with_local_recorder(&recorder, || {
//! // metrics::set_global_recorder(recorder)?;
//! let wq = cmwq::Workqueue::new("fetch")?;
//! wq.queue(|| ()).join()?;
//! cmwq::metrics::record();
//! let text = prometheus.render();
//! assert!(text.contains("cmwq_workqueue_items_started_total{workqueue=\"fetch\"} 1"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

use std::collections::HashMap;

use cmwq_core::PwqStats;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::engine::pool::PoolKind;
use crate::engine::runtime::Runtime;
use crate::engine::wq::Wq;
use crate::os::sync::{Arc, Ordering, lock};

/// What was given to the recorder so far.
#[derive(Default)]
pub(crate) struct Totals {
    by_name: HashMap<Box<str>, Total>,
    /// By address; each entry keeps its queue's memory until its last numbers were taken.
    seen: HashMap<usize, (Arc<Wq>, PwqStats)>,
}

/// Of all queues of a name.
#[derive(Default)]
struct Total {
    sum: PwqStats,
    max_active: u32,
}

impl std::fmt::Debug for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Totals").field("queues", &self.seen.len()).finish_non_exhaustive()
    }
}

/// Gives all statistics, as of now, to the recorder of the `metrics` crate, and their descriptions.
/// Without a recorder, or before the library was used, it does nothing.
pub fn record() {
    describe();
    let Some(runtime) = Runtime::existing() else { return };
    let mut totals = lock(&runtime.totals);
    totals.take_in(runtime.users_wqs());
    for (name, total) in &totals.by_name {
        total.record(name);
    }
    for pool in runtime.pools() {
        let spec = pool.spec();
        let cpus = match pool.kind {
            // It has no workers.
            PoolKind::Bh(_) => continue,
            _ => spec.pod.to_string(),
        };
        let labels =
            [("pool", pool.id.0.to_string()), ("cpus", cpus), ("nice", spec.nice.to_string())];
        let guard = pool.lock_only();
        let core = &guard.core;
        let (workers, idle, running) = (core.nr_workers(), core.nr_idle(), core.nr_running());
        drop(guard);
        gauge!("cmwq_pool_workers", &labels).set(workers);
        gauge!("cmwq_pool_idle_workers", &labels).set(idle);
        gauge!("cmwq_pool_running_workers", &labels).set(running);
    }
    // ORDERING: no pairing: a counter.
    let failures = runtime.nr_creation_failures.load(Ordering::Relaxed);
    counter!("cmwq_worker_creation_failures_total").absolute(failures);
}

impl Totals {
    fn take_in(&mut self, queues: Vec<Arc<Wq>>) {
        self.by_name.values_mut().for_each(|total| total.max_active = 0);
        for wq in &queues {
            let seen = self.seen.entry(Arc::as_ptr(wq) as usize);
            seen.or_insert_with(|| (Arc::clone(wq), PwqStats::default()));
        }
        let by_name = &mut self.by_name;
        let is_there: std::collections::HashSet<_> =
            queues.iter().map(|wq| Arc::as_ptr(wq) as usize).collect();
        self.seen.retain(|address, (wq, last)| {
            let is_there = is_there.contains(address);
            // Of one that is gone: its final numbers.
            let is_final = !is_there && wq.is_gone();
            let now = wq.stats();
            let total = by_name.entry(wq.name.clone()).or_default();
            total.add(&now, last);
            if is_there {
                total.max_active = total.max_active.max(wq.max_active());
            }
            !is_final
        });
    }
}

impl Total {
    /// Adds what came since `last`, which becomes `now`.
    fn add(&mut self, now: &PwqStats, last: &mut PwqStats) {
        // CPU time may be corrected downwards, by little.
        let mut now = *now;
        now.cpu_time = now.cpu_time.max(last.cpu_time);
        let mut since = now;
        since.started -= last.started;
        since.completed -= last.completed;
        since.cpu_time -= last.cpu_time;
        since.cpu_intensive -= last.cpu_intensive;
        since.cm_wakeup -= last.cm_wakeup;
        since.repatriated -= last.repatriated;
        since.mayday -= last.mayday;
        since.rescued -= last.rescued;
        since.cancelled -= last.cancelled;
        self.sum += since;
        *last = now;
    }

    fn record(&self, name: &str) {
        let labels = [("workqueue", name.to_owned())];
        let sum = &self.sum;
        counter!("cmwq_workqueue_items_started_total", &labels).absolute(sum.started);
        counter!("cmwq_workqueue_items_completed_total", &labels).absolute(sum.completed);
        counter!("cmwq_workqueue_items_cancelled_total", &labels).absolute(sum.cancelled);
        let in_flight = sum.started.saturating_sub(sum.completed);
        gauge!("cmwq_workqueue_items_in_flight", &labels).set(in_flight as f64);
        let seconds = sum.cpu_time as f64 / 1e6;
        gauge!("cmwq_workqueue_cpu_seconds_total", &labels).set(seconds);
        counter!("cmwq_workqueue_cpu_intensive_total", &labels).absolute(sum.cpu_intensive);
        counter!("cmwq_workqueue_cm_wakeups_total", &labels).absolute(sum.cm_wakeup);
        counter!("cmwq_workqueue_repatriated_total", &labels).absolute(sum.repatriated);
        counter!("cmwq_workqueue_mayday_total", &labels).absolute(sum.mayday);
        counter!("cmwq_workqueue_rescued_total", &labels).absolute(sum.rescued);
        gauge!("cmwq_workqueue_max_active", &labels).set(self.max_active);
    }
}

/// Gives the metrics' units and help texts to the recorder. [`record`] does it, too; for programs
/// that want them to be there before the first call.
pub fn describe() {
    let count = Unit::Count;
    for (name, help) in [
        ("items_started_total", "Work items whose function was entered"),
        ("items_completed_total", "Work items whose function has returned"),
        ("items_cancelled_total", "Work items that were taken back before they ran"),
        ("cpu_intensive_total", "Work items that hogged the CPU and made room for others"),
        ("cm_wakeups_total", "Workers woken because a worker blocked or hogged the CPU"),
        ("repatriated_total", "Workers that were sent back to their affinity pod"),
        ("mayday_total", "Calls for the rescuer"),
        ("rescued_total", "Work items that the rescuer ran"),
    ] {
        describe_counter!(format!("cmwq_workqueue_{name}"), count, help);
    }
    describe_gauge!("cmwq_workqueue_items_in_flight", count, "Work items that are running now");
    describe_gauge!(
        "cmwq_workqueue_cpu_seconds_total",
        Unit::Seconds,
        "CPU time that work items used; grows as a counter does"
    );
    describe_gauge!(
        "cmwq_workqueue_max_active",
        count,
        "How many work items may be in execution at once; 0 when the workqueue is gone"
    );
    describe_gauge!("cmwq_pool_workers", count, "Workers of the pool, idle and busy");
    describe_gauge!("cmwq_pool_idle_workers", count, "Workers of the pool that wait for work");
    describe_gauge!(
        "cmwq_pool_running_workers",
        count,
        "Workers of the pool that run an item and are neither blocked nor CPU-intensive"
    );
    describe_counter!(
        "cmwq_worker_creation_failures_total",
        count,
        "Worker threads that the system refused to create"
    );
}
