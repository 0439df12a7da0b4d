//! Periodic works and whom they wake: on real threads with `power_efficient` off and on, and in the
//! simulator, with a model of energy.

use std::fs;

use anyhow::Result;
use clap::Args;
use cmwq_sim::Scope;
use cmwq_sim::studies::energy::{Energy, Load, Model, Works};
use serde::{Deserialize, Serialize};

use crate::job::{Bench, Job};
use crate::report::{Column, Row, Section, Unit, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::stats::Spread;
use crate::systems::System;

const RUNS: usize = 5;
const PERIODS: usize = 100;
const PERIODS_QUICK: usize = 25;
/// Ten ticks of a kernel with 250 a second.
const PERIOD_US: u64 = 40_000;
const BURN_US: u64 = 50;

/// Periodic works of each CPU, their phases evenly spread.
pub(crate) const WORKS_PER_CPU: usize = 4;
/// In the place of a limit: the works' timers are deferrable.
pub(crate) const DEFERRABLE: usize = 1;

/// Documented: what power-efficient queues saved where they were introduced.
const DOCUMENTED: f64 = 0.157;

/// Options of `power`.
#[derive(Args, Debug, Default)]
pub(crate) struct PowerOptions {
    /// Periods of a measurement [default: 100, with --quick 25].
    #[arg(long)]
    pub(crate) periods: Option<std::num::NonZeroUsize>,
    /// Length of a period, in microseconds [default: 40000, ten ticks of 4 ms].
    #[arg(long)]
    pub(crate) period_us: Option<std::num::NonZeroU64>,
}

/// One round of one system; all per second but the two shares.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    /// How often CPUs came out of idleness, for whomever; where the kernel tells.
    pub(crate) idle_wakes: Option<f64>,
    /// Context switches of the process.
    pub(crate) switches: f64,
    pub(crate) runs: f64,
    /// Pairs of CPU and millisecond in which works ran.
    pub(crate) spots: f64,
    /// Share of the runs that the CPU with most of them had.
    pub(crate) busiest: f64,
    /// Share of the runs that were on another CPU than the one that was asked for.
    pub(crate) away: f64,
}

/// How often each CPU has gone idle so far, by the kernel's own count.
#[derive(Debug)]
pub(crate) struct CpuIdle(Option<u64>);

impl CpuIdle {
    pub(crate) fn read() -> Self {
        let numbered = |folder: &str, prefix: &'static str| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(move |path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let number = name.strip_prefix(prefix).map(str::to_owned).unwrap_or_default();
                !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
            })
        };
        let states = numbered("/sys/devices/system/cpu", "cpu").flat_map(|cpu| {
            numbered(&cpu.join("cpuidle").to_string_lossy(), "state").collect::<Vec<_>>()
        });
        let usages = states.filter_map(|state| {
            fs::read_to_string(state.join("usage")).ok()?.trim().parse::<u64>().ok()
        });
        Self(usages.reduce(|one, other| one + other))
    }

    /// How often since then; `None` where the kernel does not tell.
    pub(crate) fn since(before: &Self) -> Option<u64> {
        Some(Self::read().0?.saturating_sub(before.0?))
    }
}

/// The rows: a system, its parameters, whether timers are deferrable, and what that is called.
const ROWS: [(System, &str, usize, &str); 5] = [
    (System::Nothing, "", 0, "none"),
    (System::OriginalMt, "", 0, "original-mt"),
    (System::CmwqPercpu, "power_efficient=0", 0, "cmwq, off"),
    (System::CmwqPercpu, "power_efficient=1", 0, "cmwq, on"),
    (System::CmwqPercpu, "power_efficient=1", DEFERRABLE, "cmwq, on, deferrable"),
];

/// Measures all chosen systems and makes the tables.
pub(crate) fn run(session: &mut Session, options: &PowerOptions) -> Result<Vec<Section>> {
    let rounds = session.rounds(RUNS);
    let periods = session.size(options.periods, PERIODS, PERIODS_QUICK);
    let wait_us = options.period_us.map_or(PERIOD_US, std::num::NonZeroU64::get);
    let chosen: Vec<_> =
        ROWS.iter().filter(|(system, ..)| session.systems.contains(system)).collect();
    let cell = |&&(system, variant, max_active, _): &&(System, &str, usize, &str)| {
        let job = Job::new(Bench::Power, session.cpus, periods);
        let variant = variant.to_owned();
        Cell { system, job: Job { wait_us, burn_us: BURN_US, max_active, variant, ..job } }
    };
    let cells = chosen.iter().map(cell).collect();
    let outcomes = session.alternate::<Sample>("power", cells, rounds)?;
    let rows = outcomes.iter().zip(&chosen).map(|(one, way)| row(one, way.3)).collect();
    let measured = Section {
        curves: Vec::new(),
        name: "power".to_owned(),
        title: format!(
            "power: {WORKS_PER_CPU} works per CPU of {BURN_US} µs, each again after {} ms, \
             {periods} times; {} rounds",
            wait_us / 1_000,
            rounds.runs
        ),
        columns: [
            ("wake-ups from idle /s", Unit::Count),
            ("(CPU, ms) used /s", Unit::Count),
            ("runs /s", Unit::Count),
            ("switches /s", Unit::Count),
            ("busiest CPU's share", Unit::Plain),
            ("away from its CPU", Unit::Plain),
        ]
        .map(|(title, unit)| Column::new(title, unit))
        .to_vec(),
        rows,
        ratios: Vec::new(),
        notes: vec![
            "wake-ups from idle are the machine's, whoever caused them (cpuidle/state*/usage); \
             row `none` is a process \
             that sleeps: what the others cause. On machines that are never idle it is 0 and says \
             nothing"
                .to_owned(),
            "off, on: CMWQ_PARAMS=power_efficient=0 or 1 on one and the same power-efficient \
             queue; on, it is unbound. \
             cmwq's timers are one service thread's in either case, the original's a timer thread's"
                .to_owned(),
            "deferrable: the timers wake nobody, so with nothing else to do the works \
             wait"
                .to_owned(),
        ],
    };
    Ok(vec![measured, simulated(), sensitivity()])
}

