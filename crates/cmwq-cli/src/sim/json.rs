//! What came of the seeds, as JSON.

use cmwq_sim::Report;
use serde::Serialize;

use super::runs::Total;

#[derive(Serialize)]
struct Document {
    seeds: u64,
    items: u64,
    events: u64,
    virtual_s: f64,
    elapsed_s: f64,
    complaints: Vec<Complaint>,
}

#[derive(Serialize)]
struct Complaint {
    seed: u64,
    checker: &'static str,
    at_ns: u64,
    message: String,
    replay: String,
}

/// One document and a newline.
pub(super) fn write(total: &Total, again: impl Fn(&Report) -> String) -> String {
    let complaint = |report: &Report| {
        let violation = report.violation()?;
        Some(Complaint {
            seed: report.seed,
            checker: violation.checker,
            at_ns: violation.at,
            message: violation.message.clone(),
            replay: again(report),
        })
    };
    let document = Document {
        seeds: total.seeds,
        items: total.items,
        events: total.events,
        virtual_s: total.virtual_ns as f64 / 1e9,
        elapsed_s: total.elapsed.as_secs_f64(),
        complaints: total.complaints.iter().filter_map(complaint).collect(),
    };
    let mut text = serde_json::to_string(&document).expect("numbers and strings are valid JSON");
    text.push('\n');
    text
}
