//! From what the rings hold to one sequence of events with times, threads and queues' names.
//!
//! A round empties all rings, so what comes in later rounds is younger than its beginning: but for
//! what a thread had stamped and not yet written. So what is older than the beginning of the round
//! *before* the last is handed on, in order; the rest waits. An event that is later than that is
//! handed on when it comes. Memory is what two rounds bring.

use std::collections::HashMap;
use std::io;

use cmwq::foreign::harmless;
use cmwq::trace::{Event, Kind, Record, Tick, WORDS, unpack};

use super::Subject;

/// LIMIT: the last time of a trace, in 146 years of uptime: so that times can be added to.
const MAX_NS: u64 = 1 << 62;
/// LIMIT: threads, queues and functions, of each, whose names are remembered.
const MAX_NAMED: usize = 1 << 18;

/// An event with all that is known about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed<'a> {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) ns: u64,
    /// The thread that it happened in.
    pub(super) thread: Thread<'a>,
    pub(super) event: &'a Event,
    /// The name of its queue, if it is about one whose name is known.
    pub(super) queue: Option<&'a str>,
    /// How long before, in nanoseconds, it really was: of what ran already when the trace began.
    pub(super) ago: u64,
}

/// A thread of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread<'a> {
    pub(super) tid: u32,
    pub(super) name: &'a str,
}

impl Timed<'_> {
    /// It is about a worker that runs something: whether that is wanted is known by what it runs.
    pub(super) fn is_of_running_worker(&self) -> bool {
        matches!(self.event.kind, Kind::WorkerBlocked | Kind::WorkerResumed | Kind::CpuHog)
    }
}

/// Takes an event.
pub(super) type Take<'a> = dyn FnMut(&mut Subject, &Timed<'_>) -> io::Result<()> + 'a;

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Merge {
    /// Who writes each ring: an index into `threads`.
    writers: Vec<usize>,
    threads: Vec<(u32, String)>,
    functions: HashMap<u64, Vec<u8>>,
    newly_told: Vec<u64>,
    by_tid: HashMap<u32, usize>,
    names: HashMap<u32, QueueName>,
    waiting: Vec<Waiting>,
    ticks: Vec<Tick>,
}

#[derive(Debug)]
struct Waiting {
    stamp: u64,
    thread: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    Event(Event),
    Name { wq: u32, at: (usize, usize), part: Vec<u8> },
}

#[derive(Debug, Default)]
struct QueueName {
    bytes: Vec<u8>,
    text: String,
}

impl Merge {
    pub(super) fn new() -> Self {
        // Thread 0 stands for those that have not said who they are.
        Self { threads: vec![(0, String::new())], ..Self::default() }
    }

    /// Six words from a ring. Words that say nothing are passed over.
    pub(super) fn push(&mut self, ring: u32, words: &[u64; WORDS]) {
        let ring = ring as usize;
        if self.writers.len() <= ring {
            self.writers.resize(ring + 1, 0);
        }
        for record in unpack(words) {
            self.take_in(ring, record);
        }
    }

    fn take_in(&mut self, ring: usize, record: Record) {
        let thread = self.writers[ring];
        let waiting = match record {
            Record::Thread { tid, name } => {
                self.writers[ring] = self.thread(tid, harmless(&name).into_owned());
                return;
            }
            Record::Event(event) => {
                Waiting { stamp: event.stamp, thread, what: What::Event(event) }
            }
            Record::QueueName { stamp, wq, at, part } => {
                Waiting { stamp, thread, what: What::Name { wq, at, part } }
            }
            Record::FunctionName { func, at, part } => {
                if self.functions.len() < MAX_NAMED || self.functions.contains_key(&func) {
                    set_part(self.functions.entry(func).or_default(), at, &part);
                    self.newly_told.push(func);
                }
                return;
            }
        };
        self.waiting.push(waiting);
    }

    fn thread(&mut self, tid: u32, name: String) -> usize {
        if self.threads.len() >= MAX_NAMED && !self.by_tid.contains_key(&tid) {
            return 0;
        }
        let index = *self.by_tid.entry(tid).or_insert(self.threads.len());
        if index == self.threads.len() {
            self.threads.push((tid, name));
        } else {
            // Another one has got the number.
            self.threads[index].1 = name;
        }
        index
    }

