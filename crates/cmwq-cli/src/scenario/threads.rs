//! A scenario on real threads: the same works on real queues, their moments noted as they happen.
//!
//! `burn` burns CPU time of the worker, not wall time; `sleep` sleeps, and says so to nobody:
//! noticing it is the runtime's task. Each work notes its moments in memory of its own, made before
//! anything is queued, so that the noting neither blocks nor allocates.

use std::thread;
use std::time::{Duration, Instant};

use cmwq::{Builder, JoinHandle, Workqueue};
use cmwq_sim::scenario::{Flag, QueueSpec, WorkSpec};
use cmwq_sim::script::Step;
use cmwq_sim::{Moment, Scenario, Timeline, TimelineEvent};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::exit;

/// Runs the scenario; the error comes with the exit code.
///
/// Restricts the whole process to the scenario's CPUs, so it must come before anything else uses a
/// queue.
pub(super) fn run(scenario: &Scenario) -> Result<Timeline, (u8, String)> {
    let wrong = |message: String| (exit::FAILED, message);
    let cpus = restrict(scenario.cpus).map_err(wrong)?;
    let queues = scenario.workqueues.iter().map(open).collect::<Result<Vec<_>, _>>();
    let queues = queues.map_err(|message| (exit::NO_RESULT, message))?;
    let handles = queue_all(scenario, &queues, &cpus);
    let mut events = Vec::new();
    for (work, handle) in handles {
        let name = &scenario.works[work].name;
        let noted =
            handle.join().map_err(|_| (exit::NO_RESULT, format!("work '{name}' was lost")))?;
        events.extend(noted.into_iter().map(|note| TimelineEvent {
            t: note.t,
            work,
            what: note.what,
            cpu: index_of(note.cpu, &cpus),
            worker: note.thread,
        }));
    }
    Ok(Timeline::new(events))
}

/// Confines the process to the first `wanted` CPUs that it may use; which they are.
fn restrict(wanted: u32) -> Result<Vec<u32>, String> {
    let allowed = sched_getaffinity(None)
        .map_err(|error| format!("cannot tell which CPUs this process may use: {error}"))?;
    let usable = (0..CpuSet::MAX_CPU as u32).filter(|&cpu| allowed.is_set(cpu as usize));
    let cpus: Vec<u32> = usable.take(wanted as usize).collect();
    if cpus.len() < wanted as usize {
        return Err(format!(
            "the scenario wants {wanted} CPUs, this process may use {}: run it with --on sim",
            cpus.len()
        ));
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu as usize));
    sched_setaffinity(None, &set)
        .map_err(|error| format!("cannot confine the process to CPUs {cpus:?}: {error}"))?;
    Ok(cpus)
}

/// The number that the scenario has for a CPU of the machine.
fn index_of(cpu: u32, cpus: &[u32]) -> u32 {
    (0..).zip(cpus).find(|(_, other)| **other == cpu).map_or(cpu, |(index, _)| index)
}

/// The queue that `spec` describes. `freezable` changes nothing that a scenario could show.
fn open(spec: &QueueSpec) -> Result<Workqueue, String> {
    let has = |flag| spec.flags.has(flag);
    let mut builder = kind(Workqueue::builder(&spec.name), spec);
    if has(Flag::Highpri) {
        builder = builder.highpri();
    }
    if has(Flag::CpuIntensive) {
        builder = builder.cpu_intensive();
    }
    if has(Flag::MemReclaim) {
        builder = builder.mem_reclaim();
    }
    if spec.max_active != 0 && !has(Flag::Ordered) {
        builder = builder.max_active(spec.max_active);
    }
    builder.build().map_err(|error| error.to_string())
}

fn kind(builder: Builder, spec: &QueueSpec) -> Builder {
    if spec.flags.has(Flag::Bh) {
        builder.bh()
    } else if spec.flags.has(Flag::Ordered) {
        builder.ordered()
    } else if spec.flags.has(Flag::Managed) {
        builder.managed()
    } else if spec.flags.has(Flag::Unbound) {
        builder.unbound()
    } else {
        builder.percpu()
    }
}

