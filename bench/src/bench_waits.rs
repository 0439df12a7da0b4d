//! Items that wait and compute in turns, by every way in which items wait: asleep, for somebody
//! else, for a pipe, for a child process, for a page of a file. Each pool stands at its best size,
//! cmwq without one.
//!
//! What fetches and then computes is the common case of a thread pool, and the hard one for a pool
//! that keeps as many workers running as there are CPUs: those whose wait is over come back
//! unasked.

use std::fmt;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::bench_sizes::{self, Load, Makespan};
use crate::cold;
use crate::external::build_folder;
use crate::gate::Gate;
use crate::job::{Bench, Job, Producers};
use crate::peers::{self, Peer};
use crate::report::{Section, Unit};
use crate::rounds::Session;
use crate::sys;
use crate::timers::Timers;

/// Longest wait for what always comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The loads on two CPUs: a name, how many items, what each does, and who queues them.
const LOADS: [(&str, usize, &str, Producers); 14] = [
    ("fetch-50-5", 100, "sleep:50000 burn:5000", Producers::One),
    ("fetch-20-2", 400, "sleep:20000 burn:2000", Producers::One),
    ("fetch-100-10", 40, "sleep:100000 burn:10000", Producers::One),
    ("fetch-10-0.5", 1000, "sleep:10000 burn:500", Producers::One),
    ("fetch-many", 400, "sleep:20000 burn:2000", Producers::Many),
    ("fetch-inside", 400, "sleep:20000 burn:2000", Producers::Inside),
    ("between-0.1", 200, "burn:2000 sleep:100 burn:2000", Producers::One),
    ("between-1", 200, "burn:2000 sleep:1000 burn:2000", Producers::One),
    ("between-50", 200, "burn:1000 sleep:50000 burn:2000", Producers::One),
    ("fetch-500", 100, "sleep:500000 burn:5000", Producers::One),
    ("lock", 200, "lock:5000 burn:2000", Producers::One),
    ("pipe", 200, "pipe:5000 burn:2000", Producers::One),
    ("child", 60, "child:20000 burn:5000", Producers::One),
    ("file", 200, "file:32 burn:2000", Producers::One),
];

/// Options of `waits`.
#[derive(Args, Debug, Default)]
pub(crate) struct WaitsOptions {
    /// Only these loads, separated by commas [default: all, with --quick the first]; an unknown
    /// name lists them.
    #[arg(long, value_delimiter = ',')]
    pub(crate) loads: Vec<String>,
    /// A load of one's own: what each item does, in steps of `burn:US`, `sleep:US`, `lock:US`,
    /// `pipe:US`, `child:US` (a process that sleeps) and `file:PAGES` (of a file that is not in
    /// memory).
    #[arg(long, conflicts_with = "loads", value_name = "STEPS")]
    pub(crate) steps: Option<Steps>,
    /// Items of a load of one's own [default: 200].
    #[arg(long, requires = "steps", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) items: Option<u32>,
    /// Largest pool to try [default: 512, with --quick 64].
    #[arg(long)]
    pub(crate) largest: Option<usize>,
}

/// What an item does in one of its steps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// Uses this much of a CPU.
    Burn(Duration),
    Sleep(Duration),
    /// Waits until another thread lets it go on.
    Lock(Duration),
    /// Reads from a pipe into which another thread writes after that time.
    Pipe(Duration),
    /// Starts a process that sleeps, and waits for its end.
    Child(Duration),
    /// Touches so many pages of a mapped file that is not in memory.
    File(usize),
}

impl FromStr for Step {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, number) = text.split_once(':').context("a step is KIND:NUMBER")?;
        let number: u64 = number.parse().with_context(|| format!("the number of {text:?}"))?;
        let time = Duration::from_micros(number);
        Ok(match kind {
            "burn" => Self::Burn(time),
            "sleep" => Self::Sleep(time),
            "lock" => Self::Lock(time),
            "pipe" => Self::Pipe(time),
            "child" => Self::Child(time),
            "file" => Self::File(usize::try_from(number)?),
            _ => bail!("{kind:?} is none of burn, sleep, lock, pipe, child, file"),
        })
    }
}

/// The steps of an item, as the command line spells them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Steps {
    steps: Vec<Step>,
    text: String,
}

