//! What a timer costs and how late it comes: arm a great many and cancel them one by one; then arm
//! as many that all expire within seconds.
//!
//! The items are made beforehand wherever a system lets its users do that. Whatever a system still
//! does on other threads when a call has returned is waited for, and counts.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::cli::DelayedOptions;
use crate::gate::Gate;
use crate::job::{Bench, Job};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, best_peer, row_of};
use crate::rounds::{Cell, Outcome, Session};
use crate::stats::{Spread, percentile};
use crate::sys;
use crate::systems::System;

const RUNS: usize = 5;
const COUNT: usize = 1_000_000;
const COUNT_QUICK: usize = 100_000;

/// Delays of what is cancelled, in seconds: request timeouts, sessions, leases.
const FAR_S: std::ops::Range<u64> = 10..1_000;
/// One item in this many fires before the ones that count, for started threads.
const WARM_UP_SHARE: u32 = 10;
/// How often the end of the warm-up is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Delays of what is waited for spread over this time.
const WINDOW: Duration = Duration::from_secs(2);

const TITLES: [&str; 7] =
    ["arm", "cancel", "arm + cancel", "cancel, shuffled", "late p50", "late p99", "late max"];
const ARM_AND_CANCEL: usize = 2;
const LATE_P99: usize = 5;

const NOTES: [&str; 3] = [
    "cancel, shuffled: in an order that has nothing to do with that of arming, so each call finds \
     its item and two neighbours in no cache",
    "tokio: a task per item, which sleeps and then runs the function; cancelling is aborting it",
    "tokio-async: bare `Sleep` futures, polled once and dropped: the timing wheel alone, with \
     nobody to run when they expire",
];

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    arm_ns: f64,
    cancel_ns: f64,
    cancel_shuffled_ns: f64,
    /// 50th and 99th percentile and maximum; absent where nothing can fire.
    late_ns: Option<[f64; 3]>,
}

/// A system's timers. Item `i` calls [`Book::fired`] with `i` when it runs.
pub(crate) trait Timers: Sized {
    /// Whether items run when they expire.
    const FIRES: bool = true;

