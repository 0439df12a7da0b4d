//! The search: breadth first, so that the first history that breaks something is a shortest one.
//!
//! States are known by the fingerprints of their values. Of each, its predecessor and the event
//! that led to it are kept, so a history can be read backwards; and where *fair* events lead, for
//! [`crate::progress`]. States of one level are expanded in parallel, in batches, and numbered in
//! their order, so a search finds the same whatever the number of threads.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cmwq_core::Rule;

use crate::event::Event;
use crate::progress;
use crate::scope::Scope;
use crate::stand::{Expansion, Stand, Successor};

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Stop after so many states.
    pub states: usize,
    /// Stop when the states take so many bytes, about.
    pub bytes: usize,
    /// Stop after so long.
    pub time: Duration,
    /// Threads that search.
    pub threads: usize,
    /// A rule that is not kept.
    pub without: Option<Rule>,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { states: usize::MAX, bytes: 8 << 30, time: Duration::MAX, threads, without: None }
    }
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How many states there are, as far as the search went.
    pub states: usize,
    /// How many events led from one to another.
    pub transitions: u64,
    /// The longest of the shortest histories.
    pub depth: usize,
    /// There are no others.
    pub is_complete: bool,
    /// How long it took.
    pub time: Duration,
    /// What went wrong, after which history.
    pub violation: Option<Violation>,
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What.
    pub what: String,
    /// A shortest history that leads there.
    pub history: Vec<Event>,
}

/// How far a search has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// States so far.
    pub states: usize,
    /// The present level.
    pub depth: usize,
    /// States of it that are yet to be expanded.
    pub left: usize,
    /// Bytes that the search has for its states, about.
    pub bytes: usize,
    /// Since the beginning.
    pub time: Duration,
}

/// LIMIT: so many states are expanded before their successors are looked up.
const BATCH: usize = 1 << 14;

/// Fingerprints are random enough.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are looked up");
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

type Known = HashMap<u64, u32, BuildHasherDefault<Same>>;

/// The states that were found.
#[derive(Default)]
pub(crate) struct States {
    known: Known,
    /// Predecessor and event.
    came: Vec<(u32, Option<Event>)>,
    /// From, to.
    pub(crate) fair: Vec<(u32, u32)>,
    /// Those from which nothing more is asked: all is done, or they are not looked at.
    pub(crate) ends: Vec<u32>,
}

impl States {
    pub(crate) fn len(&self) -> usize {
        self.came.len()
    }

    fn add(&mut self, hash: u64, from: u32, event: Option<Event>) -> (u32, bool) {
        let next = u32::try_from(self.came.len()).expect("more states than can be numbered");
        let number = *self.known.entry(hash).or_insert(next);
        if number == next {
            self.came.push((from, event));
        }
        (number, number == next)
    }

    pub(crate) fn history(&self, mut state: u32) -> Vec<Event> {
        let mut history = Vec::new();
        while let (from, Some(event)) = self.came[state as usize] {
            history.push(event);
            state = from;
        }
        history.reverse();
        history
    }

    fn bytes(&self) -> usize {
        self.known.capacity() * (size_of::<(u64, u32)>() + 1)
            + self.came.capacity() * size_of::<(u32, Option<Event>)>()
            + self.fair.capacity() * size_of::<(u32, u32)>()
    }
}

/// What one state led to, in short.
struct Found {
    from: u32,
    successors: Vec<Successor>,
    violation: Option<(Event, String)>,
}

/// Searches a scope.
///
/// # Panics
/// If the scope is too large to be named, or memory runs out.
#[must_use]
pub fn search(scope: &Scope, limits: &Limits, tell: &mut dyn FnMut(Progress)) -> Outcome {
    crate::value::assert_fits(scope);
    Search { scope, limits, begun: Instant::now(), transitions: 0 }.run(tell)
}

struct Search<'a> {
    scope: &'a Scope,
    limits: &'a Limits,
    begun: Instant,
    transitions: u64,
}