impl FromStr for Steps {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let steps = text.split_whitespace().map(str::parse).collect::<Result<Vec<Step>>>()?;
        ensure!(!steps.is_empty(), "no step is given");
        Ok(Self { steps, text: text.to_owned() })
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Steps {
    /// Every CPU computes without a gap, from the first item's waits before computing to the last
    /// one's after it; or one item takes longer than that. `None`: nobody knows what a device or a
    /// process can do.
    fn ideal_ns(&self, items: usize, cpus: usize) -> Option<f64> {
        let (mut first, mut burnt, mut last) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let mut all = Duration::ZERO;
        for step in &self.steps {
            match *step {
                Step::Burn(time) => {
                    burnt += time;
                    all += time;
                    last = Duration::ZERO;
                }
                Step::Sleep(time) | Step::Lock(time) | Step::Pipe(time) => {
                    let side = if burnt.is_zero() { &mut first } else { &mut last };
                    *side += time;
                    all += time;
                }
                Step::Child(_) | Step::File(_) => return None,
            }
        }
        let computing = burnt * u32::try_from(items.div_ceil(cpus)).unwrap_or(u32::MAX);
        Some(sys::duration_ns((first + computing + last).max(all)) as f64)
    }

    /// Pages that each item touches.
    fn pages(&self) -> usize {
        let pages = |step: &Step| if let Step::File(pages) = *step { pages } else { 0 };
        self.steps.iter().map(pages).sum()
    }
}

/// Measures each load at the best size of each pool, and makes a table for it.
pub(crate) fn run(session: &mut Session, options: &WaitsOptions) -> Result<Vec<Section>> {
    let largest = bench_sizes::largest(session, options.largest);
    loads(session, options)?.iter().map(|load| bench_sizes::table(session, load, largest)).collect()
}

fn loads(session: &Session, options: &WaitsOptions) -> Result<Vec<Load>> {
    let cpus = session.cpus;
    if let Some(steps) = &options.steps {
        let items = options.items.unwrap_or(200) as usize;
        return Ok(vec![load("own", steps, items, Producers::One, cpus)]);
    }
    let names = LOADS.map(|load| load.0);
    for name in &options.loads {
        let known = names.contains(&name.as_str());
        ensure!(known, "there is no load {name:?}; there are {}", names.join(", "));
    }
    let is_chosen = |name: &str| match &options.loads[..] {
        [] => !session.quick || name == names[0],
        named => named.iter().any(|chosen| chosen == name),
    };
    let mut chosen = Vec::new();
    for (name, items, steps, producers) in LOADS.into_iter().filter(|load| is_chosen(load.0)) {
        let items = (items * cpus).div_ceil(2);
        chosen.push(load(name, &steps.parse()?, items, producers, cpus));
    }
    Ok(chosen)
}

fn load(name: &str, steps: &Steps, items: usize, producers: Producers, cpus: usize) -> Load {
    let from = match producers {
        Producers::One => "one thread",
        Producers::Many => "a thread per CPU",
        Producers::Inside => "an item",
    };
    Load {
        name: format!("waits-{name}"),
        title: format!("{items} items from {from}, each {}", describe(steps)),
        ideal_ns: steps.ideal_ns(items, cpus),
        goal: bench_sizes::GOAL,
        job: Job { producers, variant: steps.to_string(), ..Job::new(Bench::Waits, cpus, items) },
    }
}

fn describe(steps: &Steps) -> String {
    let time = |time: Duration| Unit::Time.show(sys::duration_ns(time) as f64);
    let describe = |step: &Step| match *step {
        Step::Burn(of) => format!("{} of CPU time", time(of)),
        Step::Sleep(of) => format!("{} asleep", time(of)),
        Step::Lock(of) => format!("{} waiting for another thread", time(of)),
        Step::Pipe(of) => format!("{} waiting for a pipe", time(of)),
        Step::Child(of) => format!("a process that sleeps for {}", time(of)),
        Step::File(pages) => format!("{pages} pages of a file that is not in memory"),
    };
    steps.steps.iter().map(describe).collect::<Vec<_>>().join(", then ")
}

/// What every item shares, each time that the load is done.
struct Items<P: 'static> {
    peer: &'static P,
    gate: &'static Gate,
    steps: Vec<Step>,
    file: Option<cold::File>,
}

/// Runs one round in this process.
pub(crate) fn measure<P: Peer>(job: &Job) -> Result<Makespan> {
    let steps: Steps = job.variant.parse()?;
    let peer: &'static P = Box::leak(Box::new(P::start(job)?));
    peers::warm_up(peer, job.cpus);
    Makespan::of(job, || once(job, &steps, peer))
}