/// A moment as a worker notes it.
#[derive(Debug)]
struct Note {
    t: u64,
    what: Moment,
    cpu: u32,
    thread: usize,
}

/// A work's program and its notes.
struct Performer {
    script: Vec<Step>,
    notes: Vec<Note>,
    origin: Instant,
}

impl Performer {
    fn new(work: &WorkSpec, origin: Instant) -> Self {
        let notes = Vec::with_capacity(2 + 2 * work.script.len());
        Self { script: work.script.clone(), notes, origin }
    }

    fn perform(mut self) -> Vec<Note> {
        self.note(Moment::Start);
        for step in std::mem::take(&mut self.script) {
            match step {
                Step::Burn(ns) => burn(Duration::from_nanos(ns)),
                Step::Sleep(ns) => {
                    self.note(Moment::Sleep);
                    thread::sleep(Duration::from_nanos(ns));
                    self.note(Moment::Wake);
                }
            }
        }
        self.note(Moment::Finish);
        self.notes
    }

    fn note(&mut self, what: Moment) {
        let t = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let thread = gettid().as_raw_nonzero().get().unsigned_abs() as usize;
        self.notes.push(Note { t, what, cpu: sched_getcpu() as u32, thread });
    }
}

/// Uses so much CPU time of the calling thread.
fn burn(time: Duration) {
    let used = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
    };
    let end = used() + time;
    while used() < end {
        for _ in 0..100 {
            std::hint::spin_loop();
        }
    }
}

type Handles = Vec<(usize, JoinHandle<Vec<Note>>)>;

/// Queues every work at its time.
fn queue_all(scenario: &Scenario, queues: &[Workqueue], cpus: &[u32]) -> Handles {
    let mut order: Vec<usize> = (0..scenario.works.len()).collect();
    order.sort_by_key(|&work| scenario.works[work].at_ns);
    let mut handles = Vec::with_capacity(order.len());
    let origin = Instant::now();
    let performers: Vec<_> =
        order.iter().map(|&work| Performer::new(&scenario.works[work], origin)).collect();
    let begin = Instant::now();
    for (work, performer) in order.into_iter().zip(performers) {
        let spec = &scenario.works[work];
        let at = Duration::from_nanos(spec.at_ns);
        thread::sleep(at.saturating_sub(begin.elapsed()));
        let (queue, cpu) = (&queues[spec.workqueue], spec.cpu.map(|cpu| cpus[cpu as usize]));
        let delay = Duration::from_nanos(spec.delay_ns);
        let work_function = move || performer.perform();
        let handle = match (cpu, spec.delay_ns) {
            (None, 0) => queue.queue(work_function),
            (Some(cpu), 0) => queue.queue_on(cpu, work_function),
            (None, _) => queue.queue_delayed(work_function, delay),
            (Some(cpu), _) => queue.queue_delayed_on(cpu, work_function, delay),
        };
        handles.push((work, handle));
    }
    handles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_performance_is_noted_in_order() {
        let script = vec![Step::Burn(1_000), Step::Sleep(1_000), Step::Sleep(1_000)];
        let work = WorkSpec { script, ..WorkSpec::default() };
        let notes = Performer::new(&work, Instant::now()).perform();
        let what: Vec<_> = notes.iter().map(|note| note.what).collect();
        use Moment::{Finish, Sleep, Start, Wake};
        assert_eq!(what, [Start, Sleep, Wake, Sleep, Wake, Finish]);
        assert!(notes.is_sorted_by_key(|note| note.t));
    }

    #[test]
    fn burning_uses_cpu_time() {
        let used = || {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            now.tv_sec * 1_000_000_000 + now.tv_nsec
        };
        let before = used();
        burn(Duration::from_millis(3));
        assert!(used() - before >= 3_000_000);
    }

    #[test]
    fn bh_queues_can_be_opened() {
        let flags = [Flag::Bh, Flag::Highpri].into_iter().collect();
        let wq = open(&QueueSpec { name: "b".into(), flags, ..QueueSpec::default() }).unwrap();
        assert_eq!(wq.queue(|| 3).join().unwrap(), 3);
    }
}
