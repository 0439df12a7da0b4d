//! A timeline ready to be shown: its spans, its scale, its names.

use cmwq_sim::{Scenario, Timeline};

use super::spans::{self, Span};

/// See the module header.
#[derive(Debug)]
pub(super) struct Chart<'a> {
    pub(super) title: String,
    pub(super) scenario: &'a Scenario,
    pub(super) timeline: &'a Timeline,
    pub(super) spans: Vec<Span>,
}

impl<'a> Chart<'a> {
    pub(super) fn new(title: String, scenario: &'a Scenario, timeline: &'a Timeline) -> Self {
        let spans = spans::of(timeline, scenario.works.len());
        Self { title, scenario, timeline, spans }
    }

    pub(super) fn work_name(&self, work: usize) -> &'a str {
        &self.scenario.works[work].name
    }

    /// The CPUs on which anything happened.
    pub(super) fn cpus(&self) -> Vec<u32> {
        let mut cpus: Vec<_> = self.timeline.events.iter().map(|event| event.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// The distance between marks that makes `most` marks or fewer: 1, 2 or 5 times a power of ten.
    pub(super) fn scale(&self, most: u64) -> u64 {
        let needed = self.timeline.makespan.div_ceil(most).max(1);
        let mut power = 1;
        loop {
            if let Some(step) =
                [1, 2, 5].map(|n| n * power).into_iter().find(|&step| step >= needed)
            {
                return step;
            }
            power *= 10;
        }
    }
}

/// Nanoseconds as milliseconds, as a number.
pub(super) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Nanoseconds as milliseconds without needless zeros.
pub(super) fn short_ms(ns: u64) -> String {
    let text = format!("{:.6}", ms(ns));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round() {
        let scenario = cmwq_sim::named::find("doc-max3").unwrap();
        let check = |makespan, most, step| {
            let timeline = Timeline { events: Vec::new(), makespan };
            assert_eq!(Chart::new(String::new(), &scenario, &timeline).scale(most), step);
        };
        check(25_000_000, 60, 500_000);
        check(60, 60, 1);
        check(61, 60, 2);
        check(0, 60, 1);
        check(35_000_000, 10, 5_000_000);
    }

    #[test]
    fn milliseconds_are_short() {
        assert_eq!(short_ms(5_000_000), "5");
        assert_eq!(short_ms(500), "0.0005");
        assert_eq!(short_ms(0), "0");
    }
}