fn row(outcome: &Outcome<Sample>, label: &str) -> Row {
    let figure = |value: &dyn Fn(&Sample) -> Option<f64>| {
        Spread::of(&outcome.samples.iter().filter_map(|one| value(&one.sample)).collect::<Vec<_>>())
    };
    let works = |value: fn(&Sample) -> f64| {
        figure(&|one| (outcome.system != System::Nothing).then(|| value(one)))
    };
    let figures = vec![
        figure(&|one| one.idle_wakes),
        works(|one| one.spots),
        works(|one| one.runs),
        works(|one| one.switches),
        works(|one| one.busiest),
        works(|one| one.away),
    ];
    row_of(outcome, Bench::Power, figures).labelled(label.to_owned())
}

/// Energy of a load on four fast and four slow cores, by where its works are queued.
fn simulated() -> Section {
    let (load, model) = (Load::default(), Model::tc2());
    let seconds = load.length as f64 / 1e9;
    let total = |energy: &[Energy]| energy.iter().map(Energy::total).sum::<f64>() / seconds;
    let before = total(&load.run(&model, Works::PerCpu));
    let ways = [
        (System::CmwqPercpu, "per CPU (off)", Works::PerCpu),
        (System::CmwqUnbound, "unbound (on), scope system", Works::Unbound(Scope::System)),
        (System::CmwqUnbound, "unbound (on), scope cache", Works::Unbound(Scope::Cache)),
    ];
    let row = |(system, label, works)| {
        let energy = load.run(&model, works);
        let wakes = |cluster: &Energy| cluster.core_wakes as f64 / seconds;
        let figures = [
            total(&energy),
            energy[0].total() / seconds,
            energy[1].total() / seconds,
            wakes(&energy[0]),
            wakes(&energy[1]),
            1.0 - total(&energy) / before,
        ];
        Row::computed(system, label, figures.map(|value| Some(Spread::single(value))).to_vec())
    };
    Section {
        curves: Vec::new(),
        name: "power-simulated".to_owned(),
        title: format!(
            "power, simulated: 4 fast and 4 slow cores, music, and {} work of {} µs per CPU, each \
             again after {} ms; in \
             bogo-watts",
            load.works_per_cpu,
            load.work / 1_000,
            load.period / 1_000_000
        ),
        columns: [
            ("power", Unit::Count),
            ("fast cluster", Unit::Count),
            ("slow cluster", Unit::Count),
            ("fast cores woken /s", Unit::Count),
            ("slow cores woken /s", Unit::Count),
            ("saved", Unit::Plain),
        ]
        .map(|(title, unit)| Column::new(title, unit))
        .to_vec(),
        rows: ways.map(row).into(),
        ratios: Vec::new(),
        notes: vec![
            format!(
                "documented for Linux, measured on a chip with 2 + 3 cores while it played music: \
                 {DOCUMENTED:.3} saved \
                 (2.942 J without, 2.480 J with power-efficient queues)"
            ),
            "published: power of cores and clusters, energy of waking (the energy model of ARM's \
             TC2), times of going to \
             sleep and waking (its device tree)"
                .to_owned(),
            "assumed: the load (the number of works, their length, music that computes for 2 ms \
             in 10 ms, if a fast core \
             did it), which was chosen for a saving of the documented size; half the cluster's \
             power while it goes to sleep \
             and wakes; highest frequencies; timers cost nothing; a scheduler that wakes slow \
             cores first"
                .to_owned(),
            "scope cache is the default: works that were queued on a fast core stay in its \
             cluster and wake it as often; the \
             kernel's unbound queues of that time served whole nodes"
                .to_owned(),
        ],
    }
}

/// How much of the result is the assumed load's.
fn sensitivity() -> Section {
    let (load, model) = (Load::default(), Model::tc2());
    let transitions = |factor: u64| {
        let mut model = model.clone();
        model.0.iter_mut().for_each(|cluster| cluster.latency *= factor);
        model
    };
    let ways = [
        ("as above", load, model.clone()),
        ("works of half the length", Load { work: load.work / 2, ..load }, model.clone()),
        ("works of twice the length", Load { work: load.work * 2, ..load }, model.clone()),
        ("two works per CPU", Load { works_per_cpu: 2, ..load }, model.clone()),
        ("ten ticks of 4 ms", Load { period: 40_000_000, ..load }, model.clone()),
        ("half the music", Load { music: load.music / 2, ..load }, model.clone()),
        ("half as much music again", Load { music: load.music * 3 / 2, ..load }, model.clone()),
        ("other phases", Load { seed: 2, ..load }, model.clone()),
        ("full power while going to sleep and waking", load, transitions(2)),
        ("none then", load, transitions(0)),
    ];
    let row = |(label, load, model): (&str, Load, Model)| {
        let saved = load.saving(&model, Works::Unbound(Scope::System));
        Row::computed(System::CmwqUnbound, label, vec![Some(Spread::single(saved))])
    };
    Section {
        curves: Vec::new(),
        name: "power-assumptions".to_owned(),
        title: "power, simulated: what is saved under other assumptions, scope system".to_owned(),
        columns: vec![Column::new("saved", Unit::Plain)],
        rows: ways.map(row).into(),
        ratios: Vec::new(),
        notes: Vec::new(),
    }
}
