//! The progress bar, and the counters it shows.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the bar is redrawn.
const REDRAW: Duration = Duration::from_millis(100);

const TEMPLATE: &str = "[{elapsed}] {wide_bar} {pos}/{len} files, {msg}";

/// What is known so far. Every field is only shown, never decided upon.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Files found so far.
    pub(crate) found: AtomicU64,
    /// Files hashed or failed.
    pub(crate) done: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) errors: AtomicU64,
}

impl Counters {
    /// Adds to one of the counters.
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        // ORDERING: no pairing: a statistic.
        counter.fetch_add(count, Relaxed);
    }

    /// Takes back what was added too early.
    pub(crate) fn take_back(counter: &AtomicU64, count: u64) {
        // ORDERING: no pairing: a statistic.
        counter.fetch_sub(count, Relaxed);
    }

    /// Reads one of the counters.
    pub(crate) fn get(counter: &AtomicU64) -> u64 {
        // ORDERING: no pairing: a statistic; the end of the last item orders the final reading.
        counter.load(Relaxed)
    }
}

/// A progress bar, or nothing where standard error is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar on standard error, if that is a terminal.
    pub(crate) fn on_stderr() -> Progress {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is well formed");
        Progress { bar: bar.with_style(style) }
    }

    /// Shows `counters` until the channel `ended` closes, then takes the bar away.
    pub(crate) fn until(&self, ended: &Receiver<Infallible>, counters: &Counters) {
        if self.bar.is_hidden() {
            let _ = ended.recv();
            return;
        }
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REDRAW) {
            self.show(counters);
        }
        self.bar.finish_and_clear();
    }

    fn show(&self, counters: &Counters) {
        let bytes = Counters::get(&counters.bytes);
        let seconds = self.bar.elapsed().as_secs_f64().max(REDRAW.as_secs_f64());
        let rate = HumanBytes((bytes as f64 / seconds) as u64);
        let mut message = format!("{}, {rate}/s", HumanBytes(bytes));
        match Counters::get(&counters.errors) {
            0 => {}
            1 => message += ", 1 error",
            errors => message += &format!(", {errors} errors"),
        }
        self.bar.set_message(message);
        self.bar.set_length(Counters::get(&counters.found));
        self.bar.set_position(Counters::get(&counters.done));
    }
}
