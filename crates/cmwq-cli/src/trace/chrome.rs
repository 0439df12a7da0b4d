//! The trace event format that Perfetto and chrome://tracing read, written as it comes.
//!
//! Groups of tracks: the *process* with a track per thread (what it runs, blocked within that, and
//! what it queues), *CPUs* (what runs there; a blocked item is not there), *queues* (the runs of
//! each queue's items, side by side), and counters (items waiting per queue, workers running per
//! pool). Arrows lead from queueing to running: both slices name the same `bind_id`.
//!
//! Times are microseconds of `CLOCK_MONOTONIC`, with three decimals.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::mem;

use cmwq::trace::{ANY_CPU, Kind};
use serde::Serialize;

use super::lanes::Lanes;
use super::merge::Timed;
use super::running::{Run, Running, Segment, Step};
use super::{End, Sink, Subject};

/// The groups that are not processes have ids that no process has.
const CPUS: u32 = 1 << 22 | 1;
const QUEUES: u32 = CPUS + 1;
const COUNTERS: u32 = CPUS + 2;
/// A queue or CPU has so many lanes at most: further spans would lie in one another.
const LANES: u64 = 1 << 12;
/// Counters are written no more often: 0.2 ms.
const COUNTER_NS: u64 = 200_000;

/// See the module header.
pub(super) struct Chrome<W> {
    out: W,
    is_begun: bool,
    running: Running,
    named: HashSet<(u32, u64)>,
    cpus: HashMap<u16, Lanes>,
    queues: HashMap<u32, Lanes>,
    /// Where what runs is, by thread and item: a thread may run one within another.
    placed: HashMap<(u32, u64), Placed>,
    waiting: HashMap<u32, Counter>,
    runners: HashMap<u32, Counter>,
    /// Those that are not what was written last. There may be many, which do not change.
    changed: Vec<Number>,
}

/// Which counter: of a queue, or of a pool.
#[derive(Clone, Copy, Debug)]
enum Number {
    Waiting(u32),
    Runners(u32),
}

/// The lanes of a run, and what its queue was called when it began.
struct Placed {
    cpu: u16,
    /// None while it is blocked.
    on_cpu: Option<usize>,
    wq: u32,
    in_queue: usize,
    queue: Box<str>,
}

/// A number that changes more often than one wants to know.
#[derive(Debug, Default)]
struct Counter {
    label: String,
    value: i64,
    written: Option<(u64, i64)>,
    is_listed: bool,
}

impl Counter {
    fn add(&mut self, change: i64, number: Number, changed: &mut Vec<Number>) {
        self.value += change;
        if !mem::replace(&mut self.is_listed, true) {
            changed.push(number);
        }
    }

    /// Whether it is to be written now.
    fn is_due(&self, now: u64, is_end: bool) -> bool {
        match self.written {
            None => self.value != 0,
            Some((at, value)) => value != self.value && (is_end || now >= at + COUNTER_NS),
        }
    }

    fn is_as_written(&self) -> bool {
        self.value == self.written.map_or(0, |(_, value)| value)
    }
}

#[derive(Serialize)]
struct Line<'a, A> {
    name: &'a str,
    ph: &'a str,
    ts: Micros,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<Micros>,
    pid: u32,
    tid: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bind_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_out: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_in: Option<bool>,
    args: A,
}

/// Nanoseconds, written as microseconds.
#[derive(Clone, Copy)]
struct Micros(u64);

impl Serialize for Micros {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        // A number with exactly these digits; a float would have others from 104 days of uptime on.
        let raw =
            serde_json::value::RawValue::from_string(text).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

#[derive(Serialize)]
struct QueueArgs<'a> {
    queue: &'a str,
    work: String,
    function: &'a str,
    pool: u32,
    cpu: Option<i32>,
}

#[derive(Serialize)]
struct RunArgs<'a> {
    queue: &'a str,
    work: String,
    pool: u32,
    cpu: u16,
    worker: u32,
    /// Microseconds from queueing to the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited: Option<Micros>,
    /// Microseconds that it had been running for when the trace began.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Micros>,
}

#[derive(Serialize)]
struct NoArgs {}

