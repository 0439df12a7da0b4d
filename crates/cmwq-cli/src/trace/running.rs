//! Who runs what: events in, spans out.
//!
//! A run is an item's stay on a thread, from `execute_start` to `execute_end`. It consists of
//! segments: running, and blocked where somebody noticed. Runs of one thread may lie in one
//! another: who is no worker, and runs an item himself (`Workqueue::run`), may do so again in
//! there.
//!
//! What lacks its start is left out. What lacks its end is ended with the trace; or, where it is
//! seen before that the end was lost, it is no run at all: see [`Running::take_lost`].

use std::collections::HashMap;

use cmwq::trace::Kind;

use super::merge::{Thread, Timed};

/// LIMIT: items that were queued and not started. More are possible only of items that are
/// cancelled.
const MAX_QUEUED: usize = 1 << 20;
/// LIMIT: runs of one thread in one another. More are mostly such as lack their ends.
const MAX_NESTED: usize = 64;

/// An item on a thread.
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
    /// By thread, the innermost last.
    runs: HashMap<u32, Vec<Run>>,
    lost: Vec<Run>,
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
                self.begin(run.clone(), may_nest(&event.thread));
                Step::Start(run)
            }
            Kind::ExecuteEnd => match self.end(&event.thread, e.work) {
                Some(run) => {
                    let segment = run.segment(ns);
                    Step::End(run, segment)
                }
                None => Step::Nothing,
            },
            Kind::WorkerBlocked => self.turn(e.tid, ns, true),
            Kind::WorkerResumed => self.turn(e.tid, ns, false),
            _ => Step::Nothing,
        }
    }

    /// Those of the thread's runs that cannot go on beside this one have lacked their ends: all of
    /// a worker's, and those from one of the same item on, which is never in two runs.
    fn begin(&mut self, run: Run, may_nest: bool) {
        let runs = self.runs.entry(run.tid).or_default();
        let same = runs.iter().position(|other| other.work == run.work);
        let stay = if may_nest { same.unwrap_or(runs.len()) } else { 0 };
        self.lost.extend(runs.drain(stay..));
        if runs.len() == MAX_NESTED {
            self.lost.push(runs.remove(0));
        }
        runs.push(run);
    }

    /// The thread's run of this item is over. Those within it have lacked their ends; so has what a
    /// worker ran before something else, whose start was lost.
    fn end(&mut self, thread: &Thread<'_>, work: u64) -> Option<Run> {
        let runs = self.runs.get_mut(&thread.tid)?;
        let at = runs.iter().rposition(|run| run.work == work);
        let is_over = if may_nest(thread) { runs.len() } else { 0 };
        self.lost.extend(runs.drain(at.map_or(is_over, |at| at + 1)..));
        at.and_then(|_| runs.pop())
    }

    /// Runs whose ends are known to be lost, since this was last asked: nobody knows how long they
    /// were.
    pub(super) fn take_lost(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.lost)
    }

    fn turn(&mut self, tid: u32, ns: u64, is_blocked: bool) -> Step {
        let innermost = self.runs.get_mut(&tid).and_then(|runs| runs.last_mut());
        let Some(run) = innermost.filter(|run| run.is_blocked != is_blocked) else {
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
        let mut runs: Vec<_> = self.runs.drain().flat_map(|(_, runs)| runs).collect();
        runs.sort_by_key(|run| (run.start, run.tid));
        runs.into_iter().map(|run| (run.clone(), run.segment(now))).collect()
    }

    /// The last time there is.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Whether the worker runs something that the trace has.
    pub(super) fn is_running(&self, tid: u32) -> bool {
        self.queues(tid).next().is_some()
    }

    /// The queues of what the thread runs.
    pub(super) fn queues(&self, tid: u32) -> impl Iterator<Item = u32> {
        self.runs.get(&tid).into_iter().flatten().map(|run| run.wq)
    }
}

/// Whether a run may begin there within another one. Workers never do that: they have these names,
/// in traces also without what they work on. Nor is anything known of threads that are not known.
fn may_nest(thread: &Thread<'_>) -> bool {
    let is_known = thread.tid != 0;
    is_known && !thread.name.starts_with("kworker/") && !thread.name.starts_with("cmwq/")
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

    /// In a worker.
    fn step(running: &mut Running, ns: u64, tid: u32, kind: Kind, about: u64) -> Step {
        step_in(running, ns, Thread { tid, name: "kworker/0:1" }, kind, about)
    }

    fn step_in(running: &mut Running, ns: u64, thread: Thread<'_>, kind: Kind, about: u64) -> Step {
        let event = event(kind, about);
        running.step(&Timed { ns, thread, event: &event, queue: Some("q"), ago: 0 })
    }

    /// By its item.
    fn ended(step: Step) -> (u64, Segment) {
        match step {
            Step::End(run, segment) => (run.work, segment),
            other => panic!("no end: {other:?}"),
        }
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

    /// `outer.run(|| inner.run(…))`
    #[test]
    fn runs_of_a_thread_lie_in_one_another() {
        let mut running = Running::default();
        let main = Thread { tid: 7, name: "main" };
        let mut step =
            |ns: u64, kind: Kind, about: u64| step_in(&mut running, ns, main, kind, about);
        assert!(matches!(step(10, Kind::ExecuteStart, 0x10), Step::Start(_)));
        assert!(matches!(step(20, Kind::ExecuteStart, 0x20), Step::Start(_)));
        let turn = step(22, Kind::WorkerBlocked, 7);
        assert!(matches!(turn, Step::Turn(run, _) if run.work == 0x20));
        let inner = (0x20, Segment { from: 22, to: 30, cpu: 1, is_blocked: true });
        assert_eq!(ended(step(30, Kind::ExecuteEnd, 0x20)), inner);
        assert_eq!(ended(step(40, Kind::ExecuteEnd, 0x10)), (0x10, segment(10, 40, false)));
        assert!(running.take_lost().is_empty() && running.rest(50).is_empty());
    }

    #[test]
    fn a_thread_that_lacks_ends_has_no_runs_from_them() {
        let mut running = Running::default();
        let main = Thread { tid: 7, name: "main" };
        let mut step =
            |ns: u64, kind: Kind, about: u64| step_in(&mut running, ns, main, kind, about);
        let _ = step(10, Kind::ExecuteStart, 0x10);
        let _ = step(20, Kind::ExecuteStart, 0x20);
        assert_eq!(ended(step(30, Kind::ExecuteEnd, 0x10)), (0x10, segment(10, 30, false)));
        let _ = step(40, Kind::ExecuteStart, 0x30);
        // The same item again: it has been over.
        let _ = step(50, Kind::ExecuteStart, 0x30);
        let lost = |running: &mut Running| -> Vec<_> {
            running.take_lost().iter().map(|run| (run.work, run.start)).collect()
        };
        assert_eq!(lost(&mut running), [(0x20, 20), (0x30, 40)]);
        for depth in 0..2 * MAX_NESTED as u64 {
            let _ = step_in(&mut running, 60, main, Kind::ExecuteStart, 0x1000 + depth);
        }
        assert_eq!(lost(&mut running).len(), MAX_NESTED + 1);
        assert_eq!(running.rest(70).len(), MAX_NESTED);
    }
}
