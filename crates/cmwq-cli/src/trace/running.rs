//! Who runs what: events in, spans out.
//!
//! A run is an item's stay on a worker, from `execute_start` to `execute_end`. It consists of
//! segments: running, and blocked where somebody noticed. What lacks its start is left out; what
//! lacks its end is ended when the worker runs something else, or with the trace.

use std::collections::HashMap;

use cmwq::trace::Kind;

use super::merge::Timed;

/// LIMIT: items that were queued and not started. More are possible only of items that are
/// cancelled.
const MAX_QUEUED: usize = 1 << 20;

/// An item on a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) tid: u32,
    pub(super) work: u64,
    pub(super) func: u64,
    pub(super) wq: u32,
    pub(super) pool: u32,
    pub(super) pool_cpu: i32,
    pub(super) start: u64,
    /// How long before that it really began, of what ran already when the trace began.
    pub(super) ago: u64,
    /// When it was queued, and the number of that event, if the trace has it.
    pub(super) queued: Option<Queued>,
    cpu: u16,
    segment_start: u64,
    is_blocked: bool,
}

/// An item was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) number: u64,
    pub(super) ns: u64,
}

/// A part of a run that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) cpu: u16,
    pub(super) is_blocked: bool,
}

/// What an event means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing for the picture.
    Nothing,
    Queued(Queued),
    /// A run begins, running.
    Start(Run),
    /// A segment is over and the run goes on, in the other state.
    Turn(Run, Segment),
    /// The run is over, and its last segment.
    End(Run, Segment),
}

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Running {
    runs: HashMap<u32, Run>,
    queued: HashMap<u64, Queued>,
    count: u64,
    now: u64,
}

impl Running {
    pub(super) fn step(&mut self, event: &Timed<'_>) -> Step {
        self.now = self.now.max(event.ns);
        let (ns, e) = (event.ns, event.event);
        match e.kind {
            Kind::QueueWork => {
                if self.queued.len() >= MAX_QUEUED {
                    self.queued.clear();
                }
                self.count += 1;
                let queued = Queued { number: self.count, ns };
                self.queued.insert(e.work, queued);
                Step::Queued(queued)
            }
            Kind::ExecuteStart => {
                let run = Run {
                    tid: event.thread.tid,
                    work: e.work,
                    func: e.func,
                    wq: e.wq,
                    pool: e.pool,
                    pool_cpu: e.pool_cpu,
                    start: ns,
                    ago: event.ago,
                    queued: self.queued.remove(&e.work),
                    cpu: e.cpu,
                    segment_start: ns,
                    is_blocked: false,
                };
                // One whose end was lost makes room.
                self.runs.insert(run.tid, run.clone());
                Step::Start(run)
            }
            Kind::ExecuteEnd => match self.runs.remove(&event.thread.tid) {
                Some(run) if run.work == e.work => {
                    let segment = run.segment(ns);
                    Step::End(run, segment)
                }
                _ => Step::Nothing,
            },
            Kind::WorkerBlocked => self.turn(e.tid, ns, true),
            Kind::WorkerResumed => self.turn(e.tid, ns, false),
            _ => Step::Nothing,
        }
    }

    fn turn(&mut self, tid: u32, ns: u64, is_blocked: bool) -> Step {
        let Some(run) = self.runs.get_mut(&tid).filter(|run| run.is_blocked != is_blocked) else {
            return Step::Nothing;
        };
        let segment = run.segment(ns);
        run.is_blocked = is_blocked;
        run.segment_start = segment.to;
        Step::Turn(run.clone(), segment)
    }

    /// What still runs when the trace ends, ended then.
    pub(super) fn rest(&mut self, end: u64) -> Vec<(Run, Segment)> {
        self.now = self.now.max(end);
        let now = self.now;
        let mut runs: Vec<_> = self.runs.drain().map(|(_, run)| run).collect();
        runs.sort_by_key(|run| (run.start, run.tid));
        runs.into_iter().map(|run| (run.clone(), run.segment(now))).collect()
    }

