//! What a run costs in energy, and what power-efficient queues save of it.
//!
//! [`integrate`] adds up a run's events by a [`Model`] with clusters of equal cores. A core takes
//! power while it computes; its cluster (caches, interconnect, clock) takes power while any core of
//! it computes, little while all of them wait, and next to nothing when it sleeps, which is worth
//! while if it lasts. Going to sleep and waking up again take time, in which power falls and rises,
//! so on average it is taken to be half the cluster's; and waking takes energy besides.
//!
//! [`Model::tc2`] has the figures of a real chip, ARM's *TC2* (Cortex-A15 and Cortex-A7), from the
//! energy model that ARM's engineers published with their patches for energy-aware scheduling
//! (2014, 2015: power of cores and clusters at 1.2 and 1.0 GHz, energy of waking) and from that
//! board's device tree (times of sleeping and waking). They are in the unit of those tables,
//! *bogo-watts*, of which only ratios mean something. It has two and three cores; the model has
//! four and four.
//!
//! [`Load`] is the experiment of the patch that introduced power-efficient workqueues to Linux
//! (2013): music plays on that chip and works come periodically. Documented is a saving of 15.7 %
//! (2.942 J without, 2.480 J with them; means of five runs). Its load is not documented: how long a
//! work takes, how many there are, and how much music computes are assumptions of
//! [`Load::default`], chosen for a result of that size. The model has no frequency scaling, no cost
//! of the timer's interrupt, and no cold caches after sleep.
//!
//! Why: docs/decisions/energy-from-events.md

use std::ops::Range;
use std::sync::Arc;

use crate::Nanos;
use crate::config::{Checks, Config, Placement};
use crate::event::{Event, What};
use crate::places::{Kind, flag_of};
use crate::plan::{Call, Item, Op, Plan};
use crate::rng::Rng;
use crate::scenario::{Flag, Flags, QueueSpec};
use crate::topology::{Scope, Shape};

const US: Nanos = 1_000;
const MS: Nanos = 1_000 * US;

/// Cores of one kind that sleep together.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Its name.
    pub name: &'static str,
    /// Its CPUs.
    pub cpus: Range<u32>,
    /// Power of a core that computes.
    pub core: f64,
    /// Energy of waking a core, per time.
    pub core_wake: f64,
    /// Power of the cluster while any core computes.
    pub active: f64,
    /// Its power while all cores wait.
    pub waiting: f64,
    /// Its power while it sleeps.
    pub asleep: f64,
    /// It sleeps when it will have nothing to do for so long.
    pub residency: Nanos,
    /// How long going to sleep and waking up take together.
    pub latency: Nanos,
    /// Energy of waking, per time.
    pub wake: f64,
}

/// A machine's clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Model(pub Vec<Cluster>);

impl Model {
    /// TC2's cores, as [`Shape::BigLittle`] has them: four fast ones, four slow ones.
    #[must_use]
    pub fn tc2() -> Self {
        // Energies of the tables are multiples of 1 / 1024.
        let big = Cluster {
            name: "big",
            cpus: 0..4,
            core: 6_997.0,
            core_wake: 5.0 / 1_024.0,
            active: 15_200.0,
            waiting: 70.0,
            asleep: 25.0,
            residency: 2_000 * US,
            latency: 1_700 * US,
            wake: 210.0 / 1_024.0,
        };
        let little = Cluster {
            name: "little",
            cpus: 4..8,
            core: 1_024.0,
            core_wake: 0.0,
            active: 4_905.0,
            waiting: 25.0,
            asleep: 10.0,
            residency: 2_500 * US,
            latency: 1_500 * US,
            wake: 6.0 / 1_024.0,
        };
        Self(vec![big, little])
    }
}

/// What a cluster took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// Computing: the cores, and the cluster meanwhile.
    pub computing: f64,
    /// Waiting and sleeping.
    pub idle: f64,
    /// Going to sleep and waking up.
    pub waking: f64,
    /// How often a core was woken from idleness.
    pub core_wakes: u64,
    /// How often the cluster was woken from sleep.
    pub cluster_wakes: u64,
}

impl Energy {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.computing + self.idle + self.waking
    }
}

/// Adds up what each cluster took from the beginning until `end`, in the model's unit of power
/// times seconds.
#[must_use]
pub fn integrate(model: &Model, events: &[Event], end: Nanos) -> Vec<Energy> {
    let busy = busy(events, end);
    let of = |cluster: &Cluster| {
        let cores = busy.iter().filter(|(cpu, _)| cluster.cpus.contains(cpu));
        let mut energy = Energy::default();
        let mut together = Vec::new();
        for (_, spans) in cores {
            let spans = merged(spans.clone());
            energy.computing += cluster.core * seconds(length(&spans));
            energy.core_wakes += spans.len() as u64;
            together.extend(spans);
        }
        energy.waking += cluster.core_wake * energy.core_wakes as f64;
        let together = merged(together);
        energy.computing += cluster.active * seconds(length(&together));
        let mut from = 0;
        for (begin, until) in together.into_iter().chain([(end, end)]) {
            let gap = begin.saturating_sub(from);
            if gap >= cluster.residency {
                energy.idle += cluster.asleep * seconds(gap.saturating_sub(cluster.latency));
                energy.waking += cluster.active / 2.0 * seconds(cluster.latency) + cluster.wake;
                energy.cluster_wakes += 1;
            } else {
                energy.idle += cluster.waiting * seconds(gap);
            }
            from = until;
        }
        energy
    };
    model.0.iter().map(of).collect()
}

