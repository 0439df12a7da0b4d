//! How many queues there can be: made until memory or threads run out, within limits that the
//! measuring process sets itself, so that a machine is never really exhausted.
//!
//! A queue of the original workqueue *is* its threads, one for each CPU or a single one. Here a
//! queue is a record until it is used; used, it has a record in each pool that serves it, and the
//! pools' threads are everybody's. What other machines could have is computed from what a queue, a
//! thread and a CPU's part take here.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use cmwq_sim::config::Checks;
use cmwq_sim::studies::scale;
use cmwq_sim::{Config, Shape, simulate};
use nix::sys::resource::{Resource, setrlimit};
use serde::{Deserialize, Serialize};

use crate::job::{Bench, Job};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::stats::Spread;
use crate::sys;
use crate::systems::System;

const RUNS: usize = 3;
const COUNT: usize = 10_000_000;
const COUNT_QUICK: usize = 50_000;
const THREADS: usize = 4_096;
const THREADS_QUICK: usize = 512;
const MEMORY_MIB: u64 = 256;
const MEMORY_MIB_QUICK: u64 = 64;

/// The variant of queues that get an item on every CPU before the next one is made.
pub(crate) const USED: &str = "used";

/// Looks at memory and threads come after so many queues at most; they are oftener in the
/// beginning.
const LOOK_EVERY: usize = 64;
/// The kernel refuses memory only beyond the limit by this part of it, and this process stops by
/// itself at the limit: an allocation that is refused would end it without a word, and tables grow
/// by doubling.
const MARGIN: u64 = 4;
/// A measurement ends after so long in any case.
const LONGEST: Duration = Duration::from_secs(10);

const CPUS: [u32; 5] = [2, 4, 8, 128, 4096];
/// The greatest thread id plus one, in 2010 and on small machines still; today it grows by 1,024
/// for each CPU, up to the last one.
const IDS_2010: f64 = 32_768.0;
const IDS_PER_CPU: f64 = 1_024.0;
const IDS_MOST: f64 = 4_194_304.0;
const GIB: f64 = (1 << 30) as f64;
/// A queue has a pointer for each CPU from the beginning.
const SLOT: f64 = size_of::<usize>() as f64;

/// Options of `queues`.
#[derive(Args, Debug, Default)]
pub(crate) struct QueuesOptions {
    /// Queues at most [default: 10000000, with --quick 50000].
    #[arg(long)]
    pub(crate) count: Option<std::num::NonZeroUsize>,
    /// Threads of the process at most [default: 4096, with --quick 512].
    #[arg(long)]
    pub(crate) threads: Option<std::num::NonZeroUsize>,
    /// Memory that the queues may take, in MiB, at least 16 [default: 256, with --quick 64].
    #[arg(long, value_parser = clap::value_parser!(u64).range(16..))]
    pub(crate) memory_mib: Option<u64>,
}

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    queues: f64,
    ns_each: f64,
    bytes_each: f64,
    kernel_stack_each: f64,
    threads: f64,
    stopped_by: String,
}

/// What this process has taken so far.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Resident, and the tables of its pages.
    bytes: u64,
    /// Private memory that it may write, resident or not: what the kernel limits.
    data: u64,
    threads: u64,
}

impl Taken {
    fn read() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").context("reading own status")?;
        let field = |name| number_after(&status, name).context(name);
        Ok(Self {
            bytes: (field("VmRSS:")? + field("VmPTE:")?) << 10,
            data: field("VmData:")? << 10,
            threads: field("Threads:")?,
        })
    }
}

/// The number behind a name at the beginning of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// Stacks of all threads there are, of the whole machine: the kernel tells no other number.
fn kernel_stacks() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    number_after(&text, "KernelStack:").unwrap_or_default() << 10
}