    /// Makes `book.len()` items.
    fn start(cpus: usize, book: &'static Book) -> Result<Self>;

    /// Arms an item that is not armed.
    fn arm(&mut self, item: usize, delay: Duration);

    /// Waits until all are really armed.
    fn settle(&mut self) {}

    /// Cancels an armed item.
    fn cancel(&mut self, item: usize);

    /// Waits until everything cancelled is really gone.
    fn settle_cancelled(&mut self) {}
}

/// When each item is due, and how late it came.
#[derive(Debug)]
pub(crate) struct Book {
    /// Until the item has run, when it is due; then how late it came.
    times: Vec<AtomicU64>,
    early: AtomicUsize,
    gate: Gate,
}

impl Book {
    fn leaked(count: usize) -> &'static Self {
        let times = (0..count).map(|_| AtomicU64::new(0)).collect();
        Box::leak(Box::new(Self {
            times,
            early: AtomicUsize::new(0),
            gate: Gate::new(warm_up(count) + count),
        }))
    }

    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// The item runs.
    pub(crate) fn fired(&self, item: usize) {
        let now = sys::now_ns();
        // ORDERING: the due time was written before the item was armed; the gate's Release makes
        // what is written here visible to the waiter.
        let due = self.times[item].load(Ordering::Relaxed);
        if now < due {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        self.times[item].store(now.saturating_sub(due), Ordering::Relaxed);
        self.gate.done();
    }

    /// Percentiles once all have run.
    fn lateness(&self) -> Result<[f64; 3]> {
        self.gate.wait();
        let early = self.early.load(Ordering::Relaxed);
        ensure!(early == 0, "{early} of {} items ran before they were due", self.len());
        let late: Vec<f64> =
            self.times.iter().map(|late| late.load(Ordering::Relaxed) as f64).collect();
        Ok([50.0, 99.0, 100.0].map(|percent| percentile(&late, percent).unwrap_or(f64::NAN)))
    }
}

/// Runs one round in this process.
pub(crate) fn measure<T: Timers>(job: &Job) -> Result<Sample> {
    let book = Book::leaked(job.count);
    let mut timers = T::start(job.cpus, book)?;
    let mut rng = Rng::with_seed(job.seed);
    let far: Vec<Duration> = (0..job.count)
        .map(|_| {
            Duration::from_nanos(rng.u64(FAR_S.start * 1_000_000_000..FAR_S.end * 1_000_000_000))
        })
        .collect();
    let mut order: Vec<usize> = (0..job.count).collect();
    // The first time round pays for page faults and started threads.
    time_arm(&mut timers, &far);
    time_cancel(&mut timers, &order);
    let arm_ns = time_arm(&mut timers, &far);
    let cancel_ns = time_cancel(&mut timers, &order);
    rng.shuffle(&mut order);
    time_arm(&mut timers, &far);
    let cancel_shuffled_ns = time_cancel(&mut timers, &order);
    let late_ns = T::FIRES.then(|| fire(&mut timers, book, job.wait(), &mut rng)).transpose()?;
    Ok(Sample { arm_ns, cancel_ns, cancel_shuffled_ns, late_ns })
}

fn time_arm(timers: &mut impl Timers, delays: &[Duration]) -> f64 {
    let start = Instant::now();
    for (item, &delay) in delays.iter().enumerate() {
        timers.arm(item, delay);
    }
    timers.settle();
    sys::duration_ns(start.elapsed()) as f64 / delays.len() as f64
}

fn time_cancel(timers: &mut impl Timers, order: &[usize]) -> f64 {
    let start = Instant::now();
    for &item in order {
        timers.cancel(item);
    }
    timers.settle_cancelled();
    sys::duration_ns(start.elapsed()) as f64 / order.len() as f64
}

fn fire<T: Timers>(
    timers: &mut T,
    book: &'static Book,
    window: Duration,
    rng: &mut Rng,
) -> Result<[f64; 3]> {
    let mut arm = |items, window: Duration| {
        for item in 0..items {
            let delay = rng.u64(1..=sys::duration_ns(window).max(1));
            // ORDERING: arming hands it over.
            book.times[item].store(sys::now_ns() + delay, Ordering::Relaxed);
            timers.arm(item, Duration::from_nanos(delay));
        }
    };
    arm(warm_up(book.len()), window / WARM_UP_SHARE);
    while book.gate.left() > book.len() {
        thread::sleep(LOOK_EVERY);
    }
    arm(book.len(), window);
    book.lateness()
}

/// Items of the warm-up.
fn warm_up(count: usize) -> usize {
    count / WARM_UP_SHARE as usize
}

/// Measures all chosen systems and makes the table.
pub(crate) fn run(session: &mut Session, options: &DelayedOptions) -> Result<Section> {
    let rounds = session.rounds(RUNS);
    let count = session.size(options.count, COUNT, COUNT_QUICK);
    let window = options.window_ms.map_or(WINDOW, |ms| Duration::from_millis(ms.get()));
    let wait_us = sys::duration_ns(window) / 1_000;
    let job = Job { wait_us, ..Job::new(Bench::Delayed, session.cpus, count) };
    let entrants = session.entrants(Bench::Delayed);
    let cells = entrants.iter().map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let outcomes = session.alternate::<Sample>("delayed", cells, rounds)?;
    let rows: Vec<Row> = outcomes.iter().map(row).collect();
    Ok(Section {
        curves: Vec::new(),
        name: "delayed".to_owned(),
        title: format!(
            "delayed: {count} items armed for {} to {} s ahead and cancelled, then as many that \
             expire within {} s; {} rounds",
            FAR_S.start,
            FAR_S.end,
            window.as_secs_f64(),
            rounds.runs,
        ),
        columns: TITLES.map(|title| Column::new(title, Unit::Time)).to_vec(),
        ratios: ratios(&rows),
        rows,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

fn row(outcome: &Outcome<Sample>) -> Row {
    let figure = |value: &dyn Fn(&Sample) -> Option<f64>| {
        let values: Option<Vec<f64>> =
            outcome.samples.iter().map(|one| value(&one.sample)).collect();
        Spread::of(&values?)
    };
    let late = |index: usize| figure(&|one| Some(one.late_ns?[index]));
    let figures = vec![
        figure(&|one| Some(one.arm_ns)),
        figure(&|one| Some(one.cancel_ns)),
        figure(&|one| Some(one.arm_ns + one.cancel_ns)),
        figure(&|one| Some(one.cancel_shuffled_ns)),
        late(0),
        late(1),
        late(2),
    ];
    row_of(outcome, Bench::Delayed, figures)
}

fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let ours = |column| Side::of(rows, System::CmwqWork, column);
    let fixed = |name, value| Some(Side::named(name, value));
    let ratio = |what, column, theirs| Ratio::new(what, Unit::Time, ours(column), theirs);
    [
        ratio("arm + cancel", ARM_AND_CANCEL, fixed("100 ns", 100.0)).goal(1.0),
        ratio("late p99", LATE_P99, fixed("1 ms", 1e6)).goal(1.0),
        ratio("arm + cancel / best peer", ARM_AND_CANCEL, best_peer(rows, ARM_AND_CANCEL)).value(),
        ratio("late p99 / best peer", LATE_P99, best_peer(rows, LATE_P99)).value(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
