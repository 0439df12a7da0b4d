//! Many seeds on all CPUs, with a progress bar.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cmwq_sim::swarm::{Options, run_seed, run_seed_with};
use cmwq_sim::{Plan, Report};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What each seed runs.
pub(super) struct Source {
    /// Instead of a random plan.
    pub(super) plan: Option<Plan>,
    pub(super) options: Options,
    pub(super) keep_events: bool,
}

impl Source {
    /// Runs one seed.
    pub(super) fn run(&self, seed: u64) -> Report {
        match &self.plan {
            None if !self.keep_events => run_seed(seed, &self.options),
            plan => run_seed_with(seed, &self.options, plan.as_ref(), self.keep_events),
        }
    }
}

/// What came of all seeds.
#[derive(Debug, Default)]
pub(super) struct Total {
    pub(super) seeds: u64,
    pub(super) items: u64,
    pub(super) events: u64,
    pub(super) virtual_ns: u64,
    pub(super) elapsed: Duration,
    /// The reports with complaints, lowest seed first.
    pub(super) complaints: Vec<Report>,
}

impl Total {
    fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.items += report.outcome.stats.queued;
        self.events += report.outcome.stats.events;
        self.virtual_ns = self.virtual_ns.saturating_add(report.outcome.end);
        if report.violation().is_some() {
            self.complaints.push(report);
        }
    }
}

/// Runs all seeds; `show` a bar on standard error.
pub(super) fn run_all(source: &Source, seeds: Range<u64>, show: bool) -> Total {
    let started = Instant::now();
    let target = if show { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(seeds.end - seeds.start), target);
    let style = ProgressStyle::with_template("[{elapsed}] {wide_bar} {pos}/{len} seeds{msg}");
    bar.set_style(style.expect("the template is well formed"));
    let (total, next) = (Mutex::new(Total::default()), AtomicU64::new(seeds.start));
    let work = || {
        loop {
            // ORDERING: no pairing: a counter.
            let seed = next.fetch_add(1, Ordering::Relaxed);
            // A wrapped counter is below the first seed.
            if !seeds.contains(&seed) {
                return;
            }
            let report = source.run(seed);
            let mut total = total.lock().expect("no seed panics");
            total.add(report);
            if !total.complaints.is_empty() {
                bar.set_message(format!(", complaints in {}", total.complaints.len()));
            }
            drop(total);
            bar.inc(1);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    bar.finish_and_clear();
    let mut total = total.into_inner().expect("no seed panics");
    total.complaints.sort_by_key(|report| report.seed);
    total.elapsed = started.elapsed();
    total
}