/// Makes queues in this process until something runs out. `threads_each`: what one takes at once.
pub(crate) fn measure(
    job: &Job,
    threads_each: usize,
    mut make: impl FnMut() -> Result<()>,
) -> Result<Sample> {
    // The first one starts what all of them share.
    make()?;
    let (before, stacks) = (Taken::read()?, kernel_stacks());
    let memory = job.memory_mib << 20;
    let limit = before.data + memory;
    let hard = limit + memory / MARGIN;
    setrlimit(Resource::RLIMIT_DATA, hard, hard).context("limiting this process' memory")?;
    let (start, mut queues) = (Instant::now(), 0);
    let stopped_by = loop {
        if queues == job.count {
            break "count".to_owned();
        }
        // A queue with threads is large enough to look each time.
        if threads_each > 0 || queues % LOOK_EVERY == 0 {
            let now = Taken::read()?;
            if now.threads as usize + threads_each > job.size {
                break "threads".to_owned();
            }
            if now.data > limit {
                break "memory".to_owned();
            }
            if start.elapsed() > LONGEST {
                break "time".to_owned();
            }
        }
        match make() {
            Ok(()) => queues += 1,
            Err(error) => break format!("refused: {error:#}"),
        }
    };
    let elapsed = sys::duration_ns(start.elapsed());
    let (after, made) = (Taken::read()?, queues.max(1) as f64);
    Ok(Sample {
        queues: queues as f64,
        ns_each: elapsed as f64 / made,
        bytes_each: after.bytes.saturating_sub(before.bytes) as f64 / made,
        kernel_stack_each: kernel_stacks().saturating_sub(stacks) as f64 / made,
        threads: after.threads as f64,
        stopped_by,
    })
}

/// The rows: a system, which of its ways, and what that is called.
const ROWS: [(System, &str, &str); 8] = [
    (System::OriginalMt, "", "original-mt"),
    (System::OriginalSt, "", "original-st"),
    (System::Cmwq, "", "cmwq"),
    (System::CmwqPercpu, "", "cmwq-percpu"),
    (System::CmwqUnbound, "", "cmwq-unbound"),
    (System::CmwqUnbound, "ordered", "cmwq-ordered"),
    (System::Cmwq, USED, "cmwq, used"),
    (System::CmwqPercpu, USED, "cmwq-percpu, used"),
];

/// Measures all chosen systems and makes the tables.
pub(crate) fn run(session: &mut Session, options: &QueuesOptions) -> Result<Vec<Section>> {
    let rounds = session.rounds(RUNS);
    let count = session.size(options.count, COUNT, COUNT_QUICK);
    let threads = session.size(options.threads, THREADS, THREADS_QUICK);
    let default = if session.quick { MEMORY_MIB_QUICK } else { MEMORY_MIB };
    let memory_mib = options.memory_mib.unwrap_or(default);
    let chosen: Vec<_> =
        ROWS.iter().filter(|(system, ..)| session.systems.contains(system)).collect();
    let cell = |&&(system, variant, _): &&(System, &str, &str)| {
        let job = Job { size: threads, memory_mib, ..Job::new(Bench::Queues, session.cpus, count) };
        Cell { system, job: Job { variant: variant.to_owned(), ..job } }
    };
    let cells = chosen.iter().map(cell).collect();
    let outcomes = session.alternate::<Sample>("queues", cells, rounds)?;
    let rows: Vec<Row> = outcomes.iter().zip(&chosen).map(|(one, way)| row(one, way.2)).collect();
    let limits = format!("{memory_mib} MiB, {threads} threads, {count} queues");
    let mut notes = vec![
        "each in a process of its own, which stops when it has taken so much private memory; a \
         quarter beyond that \
         the kernel refuses (RLIMIT_DATA)"
            .to_owned(),
        "bytes: growth of the resident set and of the page tables; kernel stacks: of the whole \
         machine, so \
         other programs' new threads are among them; what else the kernel has for a thread is not \
         counted"
            .to_owned(),
        "used: an empty item was run on every CPU before the next queue was made".to_owned(),
        format!(
            "this machine allows {} thread ids and {} threads",
            kernel_limit("pid_max"),
            kernel_limit("threads-max")
        ),
    ];
    let stopped = outcomes.iter().zip(&chosen).filter_map(|(outcome, way)| {
        let last = outcome.samples.last()?;
        Some(format!("{} by {}", way.2, last.sample.stopped_by))
    });
    notes.push(format!("stopped: {}", stopped.collect::<Vec<_>>().join("; ")));
    let measured = Section {
        curves: Vec::new(),
        name: "queues".to_owned(),
        title: format!("queues: made until one runs out of {limits}; {} rounds", rounds.runs),
        columns: [
            ("queues", Unit::Count),
            ("time each", Unit::Time),
            ("bytes each", Unit::Count),
            ("kernel stacks each", Unit::Count),
            ("threads", Unit::Count),
        ]
        .map(|(title, unit)| Column::new(title, unit))
        .to_vec(),
        ratios: ratios(&rows),
        rows,
        notes,
    };
    let computed = Costs::of(&outcomes, &chosen, session.cpus).map(|costs| computed(&costs));
    Ok(std::iter::once(measured).chain(computed).collect())
}

