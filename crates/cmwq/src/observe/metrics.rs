//! Statistics for the [`metrics`] crate and its exporters, Prometheus among them (feature
//! `metrics`).
//!
//! Nothing is collected while items run: [`record`] looks at the counters that queues and pools
//! keep anyway, and gives them to the recorder that the program has installed. Call it before each
//! scrape, or at an interval; it takes the pools' locks one after the other, for a moment each. A
//! queue counts from its beginning, also what it did between the last call and its end; one that
//! was made and destroyed between two calls is not seen.
//!
//! | metric | type, labels | meaning |
//! |---|---|---|
//! | `cmwq_workqueue_items_started_total` | counter, `workqueue` | items whose function was entered |
//! | `cmwq_workqueue_items_completed_total` | counter, `workqueue` | items whose function has returned |
//! | `cmwq_workqueue_items_cancelled_total` | counter, `workqueue` | items that were cancelled before they ran |
//! | `cmwq_workqueue_items_in_flight` | gauge, `workqueue` | items that are running: started less completed |
//! | `cmwq_workqueue_items_queued` | gauge, `workqueue` | items that wait: queued and not begun, without those whose timer is armed |
//! | `cmwq_workqueue_items_waiting_for_limit` | gauge, `workqueue` | of those, the ones that wait because `max_active` are in execution |
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
//! | `cmwq_worker_creation_failures_total` | counter | threads that the system refused |
//!
//! Queues of one name are added up, also those that wait. A label `workqueue` has one value for
//! each name that was ever seen, for as long as the process lives: give queues a few fixed names,
//! not one for each client. There are as many pools as CPUs, and some for each set of attributes.
//! CPU time is a gauge because counters of that crate have no fractions; it never falls.
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
//!
//! Why: docs/decisions/metrics-pulled.md

use metrics::{counter, describe_counter, describe_gauge, gauge};

use crate::observe::totals::{METRICS, Unit, Value, measure};

/// Gives all statistics, as of now, to the recorder of the `metrics` crate, and their descriptions.
/// Without a recorder, or before the library was used, it does nothing.
pub fn record() {
    describe();
    measure(|metric, labels, value| match (metric.unit, value) {
        (Unit::Total, Value::Integer(number)) => counter!(metric.name, labels).absolute(number),
        (_, Value::Integer(number)) => gauge!(metric.name, labels).set(number as f64),
        (_, Value::Fraction(number)) => gauge!(metric.name, labels).set(number),
    });
}

/// Gives the metrics' units and help texts to the recorder. [`record`] does it, too; for programs
/// that want them to be there before the first call.
pub fn describe() {
    for metric in METRICS {
        match metric.unit {
            Unit::Total => describe_counter!(metric.name, metrics::Unit::Count, metric.help),
            Unit::Count => describe_gauge!(metric.name, metrics::Unit::Count, metric.help),
            Unit::Seconds => describe_gauge!(metric.name, metrics::Unit::Seconds, metric.help),
        }
    }
}
