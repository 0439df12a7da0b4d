//! A timeline as JSON.

use serde::Serialize;

use super::chart::Chart;
use crate::picture::ms;

#[derive(Serialize)]
struct Document<'a> {
    events: Vec<Event<'a>>,
    makespan_ms: f64,
}

#[derive(Serialize)]
struct Event<'a> {
    t_ms: f64,
    work: &'a str,
    event: &'static str,
    cpu: u32,
    worker: usize,
}

/// One document and a newline.
pub(super) fn write(chart: &Chart<'_>) -> String {
    let events = chart.timeline.events.iter().map(|event| Event {
        t_ms: ms(event.t),
        work: chart.work_name(event.work),
        event: event.what.name(),
        cpu: event.cpu,
        worker: event.worker,
    });
    let document = Document { events: events.collect(), makespan_ms: ms(chart.timeline.makespan) };
    let mut text = serde_json::to_string(&document).expect("numbers and strings are valid JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq_sim::{named, run_scenario};

    #[test]
    fn the_documented_form() {
        let scenario = named::find("doc-max3").unwrap();
        let timeline = run_scenario(&scenario).unwrap();
        let text = write(&Chart::new(String::new(), &scenario, &timeline));
        let first = concat!(
            r#"{"events":[{"t_ms":0.0,"work":"w0","event":"start","cpu":0,"#,
            r#""worker":1},{"t_ms":5.0,"#
        );
        assert!(text.starts_with(first), "{text}");
        assert!(text.ends_with("],\"makespan_ms\":25.0}\n"), "{text}");
    }
}
