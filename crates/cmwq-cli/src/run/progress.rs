//! The progress bar: what is done, runs, waits and has failed, and how long it takes still.

use std::io;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{descriptors, message};

const TEMPLATE: &str = "[{elapsed}] {wide_bar} {msg}";

/// How far everything is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stand {
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) running: u64,
    /// Commands that are known so far.
    pub(super) known: u64,
    /// There will be no more.
    pub(super) is_all: bool,
}

impl Stand {
    /// What the bar says beside itself, after so long.
    fn text(&self, passed: Duration) -> String {
        let of = if self.is_all { "" } else { "+" };
        let waiting = self.known.saturating_sub(self.done + self.running);
        let mut text = format!(
            "{}/{}{of} done, {} running, {waiting}{of} waiting",
            self.done, self.known, self.running
        );
        if self.failed > 0 {
            text += &format!(", {} failed", self.failed);
        }
        if self.is_all && self.done > 0 && self.done < self.known {
            let left = passed.as_secs_f64() / self.done as f64 * (self.known - self.done) as f64;
            text += &format!(", {} left", HumanDuration(Duration::from_secs_f64(left)));
        }
        text
    }
}

/// A bar on standard error, or nothing.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    /// Known from the start: to ask the bar takes its lock, which somebody may have who waits for
    /// the terminal.
    is_shown: bool,
}

impl Progress {
    /// Nothing is shown where standard error is no terminal.
    pub(super) fn new(is_wanted: bool) -> Self {
        if !is_wanted {
            return Self { bar: ProgressBar::hidden(), is_shown: false };
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is well formed");
        let bar = bar.with_style(style);
        let is_shown = !bar.is_hidden();
        if is_shown {
            message::stand_beside(&bar);
        }
        Self { bar, is_shown }
    }

    /// Shows how far everything is, unless that has to wait for the terminal.
    pub(super) fn show(&self, stand: &Stand) {
        if !self.is_shown || !descriptors::takes_more(io::stderr()) {
            return;
        }
        message::draw(|| {
            self.bar.set_message(stand.text(self.bar.elapsed()));
            self.bar.set_length(stand.known);
            self.bar.set_position(stand.done);
        });
    }

    /// Does something with the terminal while the bar is not there.
    pub(super) fn aside<T>(&self, what: impl FnOnce() -> T) -> T {
        if self.is_shown { message::beside(&self.bar, what) } else { what() }
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_runs_waits_and_has_failed() {
        let stand = Stand { done: 3, failed: 0, running: 2, known: 10, is_all: false };
        let text = stand.text(Duration::from_secs(6));
        assert_eq!(text, "3/10+ done, 2 running, 5+ waiting");
        let stand = Stand { failed: 1, is_all: true, ..stand };
        let text = stand.text(Duration::from_secs(6));
        assert_eq!(text, "3/10 done, 2 running, 5 waiting, 1 failed, 14 seconds left");
    }
}
