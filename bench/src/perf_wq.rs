//! perf-wq, the load generator with which shared worker pools were tried in 2010: works that burn a
//! little CPU time, sleep, burn again, and queue themselves anew after a while.
//!
//! A *work* splits its burn time at random in two, burns the first part, sleeps for 0 to twice its
//! mean sleep, burns the rest, and is queued again after 0 to twice its mean pause; that is a
//! *cycle*. How many cycles it makes is such that works of one kind last about equally long: 5 s
//! for short works, by factors 1.5 and 3 longer for medium and long ones.
//!
//! All randomness comes from a seed for each work, so every system is given exactly the same load,
//! and how long it takes if nothing is ever late can be calculated.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::gate::Gate;
use crate::sys;

/// How long a work is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Length {
    Short,
    Medium,
    Long,
}

impl Length {
    pub(crate) const ALL: [Self; 3] = [Self::Short, Self::Medium, Self::Long];

    /// Mean sleep and mean pause, in milliseconds.
    fn means_ms(self) -> (u64, u64) {
        match self {
            Self::Short => (1, 10),
            Self::Medium => (10, 50),
            Self::Long => (100, 250),
        }
    }

    /// By how much a work lasts longer than a short one.
    fn factor(self) -> f64 {
        match self {
            Self::Short => 1.0,
            Self::Medium => 1.5,
            Self::Long => 3.0,
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Short => 's',
            Self::Medium => 'm',
            Self::Long => 'l',
        }
    }
}

/// How much the works burn.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Variant {
    /// 50 µs a cycle.
    L,
    /// 1, 2 and 4 µs a cycle: as good as nothing.
    S,
}

impl Variant {
    fn burn_us(self, length: Length) -> u64 {
        match (self, length) {
            (Self::L, _) => 50,
            (Self::S, Length::Short) => 1,
            (Self::S, Length::Medium) => 2,
            (Self::S, Length::Long) => 4,
        }
    }
}

/// How long a work of factor 1 lasts at scale 1.
const BASE_MS: f64 = 5000.0;

/// The workloads: groups of queues that are alike, as (queues, short works in each, medium, long).
/// Each has fewer short works than the one before.
pub(crate) const WORKLOADS: [&[[usize; 4]]; 6] = [
    &[[12, 4, 0, 0], [2, 2, 2, 0], [4, 0, 2, 1], [8, 0, 0, 1]],
    &[[8, 4, 0, 0], [2, 2, 2, 0], [4, 0, 2, 1], [8, 0, 0, 1]],
    &[[4, 4, 0, 0], [2, 2, 2, 0], [4, 0, 2, 1], [8, 0, 0, 1]],
    &[[2, 4, 0, 0], [2, 2, 2, 0], [4, 0, 2, 1], [8, 0, 0, 1]],
    &[[2, 4, 0, 0], [2, 0, 2, 0], [4, 0, 2, 1], [8, 0, 0, 1]],
    &[[2, 0, 2, 0], [4, 0, 2, 1], [8, 0, 0, 1]],
];

/// One work, before its first cycle.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Work {
    /// The queue that it belongs to.
    pub(crate) queue: usize,
    pub(crate) length: Length,
    pub(crate) burn_ns: u64,
    pub(crate) mean_sleep_us: u64,
    pub(crate) mean_pause_us: u64,
    pub(crate) cycles: u64,
    pub(crate) seed: u64,
}

/// The works of a workload; `scale` 1 is the length of 2010.
pub(crate) fn works(workload: usize, variant: Variant, scale: f64, seed: u64) -> Vec<Work> {
    let mut seeds = Draws(seed);
    let mut works = Vec::new();
    let mut queues = 0;
    for &[alike, counts @ ..] in WORKLOADS[workload] {
        for queue in queues..queues + alike {
            let lengths = Length::ALL.iter().zip(counts);
            for length in lengths.flat_map(|(&length, count)| std::iter::repeat_n(length, count)) {
                works.push(work(queue, length, variant, scale, seeds.next()));
            }
        }
        queues += alike;
    }
    works
}

fn work(queue: usize, length: Length, variant: Variant, scale: f64, seed: u64) -> Work {
    let (sleep_ms, pause_ms) = length.means_ms();
    let cycles = BASE_MS * scale * length.factor() / (sleep_ms + pause_ms) as f64;
    Work {
        queue,
        length,
        burn_ns: variant.burn_us(length) * 1000,
        mean_sleep_us: sleep_ms * 1000,
        mean_pause_us: pause_ms * 1000,
        cycles: (cycles as u64).max(1),
        seed,
    }
}

/// One cycle's share of chance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Cycle {
    /// Before it.
    pause: Duration,
    burn_first: Duration,
    sleep: Duration,
    burn_then: Duration,
}

impl Work {
    /// Its cycles, the same each time.
    fn cycles(&self) -> impl Iterator<Item = Cycle> + use<> {
        let work = self.clone();
        let mut draws = Draws(work.seed);
        (0..work.cycles).map(move |_| {
            let pause = draws.up_to(2 * work.mean_pause_us);
            let first = draws.up_to(work.burn_ns);
            let sleep = draws.up_to(2 * work.mean_sleep_us);
            Cycle {
                pause: Duration::from_micros(pause),
                burn_first: Duration::from_nanos(first),
                sleep: Duration::from_micros(sleep),
                burn_then: Duration::from_nanos(work.burn_ns - first),
            }
        })
    }