    /// A round that began then is over: hands on what is old enough.
    pub(super) fn round(
        &mut self,
        begin: Tick,
        subject: &mut Subject,
        take: &mut Take<'_>,
    ) -> io::Result<()> {
        if self.ticks.last().is_some_and(|last| begin.ticks <= last.ticks) {
            return Ok(());
        }
        self.ticks.push(begin);
        if self.ticks.len() < 2 {
            return Ok(());
        }
        let limit = self.ticks[self.ticks.len() - 2].ticks;
        self.hand_on(limit, subject, take)?;
        // Three are enough to tell the time of all that may come.
        if self.ticks.len() > 3 {
            self.ticks.remove(0);
        }
        Ok(())
    }

    /// There are no more rounds: hands on the rest. When the last one began.
    pub(super) fn end(&mut self, subject: &mut Subject, take: &mut Take<'_>) -> io::Result<u64> {
        self.hand_on(u64::MAX, subject, take)?;
        Ok(self.ticks.last().map_or(0, |tick| tick.ns.min(MAX_NS)))
    }

    fn hand_on(
        &mut self,
        limit: u64,
        subject: &mut Subject,
        take: &mut Take<'_>,
    ) -> io::Result<()> {
        for func in self.newly_told.drain(..) {
            // A part may still be missing, until the next round.
            let name = String::from_utf8_lossy(&self.functions[&func]);
            subject.symbols.is_told(func, &name);
        }
        let mut ready = std::mem::take(&mut self.waiting);
        // Stable: what is in one ring stays in its order.
        ready.sort_by_key(|waiting| waiting.stamp);
        let end = ready.partition_point(|waiting| waiting.stamp < limit);
        self.waiting.extend(ready.drain(end..));
        for Waiting { stamp, thread, what } in ready {
            match what {
                What::Name { wq, at, part } => self.set_name(wq, at, &part),
                What::Event(event) => {
                    let (tid, name) = &self.threads[thread];
                    let queue = self.names.get(&event.wq).map(|name| &*name.text);
                    let thread = Thread { tid: *tid, name };
                    let ns = self.ns_of(stamp);
                    take(subject, &Timed { ns, thread, event: &event, queue, ago: 0 })?;
                }
            }
        }
        Ok(())
    }

    fn set_name(&mut self, wq: u32, at: (usize, usize), part: &[u8]) {
        if self.names.len() >= MAX_NAMED && !self.names.contains_key(&wq) {
            return;
        }
        let name = self.names.entry(wq).or_default();
        set_part(&mut name.bytes, at, part);
        name.text = harmless(&String::from_utf8_lossy(&name.bytes)).into_owned();
    }

    /// When it was, between the first and the last time there may be.
    fn ns_of(&self, stamp: u64) -> u64 {
        self.line_at(stamp).min(MAX_NS)
    }