impl Search<'_> {
    fn run(&mut self, tell: &mut dyn FnMut(Progress)) -> Outcome {
        let mut states = States::default();
        let (mut depth, mut level) = (0, vec![0_u32]);
        match Stand::new(self.scope, self.limits.without).read() {
            Ok(hash) => _ = states.add(hash, 0, None),
            Err(what) => return self.outcome(&states, 0, false, Some((what, Vec::new()))),
        }
        while !level.is_empty() {
            let mut next = Vec::new();
            for (n, batch) in level.chunks(BATCH).enumerate() {
                if self.has_to_stop(&states) {
                    let unseen = level[n * BATCH..].iter().chain(&next);
                    states.ends.extend(unseen);
                    let stuck = progress::stuck(&states).map(|at| self.stuck(&states, at));
                    return self.outcome(&states, depth, false, stuck);
                }
                let left = level.len() - n * BATCH;
                let (known, bytes) = (states.len(), states.bytes());
                tell(Progress { states: known, depth, left, bytes, time: self.begun.elapsed() });
                for found in self.expand(batch, &states) {
                    let from = found.from;
                    if let Some((event, what)) = self.take(found, &mut states, &mut next) {
                        let mut history = states.history(from);
                        history.push(event);
                        return self.outcome(&states, depth + 1, false, Some((what, history)));
                    }
                }
            }
            level = next;
            depth += usize::from(!level.is_empty());
        }
        let stuck = progress::stuck(&states).map(|at| self.stuck(&states, at));
        self.outcome(&states, depth, true, stuck)
    }

    fn has_to_stop(&self, states: &States) -> bool {
        states.len() >= self.limits.states
            || states.bytes() >= self.limits.bytes
            || self.begun.elapsed() >= self.limits.time
    }

    fn stuck(&self, states: &States, at: u32) -> (String, Vec<Event>) {
        let what = "no fair continuation leads to an end: something that waits never happens";
        (what.to_owned(), states.history(at))
    }

    /// Expands states, on all threads, in their order.
    fn expand(&self, batch: &[u32], states: &States) -> Vec<Found> {
        let next = AtomicUsize::new(0);
        let threads = self.limits.threads.clamp(1, 1 + batch.len() / 16);
        let work = || {
            let mut stand = Stand::new(self.scope, self.limits.without);
            let (mut found, mut expansion) = (Vec::new(), Expansion::default());
            loop {
                // ORDERING: no pairing: each number goes to one thread.
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some(&from) = batch.get(n) else { return found };
                stand.expand(&states.history(from), &mut expansion);
                found.push((n, Found::new(from, &mut expansion)));
            }
        };
        let mut found: Vec<(usize, Found)> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut found = work();
            for other in others {
                found.extend(other.join().expect("a searching thread panicked"));
            }
            found
        });
        found.sort_unstable_by_key(|(n, _)| *n);
        found.into_iter().map(|(_, found)| found).collect()
    }

    /// Numbers what was found. Returns what went wrong.
    fn take(
        &mut self,
        found: Found,
        states: &mut States,
        next: &mut Vec<u32>,
    ) -> Option<(Event, String)> {
        self.transitions += found.successors.len() as u64;
        for successor in found.successors {
            let (number, is_new) = states.add(successor.hash, found.from, Some(successor.event));
            if is_new {
                next.push(number);
                if successor.is_done {
                    states.ends.push(number);
                }
            }
            if successor.is_fair && number != found.from {
                states.fair.push((found.from, number));
            }
        }
        found.violation
    }

    fn outcome(
        &self,
        states: &States,
        depth: usize,
        is_complete: bool,
        broken: Option<(String, Vec<Event>)>,
    ) -> Outcome {
        Outcome {
            states: states.len(),
            transitions: self.transitions,
            depth,
            is_complete,
            time: self.begun.elapsed(),
            violation: broken.map(|(what, history)| Violation { what, history }),
        }
    }
}

impl Found {
    fn new(from: u32, expansion: &mut Expansion) -> Self {
        Self {
            from,
            successors: expansion.successors.clone(),
            violation: expansion.violation.take(),
        }
    }
}