/// How long it takes.
fn once<P: Peer>(job: &Job, steps: &Steps, peer: &'static P) -> Result<f64> {
    let pages = steps.pages() * job.count;
    let file = if pages > 0 { Some(cold_file(pages)?) } else { None };
    let gate = Gate::leaked(job.count);
    let items = Items { peer, gate, steps: steps.steps.clone(), file };
    let items: &'static Items<P> = Box::leak(Box::new(items));
    let (count, cpus) = (job.count, job.cpus);
    let start = Instant::now();
    match job.producers {
        Producers::One => items.queue(0..count),
        Producers::Many => {
            for turn in 0..cpus {
                let part = count * turn / cpus..count * (turn + 1) / cpus;
                std::thread::spawn(move || items.queue(part));
            }
        }
        Producers::Inside => peer.spawn(move || items.queue(0..count)),
    }
    gate.wait();
    Ok(sys::duration_ns(start.elapsed()) as f64)
}

impl<P: Peer> Items<P> {
    fn queue(&'static self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            self.peer.spawn(move || self.run(number));
        }
    }

    fn run(&'static self, number: usize) {
        for step in &self.steps {
            match *step {
                Step::Burn(time) => sys::burn(time),
                Step::Sleep(time) => P::block(|| std::thread::sleep(time)),
                Step::Lock(time) => P::block(|| wait_for_thread(time)),
                Step::Pipe(time) => P::block(|| wait_for_pipe(time)),
                Step::Child(time) => P::block(|| wait_for_child(time)),
                Step::File(pages) => P::block(|| {
                    let file = self.file.as_ref().expect("there is one if a step needs it");
                    file.touch(number * pages..(number + 1) * pages);
                }),
            }
        }
        self.gate.done();
    }
}

fn wait_for_thread(time: Duration) {
    // For ever: the other thread may still be in `release` when this one goes on.
    let word: &'static AtomicU32 = Box::leak(Box::default());
    Timers::of_process().after(time, || sys::release(word));
    sys::block_until_released(word, PATIENCE);
}

fn wait_for_pipe(time: Duration) {
    let (mut reader, mut writer) = std::io::pipe().expect("a process can have a pipe");
    Timers::of_process().after(time, move || {
        writer.write_all(b"x").expect("the reader is there");
    });
    reader.read_exact(&mut [0]).expect("the writer writes");
}

fn wait_for_child(time: Duration) {
    let seconds = time.as_secs_f64().to_string();
    let status = Command::new("sleep").arg(seconds).status();
    assert!(status.expect("`sleep` is everywhere").success());
}

/// A file of at least so many pages, of which none is in memory.
fn cold_file(pages: usize) -> Result<cold::File> {
    let path = build_folder("cold")?.join("pages");
    let bytes = pages * rustix::param::page_size();
    if std::fs::metadata(&path).map_or(0, |file| file.len()) < bytes as u64 {
        make(&path, bytes).with_context(|| format!("making {}", path.display()))?;
    }
    cold::File::open(&path)
}

fn make(path: &Path, bytes: usize) -> Result<()> {
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let mut content = vec![0; bytes];
    fastrand::Rng::with_seed(1).fill(&mut content);
    let mut file = File::create(&new)?;
    file.write_all(&content)?;
    // Only what was written out can be forgotten.
    file.sync_all()?;
    Ok(std::fs::rename(&new, path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ideal_ms(steps: &str, items: usize) -> Option<f64> {
        Some(steps.parse::<Steps>().unwrap().ideal_ns(items, 2)? / 1e6)
    }

    #[test]
    fn the_ideal_waits_once_before_and_once_after_all_computing() {
        assert_eq!(ideal_ms("sleep:50000 burn:5000", 100), Some(300.0));
        assert_eq!(ideal_ms("burn:5000 sleep:50000", 100), Some(300.0));
        assert_eq!(
            ideal_ms("sleep:7000 burn:5000 sleep:1000 burn:5000 pipe:3000", 100),
            Some(510.0)
        );
        assert_eq!(ideal_ms("burn:1000 sleep:90000 burn:1000", 4), Some(92.0), "one item's length");
        assert_eq!(ideal_ms("lock:9000", 4), Some(9.0));
        assert_eq!(ideal_ms("child:1000 burn:1", 4), None);
        assert_eq!(ideal_ms("file:8 burn:1", 4), None);
    }

    #[test]
    fn what_is_no_step_is_refused() {
        for wrong in ["", "burn", "burn:x", "doze:5", "burn:-1"] {
            assert!(wrong.parse::<Steps>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_load_can_be_read() {
        for (name, items, steps, _) in LOADS {
            assert!(items > 0 && steps.parse::<Steps>().is_ok(), "{name}");
        }
    }

    #[test]
    fn every_wait_ends() {
        cold_file(64).unwrap().touch(0..64);
        wait_for_thread(Duration::from_micros(100));
        wait_for_pipe(Duration::from_micros(100));
        wait_for_child(Duration::from_micros(100));
    }
}