fn kernel_limit(name: &str) -> String {
    let read = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    read.map_or_else(|_| "an unknown number of".to_owned(), |text| text.trim().to_owned())
}

fn row(outcome: &Outcome<Sample>, label: &str) -> Row {
    let figures = vec![
        outcome.figure(|one| one.sample.queues),
        outcome.figure(|one| one.sample.ns_each),
        outcome.figure(|one| one.sample.bytes_each),
        outcome.figure(|one| one.sample.kernel_stack_each),
        outcome.figure(|one| one.sample.threads),
    ];
    row_of(outcome, Bench::Queues, figures).labelled(label.to_owned())
}

fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let side = |system, column| Side::of(rows, system, column);
    let pairs = [("time", Unit::Time, 1), ("bytes", Unit::Count, 2)];
    let pairs = pairs.into_iter().flat_map(|(what, unit, column)| {
        let ours = side(System::CmwqPercpu, column);
        Ratio::new(what, unit, ours, side(System::OriginalMt, column)).value()
    });
    pairs.collect()
}

/// What a queue and its parts were found to take here, in bytes.
#[derive(Debug)]
struct Costs {
    /// A thread of the original workqueue, with its stack in the kernel.
    thread: f64,
    /// A queue that nobody has used, on a machine without CPUs.
    unused: f64,
    /// A queue's part on a CPU where it was used.
    used_cpu: f64,
}

impl Costs {
    /// If all that it takes was measured.
    fn of(
        outcomes: &[Outcome<Sample>],
        ways: &[&(System, &str, &str)],
        cpus: usize,
    ) -> Option<Self> {
        let bytes = |label: &str| {
            let place = ways.iter().position(|way| way.2 == label)?;
            let each = |one: &Sample| one.bytes_each + one.kernel_stack_each;
            let all: Vec<_> = outcomes[place].samples.iter().map(|one| each(&one.sample)).collect();
            Some(Spread::of(&all)?.median)
        };
        let (unused, cpus) = (bytes("cmwq-percpu")?, cpus as f64);
        Some(Self {
            thread: bytes("original-mt")? / cpus,
            unused: (unused - SLOT * cpus).max(0.0),
            used_cpu: ((bytes("cmwq-percpu, used")? - unused) / cpus).max(0.0) + SLOT,
        })
    }
}

/// Pwqs and workers that queues used everywhere have in the simulator: `(bytes each, threads)`.
fn simulated(cpus: u32) -> (f64, f64) {
    let run = |queues| {
        let shape = Shape::large(cpus);
        let config = Config { shape, checks: Checks::None, ..Config::exact(1) };
        simulate(&scale::touch_everything(shape, queues), &config)
    };
    let (few, many) = (run(2), run(6));
    let grown = many.memory.structures().saturating_sub(few.memory.structures());
    (grown as f64 / 4.0, many.stats.workers as f64)
}