    /// Along the line through the two times that are nearest.
    fn line_at(&self, stamp: u64) -> u64 {
        let (a, b) = match self.ticks[..] {
            [] | [_] => {
                return self
                    .ticks
                    .first()
                    .map_or(stamp, |tick| tick.ns.wrapping_add(stamp.wrapping_sub(tick.ticks)));
            }
            [a, b] => (a, b),
            [.., a, b, c] => {
                if stamp < b.ticks {
                    (a, b)
                } else {
                    (b, c)
                }
            }
        };
        let (ticks, ns) = (i128::from(b.ticks - a.ticks), i128::from(b.ns) - i128::from(a.ns));
        let since = i128::from(stamp) - i128::from(a.ticks);
        // A file may say anything.
        let ns = i128::from(a.ns).saturating_add(since.saturating_mul(ns) / ticks);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// Puts a part of a name where it belongs.
fn set_part(name: &mut Vec<u8>, (at, len): (usize, usize), part: &[u8]) {
    if at == 0 {
        // It may be another name.
        name.clear();
    }
    name.resize(len, b' ');
    if let Some(place) = name.get_mut(at..at + part.len()) {
        place.copy_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Symbols;

    fn subject() -> Subject {
        Subject { pid: 1, name: "p".into(), symbols: Symbols::of_file() }
    }

    /// Words of an event of kind 2, queue 3.
    fn words(stamp: u64) -> [u64; WORDS] {
        [stamp, 2, 3, 0x10, 0x20, 0]
    }

    fn tick(ticks: u64) -> Tick {
        // Half a nanosecond each, from 1 s on.
        Tick { ticks, ns: 1_000_000_000 + ticks / 2 }
    }

    #[test]
    fn events_of_several_rings_come_in_the_order_of_their_times() {
        let (mut merge, mut subject, mut seen) = (Merge::new(), subject(), Vec::new());
        let mut take = |_: &mut Subject, event: &Timed<'_>| {
            seen.push((event.ns - 1_000_000_000, event.thread.tid));
            Ok(())
        };
        let thread = |tid: u64| [0, 10, tid | 1 << 32, u64::from(b'x'), 0, 0];
        merge.push(0, &thread(7));
        merge.push(1, &thread(8));
        merge.round(tick(0), &mut subject, &mut take).unwrap();
        for (ring, stamp) in [(0, 100), (0, 400), (1, 200), (1, 300)] {
            merge.push(ring, &words(stamp));
        }
        merge.round(tick(250), &mut subject, &mut take).unwrap();
        // Stamped before the round began, and written after it.
        merge.push(1, &words(220));
        merge.round(tick(1000), &mut subject, &mut take).unwrap();
        merge.push(0, &words(2000));
        merge.end(&mut subject, &mut take).unwrap();
        assert_eq!(seen, [(50, 7), (100, 8), (110, 8), (150, 8), (200, 7), (1000, 7)]);
    }

    #[test]
    fn what_one_record_tells_comes_in_order() {
        let (mut merge, mut subject, mut seen) = (Merge::new(), subject(), Vec::new());
        let mut take = |_: &mut Subject, event: &Timed<'_>| {
            seen.push((event.event.kind, event.event.work));
            Ok(())
        };
        // The item before ends, and this one becomes active and begins, at the same moment.
        merge.push(0, &[7, 3, 3, 0x10, 0x20, 0]);
        merge.push(0, &[7, 2 | 1 << 8, 3, 0x11, 0x20, 0]);
        merge.push(0, &[9, 3, 3, 0x11, 0x20, 0]);
        merge.end(&mut subject, &mut take).unwrap();
        let (end, begin) = (Kind::ExecuteEnd, Kind::ExecuteStart);
        assert_eq!(seen, [(end, 0x10), (Kind::ActivateWork, 0x11), (begin, 0x11), (end, 0x11)]);
    }

    #[test]
    fn times_that_cannot_be_are_times() {
        let (mut merge, mut subject, mut seen) = (Merge::new(), subject(), Vec::new());
        let mut take = |_: &mut Subject, event: &Timed<'_>| {
            seen.push(event.ns);
            Ok(())
        };
        for (ticks, ns) in [(0, u64::MAX), (1, 0), (2, u64::MAX)] {
            merge.round(Tick { ticks, ns }, &mut subject, &mut take).unwrap();
        }
        merge.push(0, &words(u64::MAX - 1));
        merge.end(&mut subject, &mut take).unwrap();
        assert_eq!(seen, [MAX_NS]);
    }

    #[test]
    fn a_queue_is_called_what_it_was_called_then() {
        let (mut merge, mut subject, mut seen) = (Merge::new(), subject(), Vec::new());
        let mut take = |_: &mut Subject, event: &Timed<'_>| {
            seen.push(event.queue.map(str::to_owned));
            Ok(())
        };
        let name =
            |stamp: u64, name: &[u8; 8]| [stamp, 11, 3 | 8 << 32, u64::from_le_bytes(*name), 0, 0];
        merge.push(0, &words(1));
        merge.push(0, &name(2, b"queue-00"));
        merge.push(0, &words(3));
        merge.push(1, &name(4, b"queue-01"));
        merge.push(0, &words(5));
        merge.end(&mut subject, &mut take).unwrap();
        assert_eq!(seen, [None, Some("queue-00".to_owned()), Some("queue-01".to_owned())]);
    }

    #[test]
    fn words_without_sense_are_passed_over() {
        let (mut merge, mut subject) = (Merge::new(), subject());
        let mut count = 0;
        for kind in 12..=255 {
            merge.push(0, &[1, kind, u64::MAX, u64::MAX, u64::MAX, u64::MAX]);
        }
        merge.push(0, &[u64::MAX, 2, 0, 0, 0, 0]);
        let mut take = |_: &mut Subject, _: &Timed<'_>| {
            count += 1;
            Ok(())
        };
        merge.round(tick(10), &mut subject, &mut take).unwrap();
        merge.round(tick(5), &mut subject, &mut take).unwrap();
        merge.round(tick(20), &mut subject, &mut take).unwrap();
        merge.end(&mut subject, &mut take).unwrap();
        assert_eq!(count, 0, "a stamp from the end of time is younger than all");
    }
}
