//! A timeline in the trace event format that Perfetto and chrome://tracing read.
//!
//! Two groups of lanes: *works*, each with what it does, and *CPUs*, each with the work that
//! computes on it.

use serde::Serialize;
use serde_json::{Value, json};

use super::chart::Chart;
use super::spans::{Doing, Span};

const WORKS: u32 = 1;
const CPUS: u32 = 2;

/// A complete event (`"ph": "X"`); times in microseconds.
#[derive(Serialize)]
struct Slice<'a> {
    name: &'a str,
    cat: &'static str,
    ph: &'static str,
    ts: f64,
    dur: f64,
    pid: u32,
    tid: u64,
    args: Value,
}

/// One document and a newline.
pub(super) fn write(chart: &Chart<'_>) -> String {
    let mut events = names(chart);
    for span in &chart.spans {
        events.push(slice(chart, span, WORKS, span.work as u64, span.doing.name()));
        if span.doing == Doing::Burn {
            let name = chart.work_name(span.work);
            events.push(slice(chart, span, CPUS, u64::from(span.cpu), name));
        }
    }
    let document = json!({
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": { "title": chart.title },
    });
    format!("{document}\n")
}

fn slice(chart: &Chart<'_>, span: &Span, pid: u32, tid: u64, name: &str) -> Value {
    let us = |ns: u64| ns as f64 / 1e3;
    let slice = Slice {
        name,
        cat: span.doing.name(),
        ph: "X",
        ts: us(span.from),
        dur: us(span.to - span.from),
        pid,
        tid,
        args: json!({
            "work": chart.work_name(span.work),
            "cpu": span.cpu,
            "worker": span.worker,
        }),
    };
    serde_json::to_value(slice).expect("numbers and strings are valid JSON")
}

/// What the lanes are called, and their order.
fn names(chart: &Chart<'_>) -> Vec<Value> {
    let meta = |what: &str, pid: u32, tid: u64, name: &str| {
        json!({"name": what, "ph": "M", "pid": pid, "tid": tid,
            "args": {"name": name}})
    };
    let mut names =
        vec![meta("process_name", WORKS, 0, "works"), meta("process_name", CPUS, 0, "CPUs")];
    for work in 0..chart.scenario.works.len() {
        names.push(meta("thread_name", WORKS, work as u64, chart.work_name(work)));
    }
    for cpu in chart.cpus() {
        names.push(meta("thread_name", CPUS, u64::from(cpu), &format!("CPU {cpu}")));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq_sim::{named, run_scenario};

    #[test]
    fn slices_of_works_and_cpus() {
        let scenario = named::find("doc-max1").unwrap();
        let timeline = run_scenario(&scenario).unwrap();
        let chart = Chart::new("doc-max1, simulated".into(), &scenario, &timeline);
        let document: Value = serde_json::from_str(&write(&chart)).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        // Seven spans of works, of which four compute and so appear on the CPU as well.
        assert_eq!(slices.len(), 7 + 4);
        let sleep = slices.iter().find(|slice| slice["cat"] == "sleep").unwrap();
        assert_eq!((&sleep["ts"], &sleep["dur"]), (&json!(5_000.0), &json!(10_000.0)));
        let cpu: f64 = slices
            .iter()
            .filter(|slice| slice["pid"] == CPUS)
            .filter_map(|slice| slice["dur"].as_f64())
            .sum();
        assert!((cpu - 20_000.0).abs() < 1e-9, "20 ms are burnt in all, not {cpu} us");
    }
}