fn computed(costs: &Costs) -> Section {
    let mut rows = Vec::new();
    let mut add = |system, label: &str, value: &dyn Fn(f64) -> f64| {
        let figures = CPUS.map(|cpus| Some(Spread::single(value(f64::from(cpus)).floor())));
        rows.push(Row::computed(system, label, figures.to_vec()));
    };
    let ids = |cpus: f64| IDS_2010.max(IDS_PER_CPU * cpus).min(IDS_MOST);
    let used = |cpus: f64| costs.unused + costs.used_cpu * cpus;
    add(System::OriginalMt, "original-mt, ids of 2010", &|cpus| IDS_2010 / cpus);
    add(System::OriginalMt, "original-mt, ids of today", &|cpus| ids(cpus) / cpus);
    add(System::OriginalMt, "original-mt, 1 GiB", &|cpus| GIB / (costs.thread * cpus));
    add(System::OriginalSt, "original-st, ids of 2010", &|_| IDS_2010);
    add(System::OriginalSt, "original-st, 1 GiB", &|_| GIB / costs.thread);
    add(System::CmwqPercpu, "cmwq-percpu, 1 GiB", &|cpus| GIB / (costs.unused + SLOT * cpus));
    add(System::CmwqPercpu, "cmwq-percpu, used everywhere, 1 GiB", &|cpus| GIB / used(cpus));
    add(System::OriginalMt, "threads of 1,000 queues, original-mt", &|cpus| 1_000.0 * cpus);
    let simulated = CPUS.map(simulated);
    let figures = |part: fn(&(f64, f64)) -> f64| {
        simulated.iter().map(|one| Some(Spread::single(part(one)))).collect()
    };
    let threads = "threads of any queues used everywhere, cmwq, simulated";
    rows.push(Row::computed(System::CmwqPercpu, threads, figures(|one| one.1)));
    let bytes = "core's bytes of a queue used everywhere, simulated";
    rows.push(Row::computed(System::CmwqPercpu, bytes, figures(|one| one.0)));
    Section {
        curves: Vec::new(),
        name: "queues-computed".to_owned(),
        title: "queues, other machines: computed from what was measured here, or \
                simulated"
            .to_owned(),
        columns: CPUS.map(|cpus| Column::new(&format!("{cpus} CPUs"), Unit::Count)).to_vec(),
        rows,
        ratios: Vec::new(),
        notes: vec![
            format!(
                "taken from the table above: {:.0} bytes for a thread, {:.0} for a queue, {:.0} \
                 for its part on a CPU \
                 where it was used; a pointer for each CPU where it was not",
                costs.thread, costs.unused, costs.used_cpu
            ),
            "ids of 2010: 32,768 threads and processes (pid_max), whatever the number of CPUs; \
             ids of today: 1,024 for \
             each CPU, from 32,768 to 4,194,304. All of them are given to workqueues here, none \
             to other programs"
                .to_owned(),
            "simulated: the real core's structures (pools, pwqs, workers' records) on that many \
             virtual CPUs; a \
             driver's locks and stacks are not among the bytes"
                .to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_line() {
        let text = "Name:\tx\nVmData:\t  132 kB\nThreads:\t3\n";
        assert_eq!(number_after(text, "VmData:"), Some(132));
        assert_eq!(number_after(text, "Threads:"), Some(3));
        assert_eq!(number_after(text, "VmRSS:"), None);
    }

    #[test]
    fn four_thousand_cpus_had_room_for_eight_queues() {
        let section = computed(&Costs { thread: 32_768.0, unused: 400.0, used_cpu: 500.0 });
        let row = |label| section.rows.iter().find(|row| row.is_called(label)).unwrap();
        let medians = |label| row(label).medians();
        assert_eq!(medians("original-mt, ids of 2010"), [16_384.0, 8_192.0, 4_096.0, 256.0, 8.0]);
        assert_eq!(medians("original-mt, ids of today")[4], 1_024.0);
        assert_eq!(medians("original-mt, 1 GiB")[4], 8.0);
        // 400 bytes and a pointer for each CPU.
        assert_eq!(medians("cmwq-percpu, 1 GiB")[0], (GIB / 416.0).floor());
        // Two threads on each CPU, one that works and one that stands by, for any number of queues.
        let threads = medians("threads of any queues used everywhere, cmwq, simulated");
        assert_eq!(threads, CPUS.map(|cpus| f64::from(2 * cpus)));
        let bytes = medians("core's bytes of a queue used everywhere, simulated");
        assert!(bytes[4] > bytes[0] * 2_000.0 && bytes[4] < bytes[0] * 2_100.0, "{bytes:?}");
    }
}
