//! The statistics of queues and pools as numbers with names, for programs that collect such: those
//! of queues added up by name, and never falling.

use std::fmt::Write as _;

use crate::engine::pool::PoolKind;
use crate::engine::process::Process;
use crate::engine::queue::totals::Total;
use crate::os::sync::{Ordering, lock};

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Of things that happened.
    Total,
    /// Of things that are there.
    Count,
    /// Of CPU time. It grows as a total does, and has fractions.
    Seconds,
}

/// A number, by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) help: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Integer(u64),
    Fraction(f64),
}

macro_rules! metrics {
    ($($id:ident = $name:literal, $unit:ident, $help:literal;)*) => {
        $(const $id: Metric = Metric { name: $name, unit: Unit::$unit, help: $help };)*
        /// All that there are.
        pub(crate) const METRICS: &[Metric] = &[$($id),*];
    };
}

metrics! {
    STARTED = "cmwq_workqueue_items_started_total", Total,
        "Work items whose function was entered";
    COMPLETED = "cmwq_workqueue_items_completed_total", Total,
        "Work items whose function has returned";
    CANCELLED = "cmwq_workqueue_items_cancelled_total", Total,
        "Work items that were cancelled before they ran";
    IN_FLIGHT = "cmwq_workqueue_items_in_flight", Count,
        "Work items that are running now";
    QUEUED = "cmwq_workqueue_items_queued", Count,
        "Work items that wait now: queued, and their function not yet entered";
    WAITING_FOR_LIMIT = "cmwq_workqueue_items_waiting_for_limit", Count,
        "Of the queued work items, those that wait because max_active are in execution";
    CPU_SECONDS = "cmwq_workqueue_cpu_seconds_total", Seconds,
        "CPU time that work items used; grows as a counter does";
    CPU_INTENSIVE = "cmwq_workqueue_cpu_intensive_total", Total,
        "Work items that hogged the CPU and made room for others";
    CM_WAKEUPS = "cmwq_workqueue_cm_wakeups_total", Total,
        "Workers woken because a worker blocked or hogged the CPU";
    REPATRIATED = "cmwq_workqueue_repatriated_total", Total,
        "Workers that were sent back to their affinity pod";
    MAYDAY = "cmwq_workqueue_mayday_total", Total, "Calls for the rescuer";
    RESCUED = "cmwq_workqueue_rescued_total", Total, "Work items that the rescuer ran";
    MAX_ACTIVE = "cmwq_workqueue_max_active", Count,
        "How many work items may be in execution at once; 0 when the workqueue is gone";
    WORKERS = "cmwq_pool_workers", Count, "Workers of the pool, idle and busy";
    IDLE = "cmwq_pool_idle_workers", Count, "Workers of the pool that wait for work";
    RUNNING = "cmwq_pool_running_workers", Count,
        "Workers of the pool that run an item and are neither blocked nor CPU-intensive";
    FAILURES = "cmwq_worker_creation_failures_total", Total,
        "Worker threads that the system refused to create";
}

/// What tells things of one name apart.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// Tells all numbers as of now; none, before the library was used.
pub(crate) fn measure(mut tell: impl FnMut(Metric, &Labels, Value)) {
    let Some(process) = Process::existing() else { return };
    let (runtime, mut totals) = (process.runtime, lock(&process.totals));
    totals.take_in(runtime.users_wqs());
    for (name, total) in &totals.by_name {
        report(name, total, &mut tell);
    }
    for pool in runtime.pools() {
        let spec = pool.spec();
        let cpus = match pool.kind {
            // It has no workers.
            PoolKind::Bh(_) => continue,
            _ => spec.pod.to_string(),
        };
        let labels = vec![
            ("pool", pool.id.0.to_string()),
            ("cpus", cpus),
            ("nice", spec.priority.nice.to_string()),
        ];
        let [workers, idle, running] = pool.headcount();
        for (metric, count) in [(WORKERS, workers), (IDLE, idle), (RUNNING, running)] {
            tell(metric, &labels, Value::Integer(count.into()));
        }
    }
    // ORDERING: no pairing: a counter.
    let failures = runtime.nr_creation_failures.load(Ordering::Relaxed);
    tell(FAILURES, &Labels::new(), Value::Integer(failures));
}

/// Reports the numbers of all queues called `name`.
fn report(name: &str, total: &Total, tell: &mut impl FnMut(Metric, &Labels, Value)) {
    let labels = vec![("workqueue", name.to_owned())];
    let sum = &total.sum;
    for (metric, number) in [
        (STARTED, sum.started),
        (COMPLETED, sum.completed),
        (CANCELLED, sum.cancelled),
        (IN_FLIGHT, sum.started.saturating_sub(sum.completed)),
        (QUEUED, total.waiting.queued),
        (WAITING_FOR_LIMIT, total.waiting.for_limit),
        (CPU_INTENSIVE, sum.cpu_intensive),
        (CM_WAKEUPS, sum.cm_wakeup),
        (REPATRIATED, sum.repatriated),
        (MAYDAY, sum.mayday),
        (RESCUED, sum.rescued),
        (MAX_ACTIVE, total.max_active.into()),
    ] {
        tell(metric, &labels, Value::Integer(number));
    }
    tell(CPU_SECONDS, &labels, Value::Fraction(sum.cpu_time as f64 / 1e6));
}

/// All numbers in the text format that Prometheus reads.
pub(crate) fn text() -> String {
    let mut samples = Vec::new();
    measure(|metric, labels, value| samples.push((metric.name, sample(metric, labels, value))));
    let mut text = String::new();
    for Metric { name, unit, help } in METRICS {
        let kind = if *unit == Unit::Count { "gauge" } else { "counter" };
        let of_it = samples.iter().filter(|(of, _)| of == name).map(|(_, sample)| sample.as_str());
        let mut of_it: Vec<_> = of_it.collect();
        if !of_it.is_empty() {
            of_it.sort_unstable();
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{}", of_it.concat());
        }
    }
    text
}

/// One line.
fn sample(metric: Metric, labels: &Labels, value: Value) -> String {
    let mut line = metric.name.to_owned();
    for (index, (name, text)) in labels.iter().enumerate() {
        line.push(if index == 0 { '{' } else { ',' });
        let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(line, "{name}=\"{text}\"");
    }
    if !labels.is_empty() {
        line.push('}');
    }
    let _ = match value {
        Value::Integer(number) => writeln!(line, " {number}"),
        Value::Fraction(number) => writeln!(line, " {number}"),
    };
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_one_line_whatever_the_queue_is_called() {
        let labels = vec![("workqueue", "a \"b\\\nc".to_owned()), ("nice", "-20".to_owned())];
        let line = sample(WORKERS, &labels, Value::Integer(3));
        assert_eq!(line, "cmwq_pool_workers{workqueue=\"a \\\"b\\\\\\nc\",nice=\"-20\"} 3\n");
        assert_eq!(sample(RUNNING, &Labels::new(), Value::Fraction(0.5)).lines().count(), 1);
    }
}
