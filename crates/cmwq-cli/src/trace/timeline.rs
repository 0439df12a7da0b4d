//! A trace as values, for pictures and scripts: lanes per CPU and per item, with spans.
//!
//! Unlike [`chrome`](super::chrome) this keeps everything in memory, so it is for traces that a picture can show.

use std::io::{self, Write};

use serde::Serialize;

use super::merge::Timed;
use super::running::{Run, Running, Segment, Step};
use super::{Sink, Subject};

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

/// Collects a timeline, and writes it as one JSON document.
pub(super) struct Collector<W> {
    out: W,
    running: Running,
    origin: Option<u64>,
    timeline: Timeline,
}

impl<W> Collector<W> {
    pub(super) fn new(out: W) -> Self {
        let timeline = Timeline::default();
        Self { out, running: Running::default(), origin: None, timeline }
    }

    fn add(&mut self, subject: &mut Subject, run: &Run, segment: Segment, queue: &str) {
        let origin = *self.origin.get_or_insert(run.start);
        let known = self
            .timeline
            .works
            .iter()
            .rposition(|work| work.address == run.work && work.queue == queue);
        let work = known.unwrap_or_else(|| {
            let function = subject.symbols.name(run.func).to_string();
            self.timeline.works.push(Work { address: run.work, function, queue: queue.to_owned() });
            self.timeline.works.len() - 1
        });
        let (from, to) = (segment.from.saturating_sub(origin), segment.to.saturating_sub(origin));
        self.timeline.end = self.timeline.end.max(to);
        if from < to {
            let is_blocked = segment.is_blocked;
            let span = Span { work, from, to, cpu: segment.cpu, worker: run.tid, is_blocked };
            self.timeline.spans.push(span);
        }
    }
}

impl<W: Write> Sink for Collector<W> {
    fn event(&mut self, subject: &mut Subject, event: &Timed<'_>) -> io::Result<()> {
        match self.running.step(event) {
            Step::Start(run) => {
                self.origin.get_or_insert(run.start);
            }
            Step::Turn(run, segment) | Step::End(run, segment) => {
                let queue = event.queue.unwrap_or_default();
                self.add(subject, &run, segment, queue);
            }
            Step::Queued(_) | Step::Nothing => {}
        }
        Ok(())
    }

    fn end(&mut self, subject: &mut Subject, _lost: u64) -> io::Result<()> {
        for (run, segment) in self.running.rest() {
            self.add(subject, &run, segment, "");
        }
        serde_json::to_writer(&mut self.out, &self.timeline)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }
}