/// A slice, of which the rest is said by the caller.
fn slice<'a, A>(
    name: &'a str,
    (from, to): (u64, u64),
    (pid, tid): (u32, u64),
    args: A,
) -> Line<'a, A> {
    Line {
        name,
        ph: "X",
        ts: Micros(from),
        dur: Some(Micros(to - from)),
        pid,
        tid,
        s: None,
        bind_id: None,
        flow_out: None,
        flow_in: None,
        args,
    }
}

impl<W: Write> Chrome<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            is_begun: false,
            running: Running::default(),
            named: HashSet::new(),
            cpus: HashMap::new(),
            queues: HashMap::new(),
            placed: HashMap::new(),
            waiting: HashMap::new(),
            runners: HashMap::new(),
            changed: Vec::new(),
        }
    }

    fn write<A: Serialize>(&mut self, line: &Line<'_, A>) -> io::Result<()> {
        self.separate()?;
        serde_json::to_writer(&mut self.out, line).map_err(io::Error::from)
    }

    fn separate(&mut self) -> io::Result<()> {
        let front: &[u8] =
            if self.is_begun { b",\n" } else { b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" };
        self.is_begun = true;
        self.out.write_all(front)
    }

    /// Names a track, once.
    fn name(&mut self, (pid, tid): (u32, u64), name: impl FnOnce() -> String) -> io::Result<()> {
        if !self.named.insert((pid, tid)) {
            return Ok(());
        }
        let meta = |what: &str, tid, name: &str| {
            serde_json::json!({"name": what, "ph": "M", "pid": pid, "tid": tid,
            "args": {"name": name}})
        };
        let group = match pid {
            CPUS => Some("CPUs"),
            QUEUES => Some("queues"),
            COUNTERS => Some("counters"),
            _ => None,
        };
        let mut lines = vec![meta("thread_name", tid, &name())];
        if let Some(group) = group.filter(|_| self.named.insert((pid, u64::MAX))) {
            lines.push(meta("process_name", 0, group));
        }
        for line in lines {
            self.separate()?;
            serde_json::to_writer(&mut self.out, &line)?;
        }
        Ok(())
    }

    fn name_process(&mut self, subject: &Subject) -> io::Result<()> {
        if !self.named.insert((subject.pid, u64::MAX)) {
            return Ok(());
        }
        let name = if subject.name.is_empty() { "process" } else { &subject.name };
        let line = serde_json::json!({
            "name": "process_name", "ph": "M", "pid": subject.pid, "tid": 0, "args": {"name": name}
        });
        self.separate()?;
        serde_json::to_writer(&mut self.out, &line).map_err(io::Error::from)
    }

    // ---- runs

    /// Those whose ends were lost make room.
    fn make_room(&mut self) {
        for lost in self.running.take_lost() {
            if let Some(placed) = self.placed.remove(&key(&lost)) {
                self.leave(&placed);
                self.count_runner(&lost, -i64::from(placed.on_cpu.is_some()));
            }
        }
    }

    /// Counts and places a run that begins.
    fn start(&mut self, run: &Run, queue: &str) -> io::Result<()> {
        let on_cpu = Some(self.enter_cpu(run.cpu())?);
        let (in_queue, _) = self.queues.entry(run.wq).or_default().take();
        let (cpu, wq, queue) = (run.cpu(), run.wq, queue.into());
        self.placed.insert(key(run), Placed { cpu, on_cpu, wq, in_queue, queue });
        self.count_runner(run, 1);
        let waits = self.waiting.get_mut(&run.wq).filter(|_| run.queued.is_some());
        if let Some(counter) = waits {
            counter.add(-1, Number::Waiting(run.wq), &mut self.changed);
        }
        Ok(())
    }

    fn enter_cpu(&mut self, cpu: u16) -> io::Result<usize> {
        let (lane, is_new) = self.cpus.entry(cpu).or_default().take();
        if is_new {
            self.name(cpu_track(cpu, lane), || format!("CPU {cpu}"))?;
        }
        Ok(lane)
    }

    fn leave(&mut self, placed: &Placed) {
        self.leave_cpu(placed);
        if let Some(lanes) = self.queues.get_mut(&placed.wq) {
            lanes.give_back(placed.in_queue);
        }
    }

    fn leave_cpu(&mut self, placed: &Placed) {
        if let (Some(lane), Some(lanes)) = (placed.on_cpu, self.cpus.get_mut(&placed.cpu)) {
            lanes.give_back(lane);
        }
    }

    /// It blocks, or is back.
    fn turn(&mut self, subject: &mut Subject, run: &Run, segment: Segment) -> io::Result<()> {
        let Some(mut placed) = self.placed.remove(&key(run)) else { return Ok(()) };
        self.segment(subject, run, segment, &placed)?;
        self.leave_cpu(&placed);
        let is_back = !run.is_blocked();
        placed.on_cpu = if is_back { Some(self.enter_cpu(placed.cpu)?) } else { None };
        self.placed.insert(key(run), placed);
        self.count_runner(run, if is_back { 1 } else { -1 });
        Ok(())
    }

    fn segment(
        &mut self,
        subject: &mut Subject,
        run: &Run,
        segment: Segment,
        placed: &Placed,
    ) -> io::Result<()> {
        let span = (segment.from, segment.to);
        if segment.is_blocked {
            let track = (subject.pid, u64::from(run.tid));
            return self.write(&slice("blocked", span, track, NoArgs {}));
        }
        let name = subject.symbols.name(run.func);
        let track = cpu_track(segment.cpu, placed.on_cpu.unwrap_or(0));
        self.write(&slice(&name, span, track, run_args(run, &placed.queue)))
    }

    fn end_run(&mut self, subject: &mut Subject, run: &Run, segment: Segment) -> io::Result<()> {
        let Some(placed) = self.placed.remove(&key(run)) else { return Ok(()) };
        self.segment(subject, run, segment, &placed)?;
        self.leave(&placed);
        self.count_runner(run, -i64::from(!run.is_blocked()));
        let name = subject.symbols.name(run.func);
        let (span, track) = ((run.start, segment.to), (subject.pid, u64::from(run.tid)));
        let on_thread = Line {
            bind_id: run.queued.map(|queued| format!("{:#x}", queued.number)),
            flow_in: run.queued.map(|_| true),
            ..slice(&name, span, track, run_args(run, &placed.queue))
        };
        self.write(&on_thread)?;
        let track = queue_track(run.wq, placed.in_queue);
        self.name(track, || placed.queue.to_string())?;
        self.write(&slice(&name, span, track, run_args(run, &placed.queue)))
    }

    // ---- counters

    fn count_runner(&mut self, run: &Run, change: i64) {
        let counter = self.runners.entry(run.pool).or_insert_with(|| Counter {
            label: match run.pool_cpu {
                cpu @ 0.. => format!("running in pool {} (CPU {cpu})", run.pool),
                _ => format!("running in pool {}", run.pool),
            },
            ..Counter::default()
        });
        counter.add(change, Number::Runners(run.pool), &mut self.changed);
    }

    /// Writes counters that have changed, if it is time to.
    fn write_counters(&mut self, now: u64, is_end: bool) -> io::Result<()> {
        let mut lines = Vec::new();
        let (waiting, runners) = (&mut self.waiting, &mut self.runners);
        self.changed.retain(|number| {
            let counter = match number {
                Number::Waiting(wq) => waiting.get_mut(wq),
                Number::Runners(pool) => runners.get_mut(pool),
            };
            let Some(counter) = counter else { return false };
            if counter.is_due(now, is_end) {
                counter.written = Some((now, counter.value));
                lines.push((counter.label.clone(), counter.value));
            }
            counter.is_listed = !counter.is_as_written();
            counter.is_listed
        });
        for (label, value) in lines {
            self.name((COUNTERS, 0), || "counters".to_owned())?;
            let args = HashMap::from([("value", value)]);
            let line =
                Line { ph: "C", dur: None, ..slice(&label, (now, now), (COUNTERS, 0), args) };
            self.write(&line)?;
        }
        Ok(())
    }

    fn instant<A: Serialize>(
        &mut self,
        name: &str,
        ns: u64,
        track: (u32, u64),
        args: A,
    ) -> io::Result<()> {
        self.write(&Line { ph: "i", dur: None, s: Some("t"), ..slice(name, (ns, ns), track, args) })
    }

    fn queue_work(
        &mut self,
        subject: &mut Subject,
        event: &Timed<'_>,
        number: u64,
        queue: &str,
    ) -> io::Result<()> {
        let counter = self.waiting.entry(event.event.wq).or_default();
        if counter.label.is_empty() {
            counter.label = format!("waiting in {queue}");
        }
        counter.add(1, Number::Waiting(event.event.wq), &mut self.changed);
        let track = (subject.pid, u64::from(event.thread.tid));
        let function = subject.symbols.name(event.event.func);
        let line = Line {
            bind_id: Some(format!("{number:#x}")),
            flow_out: Some(true),
            // As short as may be: an arrow begins at a slice.
            ..slice(
                "queue_work",
                (event.ns, event.ns + 1),
                track,
                queue_args(event, queue, &function),
            )
        };
        self.write(&line)
    }
}

