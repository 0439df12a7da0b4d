//! How an item's cost grows: with queues, with pending items and with producers on real threads,
//! with CPUs, queues and items in the simulator, and what the most wanted lock of a managed queue
//! would bear on up to 64 CPUs.

use std::num::NonZeroUsize;

use anyhow::Result;
use clap::Args;
use cmwq_sim::config::Checks;
use cmwq_sim::studies::contention::{Holds, Load};
use cmwq_sim::studies::scale::{self, Size};
use cmwq_sim::{Config, Scope, Shape, simulate};
use serde::{Deserialize, Serialize};

use crate::job::{Bench, Job};
use crate::report::{Column, Row, Section, Unit, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::stats::Spread;
use crate::sys;
use crate::systems::System;

const RUNS: usize = 5;
const COUNT: usize = 200_000;
const COUNT_QUICK: usize = 20_000;

/// The ways in which a load grows.
pub(crate) const QUEUES: &str = "queues";
pub(crate) const PENDING: &str = "pending";
pub(crate) const PRODUCERS: &str = "producers";

/// Queues, and items that are pending at a time.
const SIZES: [usize; 4] = [1, 10, 100, 1_000];
const BURSTS: [usize; 4] = [100, 1_000, 10_000, 100_000];
const SYSTEMS: [System; 4] =
    [System::Cmwq, System::CmwqPercpu, System::OriginalMt, System::OriginalSt];

/// A line of memory goes from one core's cache to another's within 50 to 150 ns on today's servers;
/// not measured here.
const TRANSFER_NS: u64 = 100;
const CONTENTION_CPUS: [u32; 6] = [2, 4, 8, 16, 32, 64];
/// How long items compute, and how much of the machine they take.
const BURN_NS: u64 = 20_000;
const LOAD: u64 = 70;
const ITEMS_PER_CPU: usize = 500;
/// Every item takes the lock at least so often.
const HOLDS_PER_ITEM: f64 = 2.0;

/// Options of `scaling`.
#[derive(Args, Debug, Default)]
pub(crate) struct ScalingOptions {
    /// Items per measurement [default: 200000, with --quick 20000].
    #[arg(long)]
    pub(crate) count: Option<NonZeroUsize>,
    /// CPUs of the largest simulated machine [default: 4096, with --quick 512].
    #[arg(long, value_parser = clap::value_parser!(u32).range(16..=4096))]
    pub(crate) cpus: Option<u32>,
}

/// One round of one system, per item.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    pub(crate) cpu_ns: f64,
    pub(crate) wall_ns: f64,
}

/// Measures all chosen systems and makes the tables.
pub(crate) fn run(session: &mut Session, options: &ScalingOptions) -> Result<Vec<Section>> {
    let count = session.size(options.count, COUNT, COUNT_QUICK);
    let largest = options.cpus.unwrap_or(if session.quick { 512 } else { 4_096 });
    let producers: Vec<usize> =
        (0..).map(|power| 1 << power).take_while(|&n| n <= 2 * session.cpus).collect();
    let mut sections = vec![
        grown(session, QUEUES, &SIZES, count, "queues, used in turn by one thread")?,
        grown(session, PENDING, &BURSTS, count, "items pending at a time, max_active 1")?,
        grown(session, PRODUCERS, &producers, count, "threads that queue at once")?,
    ];
    sections.push(simulated(largest));
    if let Some(hold_ns) = sections[0].median_of(System::CmwqPercpu) {
        sections.push(contention(
            hold_ns / HOLDS_PER_ITEM,
            if session.quick { 100 } else { ITEMS_PER_CPU },
        ));
    }
    Ok(sections)
}

/// One way of growing, on real threads.
fn grown(
    session: &mut Session,
    way: &str,
    sizes: &[usize],
    count: usize,
    what: &str,
) -> Result<Section> {
    let rounds = session.rounds(RUNS);
    let chosen: Vec<_> =
        SYSTEMS.into_iter().filter(|system| session.systems.contains(system)).collect();
    let cell = |system, size| {
        let job = Job::new(Bench::Scaling, session.cpus, count.max(size));
        Cell { system, job: Job { size, variant: way.to_owned(), ..job } }
    };
    let cells = chosen.iter().flat_map(|&system| sizes.iter().map(move |&size| cell(system, size)));
    let cells = cells.collect();
    let outcomes = session.alternate::<Sample>(&format!("scaling, {way}"), cells, rounds)?;
    let rows = outcomes.chunks(sizes.len().max(1)).map(row).collect();
    let columns = ["CPU", "wall"].into_iter().flat_map(|clock| {
        sizes.iter().map(move |size| Column::new(&format!("{size}, {clock}"), Unit::Time))
    });
    Ok(Section {
        curves: Vec::new(),
        name: format!("scaling-{way}"),
        title: format!(
            "scaling, {what}: time per empty item, {count} items; {} rounds",
            rounds.runs
        ),
        columns: columns.collect(),
        rows,
        ratios: Vec::new(),
        notes: vec!["CPU: of the whole process, producer and workers".to_owned()],
    })
}