fn seconds(ns: Nanos) -> f64 {
    ns as f64 / 1e9
}

type Span = (Nanos, Nanos);

/// When each CPU ran items.
fn busy(events: &[Event], end: Nanos) -> Vec<(u32, Vec<Span>)> {
    let mut spans: Vec<(u32, Vec<Span>)> = Vec::new();
    let mut open: Vec<(u64, u32, Nanos)> = Vec::new();
    let mut add = |cpu, span| match spans.iter_mut().find(|(known, _)| *known == cpu) {
        Some((_, list)) => list.push(span),
        None => spans.push((cpu, vec![span])),
    };
    for event in events.iter().filter(|event| event.t < end) {
        match event.what {
            What::Started(what, _, runner) | What::Woke(what, runner) => {
                open.push((what.ticket, runner.cpu, event.t));
            }
            What::Slept(what, _) | What::Finished(what, _) => {
                if let Some(at) = open.iter().position(|(ticket, ..)| *ticket == what.ticket) {
                    let (_, cpu, since) = open.swap_remove(at);
                    add(cpu, (since, event.t));
                }
            }
            _ => {}
        }
    }
    open.into_iter().for_each(|(_, cpu, since)| add(cpu, (since, end)));
    spans
}

fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut list: Vec<Span> = Vec::new();
    for (from, until) in spans.into_iter().filter(|(from, until)| from < until) {
        match list.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => list.push((from, until)),
        }
    }
    list
}

fn length(spans: &[Span]) -> Nanos {
    spans.iter().map(|(from, until)| until - from).sum()
}

/// Music and periodic works. Times of computing are those of a fast core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// From one work's end until it is queued again: ten ticks. (Kernels of that board had 100 a
    /// second.)
    pub period: Nanos,
    /// Works of each CPU.
    pub works_per_cpu: u32,
    /// How long a work computes.
    pub work: Nanos,
    /// Music is played by a slow core, at intervals of so long.
    pub music_period: Nanos,
    /// How long that computes.
    pub music: Nanos,
    /// How long all of it is looked at.
    pub length: Nanos,
    /// Of the works' phases.
    pub seed: u64,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            period: 100 * MS,
            works_per_cpu: 1,
            work: 200 * US,
            music_period: 10 * MS,
            music: 2_000 * US,
            length: 10_000 * MS,
            seed: 1,
        }
    }
}

/// Where a periodic work is queued: on a power-efficient queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Works {
    /// It is per-CPU: each work stays with its CPU.
    PerCpu,
    /// It has become unbound: a work is where its pod's CPUs are awake.
    Unbound(Scope),
}

impl Load {
    fn plan(&self, works: Works) -> Plan {
        let mut rng = Rng::new(self.seed);
        let queue = |name: &str, kind, scope| {
            let (name, flags) = (name.to_owned(), Flags::NONE.with(kind));
            QueueSpec { name, flags, scope, ..QueueSpec::default() }
        };
        let scope = match works {
            Works::PerCpu => None,
            Works::Unbound(scope) => Some(scope),
        };
        let kind = Kind::power_efficient(scope.is_some());
        let periodic = queue("works", flag_of(kind), scope);
        let mut plan =
            Plan { queues: vec![queue("music", Flag::Percpu, None), periodic], ..Plan::default() };
        let mut add = |queue, cpu, ns, period: Nanos, at| {
            let item = plan.items.len();
            let again = Op::QueueDelayed { item, cpu: Some(cpu), delay: period };
            let ops: Arc<[Op]> = [Op::Burn(ns), again].into();
            let nr_queueings = u32::try_from(self.length / period.max(1)).unwrap_or(u32::MAX);
            plan.items.push(Item { queue, ops, nr_queueings });
            plan.calls.push(Call { at, op: Op::Queue { item, cpu: Some(cpu) } });
        };
        // It computes in each period, so the pause is what is left of it.
        let slow = Shape::BigLittle.slowness(4);
        let pause = self.music_period.saturating_sub(self.music * slow / 100).max(1);
        add(0, 4, self.music, pause, 0);
        for cpu in 0..Shape::BigLittle.cpus() {
            for _ in 0..self.works_per_cpu {
                add(1, cpu, self.work, self.period, rng.below(self.period));
            }
        }
        plan.calls.sort_by_key(|call| call.at);
        plan
    }

    /// Runs it on four fast and four slow cores; what each cluster of `model` took.
    ///
    /// # Panics
    /// If the core finds one of its invariants broken (in builds with debug assertions).
    #[must_use]
    pub fn run(&self, model: &Model, works: Works) -> Vec<Energy> {
        let config = Config {
            shape: Shape::BigLittle,
            placement: Placement::Thrifty,
            checks: Checks::None,
            keep_events: true,
            ..Config::exact(1)
        };
        let outcome = crate::simulate(&self.plan(works), &config);
        integrate(model, &outcome.events, self.length)
    }

    /// The part of the energy that `works` save, compared with works of a per-CPU queue.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    #[must_use]
    pub fn saving(&self, model: &Model, works: Works) -> f64 {
        let total = |works| self.run(model, works).iter().map(Energy::total).sum::<f64>();
        1.0 - total(works) / total(Works::PerCpu)
    }
}
