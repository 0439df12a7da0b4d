//! The timeline of a scenario: what its works did when.

use std::collections::HashMap;

use crate::Nanos;
use crate::config::Config;
use crate::event::{Event, What};
use crate::plan::Plan;
use crate::report::Violation;
use crate::scenario::Scenario;
use crate::simulate;

/// What a work did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// Its function was entered.
    Start,
    /// It began to sleep.
    Sleep,
    /// It had a CPU again.
    Wake,
    /// Its function returned.
    Finish,
}

impl Moment {
    /// The name it has in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Sleep => "sleep",
            Self::Wake => "wake",
            Self::Finish => "finish",
        }
    }
}

/// One entry of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineEvent {
    /// When, counted from the first start.
    pub t: Nanos,
    /// Which work, as an index into [`Scenario::works`].
    pub work: usize,
    /// What it did.
    pub what: Moment,
    /// On which CPU.
    pub cpu: u32,
    /// Which worker, counted from 1 in the order in which they first appear.
    pub worker: usize,
}

/// What the works of a scenario did, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The entries.
    pub events: Vec<TimelineEvent>,
    /// From the first start to the last finish.
    pub makespan: Nanos,
}

impl Timeline {
    /// Sorts what was recorded, counts time from the first start and workers from 1.
    #[must_use]
    pub fn new(mut events: Vec<TimelineEvent>) -> Self {
        events.sort_by_key(|event| event.t);
        let starts = events.iter().filter(|event| event.what == Moment::Start);
        let first = starts.map(|event| event.t).min().unwrap_or(0);
        let mut seen = HashMap::new();
        for event in &mut events {
            event.t -= first;
            let next = seen.len() + 1;
            event.worker = *seen.entry(event.worker).or_insert(next);
        }
        let makespan = events.iter().map(|event| event.t).max().unwrap_or(0);
        Self { events, makespan }
    }
}

/// Simulates a scenario on a machine where nothing costs anything and nothing goes wrong.
///
/// # Errors
/// A checker's complaint, which would be a mistake in the core or in the simulator.
pub fn run_scenario(scenario: &Scenario) -> Result<Timeline, Violation> {
    run_scenario_under(scenario, &Config::exact(scenario.cpus))
}

/// Simulates a scenario under other conditions. The number of CPUs is that of `config`.
///
/// # Errors
/// A checker's complaint.
pub fn run_scenario_under(scenario: &Scenario, config: &Config) -> Result<Timeline, Violation> {
    let config = Config { keep_events: true, ..config.clone() };
    let outcome = simulate(&Plan::from(scenario), &config);
    if let Some(violation) = outcome.violation {
        return Err(violation);
    }
    Ok(Timeline::new(outcome.events.iter().filter_map(entry).collect()))
}

fn entry(event: &Event) -> Option<TimelineEvent> {
    let (what, queueing, runner) = match event.what {
        What::Started(queueing, _, runner) => (Moment::Start, queueing, runner),
        What::Slept(queueing, runner) => (Moment::Sleep, queueing, runner),
        What::Woke(queueing, runner) => (Moment::Wake, queueing, runner),
        What::Finished(queueing, runner) => (Moment::Finish, queueing, runner),
        _ => return None,
    };
    Some(TimelineEvent {
        t: event.t,
        work: queueing.item,
        what,
        cpu: runner.cpu,
        worker: runner.worker,
    })
}
