//! What came of a run.

use std::collections::VecDeque;
use std::fmt;

use crate::Nanos;
use crate::event::{Digest, Event};

/// A checker's complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Whose.
    pub checker: &'static str,
    /// When, in virtual nanoseconds.
    pub at: Nanos,
    /// What.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ns: {}", self.checker, self.at, self.message)
    }
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items queued, delayed ones and repetitions included.
    pub queued: u64,
    /// Steps that the simulation took.
    pub steps: u64,
    /// Events that the checkers saw.
    pub events: u64,
    /// Pools that were used.
    pub pools: u64,
    /// Workers that were created.
    pub workers: u64,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Equal plans under equal configurations have equal digests.
    pub digest: Digest,
    /// The first complaint, at which the run stopped.
    pub violation: Option<Violation>,
    /// Counts.
    pub stats: Stats,
    /// When the run ended, in virtual nanoseconds.
    pub end: Nanos,
    /// Everything that happened, if [`Config::keep_events`](crate::Config::keep_events) asked for
    /// it.
    pub events: Vec<Event>,
    /// The last things that happened.
    pub recent: VecDeque<Event>,
}
