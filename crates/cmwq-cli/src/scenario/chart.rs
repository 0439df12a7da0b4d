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
}