fn row(outcomes: &[Outcome<Sample>]) -> Row {
    let cpu = outcomes.iter().map(|outcome| outcome.figure(|one| one.sample.cpu_ns));
    let wall = outcomes.iter().map(|outcome| outcome.figure(|one| one.sample.wall_ns));
    let figures = cpu.chain(wall).collect();
    let teller = outcomes.iter().find(|outcome| outcome.problem.is_some()).unwrap_or(&outcomes[0]);
    row_of(teller, Bench::Scaling, figures)
}

/// The core's decisions on virtual machines, each size from the same mix of queues and items.
fn simulated(largest: u32) -> Section {
    let size = |cpus: u32, queues, items| Size { shape: Shape::large(cpus), queues, items };
    let base = || size(16, 100, 10_000);
    let mut sizes = vec![("16 CPUs, 100 queues, 10,000 items".to_owned(), base())];
    for factor in [10, 100, 1_000] {
        let queues = base().queues * factor;
        sizes.push((format!("queues ×{factor}"), Size { queues, ..base() }));
    }
    for factor in [10, 100] {
        let items = base().items * factor;
        sizes.push((format!("items ×{factor}"), Size { items, ..base() }));
    }
    for cpus in [2, 128, 1_024, 4_096].into_iter().filter(|&cpus| cpus <= largest) {
        sizes
            .push((format!("{cpus} CPUs, 25 items for each"), size(cpus, 100, 25 * cpus as usize)));
    }
    let row = |(label, size): (String, Size)| {
        let (plan, config) = (scale::plan(1, size, None), scale::config(1, size));
        let config = Config { checks: Checks::None, hotplug: None, ..config };
        let before = sys::cpu_ns();
        let outcome = simulate(&plan, &config);
        let ns = (sys::cpu_ns() - before) as f64;
        let queued = outcome.stats.queued.max(1) as f64;
        let figures =
            [ns / queued, outcome.stats.steps as f64 / queued, outcome.stats.pools as f64];
        let figures = figures.map(|value| Some(Spread::single(value))).to_vec();
        Row::computed(System::Cmwq, &label, figures)
    };
    Section {
        curves: Vec::new(),
        name: "scaling-simulated".to_owned(),
        title: "scaling, simulated: the core's decisions for a mix of all kinds of \
                queues"
            .to_owned(),
        columns: [
            ("CPU per item", Unit::Time),
            ("steps per item", Unit::Plain),
            ("pools", Unit::Count),
        ]
        .map(|(title, unit)| Column::new(title, unit))
        .to_vec(),
        rows: sizes.into_iter().map(row).collect(),
        ratios: Vec::new(),
        notes: vec![
            "time of one CPU of this machine for an item's decisions, the simulator's own \
             (virtual CPUs, time, threads) \
             included; nothing is parallel here, so this shows what a decision costs when there \
             is more of everything, and no \
             contention. What becomes dearer is memory that is in no cache; the steps say whether \
             there is more to do"
                .to_owned(),
        ],
    }
}

/// The locks of one managed queue's pools, by simulated arrivals and measured holds.
fn contention(hold_ns: f64, items_per_cpu: usize) -> Section {
    let holds = Holds { hold: hold_ns as u64, transfer: TRANSFER_NS };
    let ways = [
        ("a pool per CPU, any CPU queues", Scope::Cpu, false),
        ("a pool per CPU, one CPU queues", Scope::Cpu, true),
        ("one pool for all CPUs", Scope::System, false),
    ];
    let rows = ways.iter().flat_map(|&(name, scope, one_producer)| {
        CONTENTION_CPUS.map(|cpus| {
            let items = items_per_cpu * cpus as usize;
            let (burn, load, seed) = (BURN_NS, LOAD, 1);
            let found = Load { cpus, scope, one_producer, burn, load, items, seed }.run(holds);
            let figures = [
                found.utilisation,
                found.mean_wait,
                found.p99_wait,
                found.share,
                found.holds_per_item,
            ];
            let figures = figures.map(|value| Some(Spread::single(value))).to_vec();
            Row::computed(System::Cmwq, &format!("{name}, {cpus} CPUs"), figures)
        })
    });
    Section {
        curves: Vec::new(),
        name: "scaling-contention".to_owned(),
        title: format!(
            "scaling, contention on one managed queue: items of {} µs that take {LOAD} % of the \
             machine; the most wanted \
             lock",
            BURN_NS / 1_000
        ),
        columns: [
            ("held", Unit::Plain),
            ("mean wait", Unit::Time),
            ("p99 wait", Unit::Time),
            ("its part of holds", Unit::Plain),
            ("holds per item", Unit::Plain),
        ]
        .map(|(title, unit)| Column::new(title, unit))
        .to_vec(),
        rows: rows.collect(),
        ratios: Vec::new(),
        notes: vec![
            format!(
                "arrivals are simulated, with the real core's decisions; each hold of a lock is \
                 taken to last {} ns, half the \
                 CPU time that an item of a per-CPU queue took above (an upper bound: not all of \
                 it is under the lock), and \
                 {TRANSFER_NS} ns more if another CPU had it before (assumed)",
                holds.hold
            ),
            "held: part of the time; where it comes near 1 the queue is limited by that lock, and \
             beyond 1 it is wanted more \
             than there is time. The model does not slow the arrivals down, so waits are \
             exaggerated there"
                .to_owned(),
            "a pool per CPU is what managed queues have; one pool for all is what they do not \
             have, for comparison"
                .to_owned(),
        ],
    }
}