/// An item is in one run of a thread at a time.
fn key(run: &Run) -> (u32, u64) {
    (run.tid, run.work)
}

fn run_args<'a>(run: &Run, queue: &'a str) -> RunArgs<'a> {
    RunArgs {
        queue,
        work: format!("{:#x}", run.work),
        pool: run.pool,
        cpu: run.cpu(),
        worker: run.tid,
        waited: run.queued.map(|queued| Micros(run.start.saturating_sub(queued.ns))),
        before: (run.ago != 0).then_some(Micros(run.ago)),
    }
}

fn queue_args<'a>(event: &Timed<'_>, queue: &'a str, function: &'a str) -> QueueArgs<'a> {
    let cpu = event.event.requested_cpu;
    QueueArgs {
        queue,
        work: format!("{:#x}", event.event.work),
        function,
        pool: event.event.pool,
        cpu: (cpu != ANY_CPU).then_some(cpu),
    }
}

fn cpu_track(cpu: u16, lane: usize) -> (u32, u64) {
    (CPUS, u64::from(cpu) * LANES + (lane as u64).min(LANES - 1))
}

fn queue_track(wq: u32, lane: usize) -> (u32, u64) {
    (QUEUES, u64::from(wq) * LANES + (lane as u64).min(LANES - 1))
}

