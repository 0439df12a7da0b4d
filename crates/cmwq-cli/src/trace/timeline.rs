//! A trace as values, for pictures and scripts: items and their spans.
//!
//! Unlike [`chrome`](super::chrome) this keeps everything in memory, so it is for traces, or parts
//! of traces, that a picture can show.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;

use serde::Serialize;

use super::merge::Timed;
use super::running::{Run, Running, Segment, Step};
use super::{End, Sink, Subject};

/// What happened between two times, in nanoseconds from the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Timeline {
    /// Items in the order of their first starts.
    pub(crate) works: Vec<Work>,
    /// In the order of their ends.
    pub(crate) spans: Vec<Span>,
    /// The last time.
    pub(crate) end: u64,
}

/// An item: an address that a queue's functions were called with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Work {
    pub(crate) address: u64,
    pub(crate) function: String,
    pub(crate) queue: String,
}

/// A piece of a run of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Span {
    /// Index into [`Timeline::works`].
    pub(crate) work: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) cpu: u16,
    /// The worker's thread.
    pub(crate) worker: u32,
    /// It slept, or waited for something; otherwise it computed, or waited for the CPU.
    pub(crate) is_blocked: bool,
}

impl Timeline {
    /// From the order of their first ends to that of their first starts.
    fn sort_works(&mut self) {
        let mut first = vec![u64::MAX; self.works.len()];
        for span in &self.spans {
            first[span.work] = first[span.work].min(span.from);
        }
        let mut order: Vec<usize> = (0..self.works.len()).collect();
        order.sort_by_key(|&work| first[work]);
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &work)| place[work] = at);
        self.spans.iter_mut().for_each(|span| span.work = place[span.work]);
        self.works = order.iter().map(|&work| self.works[work].clone()).collect();
    }
}

/// Makes a timeline of what comes.
#[derive(Debug)]
pub(super) struct Collector {
    /// Only what is within these times from the first one.
    window: Range<u64>,
    running: Running,
    origin: Option<u64>,
    /// What queues are called: an event about a worker does not say it.
    queues: HashMap<u32, String>,
    works: HashMap<(u64, String), usize>,
    timeline: Timeline,
}

impl Collector {
    pub(super) fn new(window: Range<u64>) -> Self {
        Self {
            window,
            running: Running::default(),
            origin: None,
            queues: HashMap::new(),
            works: HashMap::new(),
            timeline: Timeline::default(),
        }
    }

    pub(super) fn event(&mut self, subject: &mut Subject, event: &Timed<'_>) {
        let step = self.running.step(event);
        // Here they take no room.
        self.running.take_lost();
        match step {
            Step::Start(run) => {
                self.origin.get_or_insert(run.start);
                let queue = event.queue.unwrap_or_default();
                if self.queues.get(&run.wq).is_none_or(|known| known != queue) {
                    self.queues.insert(run.wq, queue.to_owned());
                }
            }
            Step::Turn(run, segment) | Step::End(run, segment) => self.add(subject, &run, segment),
            Step::Queued(_) | Step::Nothing => {}
        }
    }

    /// After the last event.
    pub(super) fn finish(&mut self, subject: &mut Subject, end: End) -> Timeline {
        for (run, segment) in self.running.rest(end.ns) {
            self.add(subject, &run, segment);
        }
        let mut timeline = std::mem::take(&mut self.timeline);
        timeline.sort_works();
        timeline
    }

    fn add(&mut self, subject: &mut Subject, run: &Run, segment: Segment) {
        let origin = *self.origin.get_or_insert(run.start);
        let (from, to) = (segment.from.saturating_sub(origin), segment.to.saturating_sub(origin));
        self.timeline.end = self.timeline.end.max(to);
        if to <= self.window.start || from >= self.window.end {
            return;
        }
        let queue = self.queues.get(&run.wq).map_or("", |name| name);
        let works = &mut self.timeline.works;
        let work = *self.works.entry((run.work, queue.to_owned())).or_insert_with(|| {
            let function = subject.symbols.name(run.func).to_string();
            works.push(Work { address: run.work, function, queue: queue.to_owned() });
            works.len() - 1
        });
        if from < to {
            let is_blocked = segment.is_blocked;
            let span = Span { work, from, to, cpu: segment.cpu, worker: run.tid, is_blocked };
            self.timeline.spans.push(span);
        }
    }
}

/// Writes a timeline as one JSON document.
pub(super) struct Spans<W> {
    out: W,
    collector: Collector,
}

impl<W> Spans<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, collector: Collector::new(0..u64::MAX) }
    }
}

impl<W: Write> Sink for Spans<W> {
    fn event(&mut self, subject: &mut Subject, event: &Timed<'_>) -> io::Result<()> {
        self.collector.event(subject, event);
        Ok(())
    }

    fn end(&mut self, subject: &mut Subject, end: End) -> io::Result<()> {
        let timeline = self.collector.finish(subject, end);
        serde_json::to_writer(&mut self.out, &timeline)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }
}