    /// How long it takes if it never waits.
    fn ideal(&self) -> Duration {
        let burn = Duration::from_nanos(self.burn_ns);
        self.cycles().map(|cycle| cycle.pause + cycle.sleep + burn).sum()
    }
}

/// How long a load takes if no work ever waits: as long as its longest work.
pub(crate) fn ideal(works: &[Work]) -> Duration {
    works.iter().map(Work::ideal).max().unwrap_or_default()
}

/// The works as one word on a command line.
pub(crate) fn spell(works: &[Work]) -> String {
    works.iter().map(Work::to_string).collect::<Vec<_>>().join(",")
}

/// The other way round.
pub(crate) fn parse(text: &str) -> Result<Vec<Work>> {
    text.split(',').filter(|work| !work.is_empty()).map(str::parse).collect()
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, length, burn_ns, mean_sleep_us, mean_pause_us, cycles, seed } = self;
        let letter = length.letter();
        write!(f, "{letter}:{queue}:{burn_ns}:{mean_sleep_us}:{mean_pause_us}:{cycles}:{seed}")
    }
}

impl FromStr for Work {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (letter, numbers) = text.split_once(':').context("a work without numbers")?;
        let length = Length::ALL.into_iter().find(|length| letter.starts_with(length.letter()));
        let numbers: Result<Vec<u64>, ParseIntError> = numbers.split(':').map(str::parse).collect();
        let [queue, burn_ns, mean_sleep_us, mean_pause_us, cycles, seed] = numbers?[..] else {
            bail!("not a work: {text}")
        };
        Ok(Self {
            queue: usize::try_from(queue)?,
            length: length.with_context(|| format!("no such kind of work: {letter}"))?,
            burn_ns,
            mean_sleep_us,
            mean_pause_us,
            cycles,
            seed,
        })
    }
}

/// Random numbers that a peer in another language can draw as well (SplitMix64).
#[derive(Debug)]
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `most`, both included.
    fn up_to(&mut self, most: u64) -> u64 {
        ((u128::from(self.next()) * (u128::from(most) + 1)) >> 64) as u64
    }
}

/// A load that runs: what its works still have to do, and how they fared.
pub(crate) struct Load {
    works: Vec<Mutex<Progress>>,
    /// Counts the works that are through.
    done: Gate,
}

/// How one work fares.
pub(crate) struct Progress {
    pub(crate) work: Work,
    to_come: Box<dyn Iterator<Item = Cycle> + Send>,
    next: Option<Cycle>,
    /// When the next cycle is to begin.
    due_ns: u64,
    /// By how much each cycle began late.
    pub(crate) late_ns: Vec<u64>,
    /// When each cycle ended.
    pub(crate) ended_ns: Vec<u64>,
}

impl Load {
    /// The thread that makes it is the one to wait for it.
    pub(crate) fn new(works: Vec<Work>) -> Self {
        let done = Gate::new(works.len());
        let progress = |work: Work| {
            let mut to_come = work.cycles();
            Mutex::new(Progress {
                next: to_come.next(),
                to_come: Box::new(to_come),
                due_ns: 0,
                late_ns: Vec::with_capacity(work.cycles as usize),
                ended_ns: Vec::with_capacity(work.cycles as usize),
                work,
            })
        };
        Self { works: works.into_iter().map(progress).collect(), done }
    }

    pub(crate) fn len(&self) -> usize {
        self.works.len()
    }

    /// The queue that a work belongs to.
    pub(crate) fn queue_of(&self, work: usize) -> usize {
        self.lock(work).work.queue
    }

    /// How many queues there are.
    pub(crate) fn queues(&self) -> usize {
        (0..self.len()).map(|work| self.queue_of(work) + 1).max().unwrap_or(0)
    }

    /// After how long the work's next cycle is to begin, from now on; `None` if it is through.
    pub(crate) fn arm(&self, work: usize) -> Option<Duration> {
        let mut progress = self.lock(work);
        let pause = progress.next?.pause;
        progress.due_ns = sys::now_ns() + sys::duration_ns(pause);
        Some(pause)
    }

    /// A cycle of a work: called when its time has come, sleeps by `sleep`, returns after how long
    /// to call it again.
    pub(crate) fn cycle(&self, work: usize, sleep: impl FnOnce(Duration)) -> Option<Duration> {
        let started_ns = sys::now_ns();
        let mut progress = self.lock(work);
        let late_ns = started_ns.saturating_sub(progress.due_ns);
        progress.late_ns.push(late_ns);
        let cycle = progress.next.take()?;
        drop(progress);
        sys::burn(cycle.burn_first);
        sleep(cycle.sleep);
        sys::burn(cycle.burn_then);
        let mut progress = self.lock(work);
        progress.ended_ns.push(sys::now_ns());
        progress.next = progress.to_come.next();
        drop(progress);
        let pause = self.arm(work);
        if pause.is_none() {
            self.done.done();
        }
        pause
    }

    /// Waits until all works are through.
    pub(crate) fn wait(&self) {
        self.done.wait();
    }

    /// How each work fares.
    pub(crate) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Progress>> {
        (0..self.len()).map(|work| self.lock(work))
    }

    /// Nobody else wants it: a work has one cycle at a time.
    fn lock(&self, work: usize) -> MutexGuard<'_, Progress> {
        self.works[work].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