    /// The last time there is.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Whether the worker runs something that the trace has.
    pub(super) fn is_running(&self, tid: u32) -> bool {
        self.runs.contains_key(&tid)
    }
}

impl Run {
    fn segment(&self, to: u64) -> Segment {
        let to = to.max(self.segment_start);
        Segment { from: self.segment_start, to, cpu: self.cpu, is_blocked: self.is_blocked }
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    pub(super) fn cpu(&self) -> u16 {
        self.cpu
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::trace::merge::Thread;
    use cmwq::trace::{ANY_CPU, Event};

    /// An event in thread `tid`, about item `about` or, for a worker's event, worker `about`.
    pub(in crate::trace) fn event(kind: Kind, about: u64) -> Event {
        let is_worker = matches!(kind, Kind::WorkerBlocked | Kind::WorkerResumed | Kind::CpuHog);
        Event {
            stamp: 0,
            kind,
            cpu: 1,
            pool: 2,
            wq: 3,
            requested_cpu: ANY_CPU,
            work: if is_worker { 0 } else { about },
            func: 0x40,
            tid: if is_worker { about as u32 } else { 0 },
            pool_cpu: 1,
        }
    }

    fn step(running: &mut Running, ns: u64, tid: u32, kind: Kind, about: u64) -> Step {
        let event = event(kind, about);
        let thread = Thread { tid, name: "t" };
        running.step(&Timed { ns, thread, event: &event, queue: Some("q"), ago: 0 })
    }

    fn segment(from: u64, to: u64, is_blocked: bool) -> Segment {
        Segment { from, to, cpu: 1, is_blocked }
    }

    #[test]
    fn a_run_that_blocks_has_three_segments() {
        let mut running = Running::default();
        assert!(matches!(
            step(&mut running, 5, 1, Kind::QueueWork, 0x10),
            Step::Queued(Queued { number: 1, ns: 5 })
        ));
        let Step::Start(run) = step(&mut running, 10, 7, Kind::ExecuteStart, 0x10) else {
            panic!("it starts")
        };
        assert_eq!(run.queued, Some(Queued { number: 1, ns: 5 }));
        let turn = step(&mut running, 20, 9, Kind::WorkerBlocked, 7);
        assert!(matches!(turn, Step::Turn(_, s) if s == segment(10, 20, false)));
        assert_eq!(step(&mut running, 22, 9, Kind::WorkerBlocked, 7), Step::Nothing, "again");
        let turn = step(&mut running, 30, 9, Kind::WorkerResumed, 7);
        assert!(matches!(turn, Step::Turn(_, s) if s == segment(20, 30, true)));
        let end = step(&mut running, 35, 7, Kind::ExecuteEnd, 0x10);
        assert!(matches!(end, Step::End(_, s) if s == segment(30, 35, false)));
        assert!(running.rest(40).is_empty());
    }

    #[test]
    fn what_lacks_its_other_end_is_left_out_or_ended_with_the_trace() {
        let mut running = Running::default();
        assert_eq!(step(&mut running, 1, 7, Kind::ExecuteEnd, 0x10), Step::Nothing);
        assert_eq!(step(&mut running, 1, 9, Kind::WorkerBlocked, 7), Step::Nothing);
        let _ = step(&mut running, 2, 7, Kind::ExecuteStart, 0x10);
        // The end of that was lost.
        let _ = step(&mut running, 3, 7, Kind::ExecuteStart, 0x20);
        assert_eq!(step(&mut running, 4, 7, Kind::ExecuteEnd, 0x10), Step::Nothing);
        let _ = step(&mut running, 5, 7, Kind::ExecuteStart, 0x30);
        let _ = step(&mut running, 9, 1, Kind::QueueWork, 0x40);
        let rest = running.rest(12);
        assert_eq!(rest.len(), 1);
        assert_eq!((rest[0].0.work, rest[0].1), (0x30, segment(5, 12, false)));
    }
}