impl<W: Write> Sink for Chrome<W> {
    fn event(&mut self, subject: &mut Subject, event: &Timed<'_>) -> io::Result<()> {
        self.name_process(subject)?;
        let track = (subject.pid, u64::from(event.thread.tid));
        self.name(track, || event.thread.name.to_owned())?;
        let unnamed;
        let queue = match event.queue {
            Some(name) => name,
            None => {
                unnamed = format!("queue {}", event.event.wq);
                &unnamed
            }
        };
        let step = self.running.step(event);
        self.make_room();
        match step {
            Step::Queued(queued) => self.queue_work(subject, event, queued.number, queue)?,
            Step::Start(run) => self.start(&run, queue)?,
            Step::Turn(run, segment) => self.turn(subject, &run, segment)?,
            Step::End(run, segment) => self.end_run(subject, &run, segment)?,
            Step::Nothing => {}
        }
        match event.event.kind {
            Kind::ActivateWork => {
                let function = subject.symbols.name(event.event.func);
                self.instant(
                    "activate_work",
                    event.ns,
                    track,
                    queue_args(event, queue, &function),
                )?;
            }
            Kind::WorkerCreated | Kind::WorkerCulled => {
                self.instant(event.event.kind.name(), event.ns, track, NoArgs {})?;
            }
            Kind::CpuHog if self.running.is_running(event.event.tid) => {
                let track = (subject.pid, u64::from(event.event.tid));
                self.instant("cpu_hog", event.ns, track, NoArgs {})?;
            }
            Kind::Mayday => {
                self.instant("mayday", event.ns, track, queue_args(event, queue, ""))?;
            }
            _ => {}
        }
        self.write_counters(event.ns, false)
    }

    fn end(&mut self, subject: &mut Subject, end: End) -> io::Result<()> {
        for (run, segment) in self.running.rest(end.ns) {
            self.end_run(subject, &run, segment)?;
        }
        self.write_counters(self.running.now(), true)?;
        if !self.is_begun {
            self.separate()?;
        }
        let other = serde_json::json!({"producer": "cmwq trace", "lost_events": end.lost});
        write!(self.out, "\n],\"otherData\":{other}}}\n")?;
        self.out.flush()
    }
}
