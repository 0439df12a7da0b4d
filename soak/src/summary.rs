//! What a run comes to.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::watch::Course;
use crate::world::Totals;

/// Counts of a run in which nothing was wrong.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) seed: u64,
    pub(crate) secs: u64,
    pub(crate) threads: usize,
    pub(crate) calls: u64,
    pub(crate) queues: u64,
    /// Closures that ran, and that queues refused while they were drained.
    pub(crate) closures: u64,
    pub(crate) refused: u64,
    /// Runs of reusable items, and queueings of them that were taken back.
    pub(crate) runs: u64,
    pub(crate) cancelled: u64,
    pub(crate) panics: u64,
    pub(crate) freezes: u64,
    pub(crate) forks: u64,
    pub(crate) mask_changes: u64,
    pub(crate) thread_failures: u64,
    pub(crate) rss_peak_mib: u64,
    /// Medians of the second quarter of the time and of the last; none for short runs.
    pub(crate) rss_trend_mib: Option<(u64, u64)>,
    pub(crate) threads_peak: u64,
}

impl Summary {
    pub(crate) fn new(
        seed: u64,
        secs: u64,
        threads: usize,
        totals: &Totals,
        course: &Course,
    ) -> Self {
        let load = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Self {
            seed,
            secs,
            threads,
            calls: load(&totals.calls),
            queues: load(&totals.queues),
            closures: load(&totals.closures),
            refused: load(&totals.refused),
            runs: load(&totals.runs),
            cancelled: load(&totals.cancelled),
            panics: load(&totals.panics_thrown),
            freezes: load(&totals.freezes),
            forks: load(&totals.forks),
            mask_changes: load(&totals.mask_changes),
            thread_failures: load(&totals.thread_failures),
            rss_peak_mib: course.rss.iter().copied().max().unwrap_or(0),
            rss_trend_mib: course.trend(),
            threads_peak: course.threads.iter().copied().max().unwrap_or(0),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, secs, threads, calls, queues, closures, refused, .. } = self;
        let Self { runs, cancelled, panics, freezes, forks, mask_changes, .. } = self;
        writeln!(f, "soak: {secs} s with {threads} threads, seed {seed}: all is well")?;
        writeln!(f, "{calls} calls, {queues} queues made")?;
        writeln!(f, "{closures} closures run, {refused} refused; {panics} panics, each delivered")?;
        writeln!(f, "{runs} runs of reusable items, {cancelled} taken back")?;
        writeln!(
            f,
            "{freezes} freezes, {forks} forks, {mask_changes} mask changes, {} times no thread",
            self.thread_failures
        )?;
        write!(f, "at most {} MiB and {} threads", self.rss_peak_mib, self.threads_peak)?;
        match self.rss_trend_mib {
            Some((early, late)) => {
                write!(f, "; {early} MiB in the second quarter, {late} in the last")
            }
            None => Ok(()),
        }
    }
}
