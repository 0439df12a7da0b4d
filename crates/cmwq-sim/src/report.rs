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
    /// Those of them that were pushed into a pool's inbox, without its lock.
    pub pushed: u64,
    /// Items that a worker began behind another one, without its pool's lock.
    pub taken_along: u64,
    /// Steps that the simulation took.
    pub steps: u64,
    /// Events that the checkers saw.
    pub events: u64,
    /// Pools that were used.
    pub pools: u64,
    /// Workers that were created.
    pub workers: u64,
}

/// What it cost that managed pods help each other. Must not depend on how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Helping {
    /// Items that were queued, started or blocked, workers that were made, went idle or came back,
    /// CPUs that left or returned, and ticks.
    pub occasions: u64,
    /// Pools that flushes of queues went to. Each may look whether others could help, no more.
    pub flushed: u64,
    /// Pods of others that were looked at.
    pub visits: u64,
    /// Words of the board that were read.
    pub reads: u64,
    /// Words of the board that were written.
    pub writes: u64,
}

impl Helping {
    /// Whether each occasion cost no more than it may.
    #[must_use]
    pub const fn is_bounded(&self) -> bool {
        self.visits <= 4 * self.occasions
            && self.reads <= 16 * self.occasions + 8 * self.flushed
            && self.writes <= 6 * self.occasions
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Calls of the plan.
    pub nr_calls: u64,
    /// Those that were made.
    pub nr_called: u64,
    /// Queueings that wait or run.
    pub outstanding: u64,
}

/// What the real structures of a run would take in memory at its end, in bytes: the pools, workers
/// and pwqs of the core, and the items. What a driver keeps around them (locks, threads and their
/// stacks) is not counted, nor is the simulator's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Pools, without what is below.
    pub pools: u64,
    /// Records of the workers that are left.
    pub workers: u64,
    /// Pwqs.
    pub pwqs: u64,
    /// How many.
    pub nr_pwqs: u64,
    /// Work items, with their timers.
    pub items: u64,
}

impl Memory {
    /// What does not depend on the number of items.
    #[must_use]
    pub const fn structures(&self) -> u64 {
        self.pools + self.workers + self.pwqs
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Equal plans under equal configurations have equal digests.
    pub digest: Digest,
    /// The first complaint, at which the run stopped.
    pub violation: Option<Violation>,
    /// Counts.
    pub stats: Stats,
    /// When the run ended, in virtual nanoseconds.
    pub end: Nanos,
    /// When the last item ended. What follows is idle workers leaving.
    pub last_item: Nanos,
    /// What the real structures would take.
    pub memory: Memory,
    /// What it cost that pods help each other.
    pub helping: Helping,
    /// Everything that happened, if [`Config::keep_events`](crate::Config::keep_events) asked for
    /// it.
    pub events: Vec<Event>,
    /// The last things that happened.
    pub recent: VecDeque<Event>,
}
