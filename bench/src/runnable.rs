//! How many threads of the machine were runnable while a command ran: whether there were more than
//! CPUs, and for how long without a break.
//!
//! The scheduler's own count, from `/proc/loadavg`: one number for the whole machine, so nothing
//! else may run beside. What was runnable before the command is not taken off.

use std::fs::File;
use std::io::Write as _;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::sys;

/// Options of `runnable`.
#[derive(Args, Debug)]
pub(crate) struct RunnableOptions {
    /// Microseconds between two looks.
    #[arg(long, default_value = "250")]
    every_us: NonZeroU64,
    /// The command, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// What the looks found.
#[derive(Debug, Default)]
struct Seen {
    looks: u64,
    most: u64,
    above: Duration,
    longest: Duration,
    /// Of the stretch that lasts still.
    stretch: Duration,
}

impl Seen {
    /// So many were runnable for so long, as far as a look every so often tells.
    fn add(&mut self, runnable: u64, cpus: u64, lasted: Duration) {
        self.looks += 1;
        self.most = self.most.max(runnable);
        if runnable <= cpus {
            self.stretch = Duration::ZERO;
            return;
        }
        self.above += lasted;
        self.stretch += lasted;
        self.longest = self.longest.max(self.stretch);
    }
}

/// Runs the command, looks until it has ended, and prints what was found.
pub(crate) fn run(options: &RunnableOptions) -> Result<()> {
    let cpus = sys::cpu_count() as u64;
    let (program, args) = options.command.split_first().context("no command")?;
    let counts = File::open("/proc/loadavg").context("opening /proc/loadavg")?;
    let every = Duration::from_micros(options.every_us.get());
    let mut seen = Seen::default();
    let start = Instant::now();
    let mut child = Command::new(program).args(args).spawn().context("starting the command")?;
    let mut last = start;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(every);
        let mut text = [0; 128];
        let length = counts.read_at(&mut text, 0)?;
        let now = Instant::now();
        // Without the thread that asks.
        let runnable = runnable(&text[..length]).context("reading /proc/loadavg")? - 1;
        seen.add(runnable, cpus, now - last);
        last = now;
    };
    let took = start.elapsed();
    ensure!(status.success(), "{program}: {status}");
    let Seen { looks, most, above, longest, .. } = seen;
    writeln!(
        std::io::stdout(),
        "runnable: CPUs {cpus}, most {most}, above for {:.1} % of {:.3} s, {:.1} ms at once, \
         {looks} looks",
        100.0 * above.as_secs_f64() / took.as_secs_f64(),
        took.as_secs_f64(),
        longest.as_secs_f64() * 1e3,
    )?;
    Ok(())
}

/// Of `0.20 0.18 0.12 3/80 11206` it is the 3.
fn runnable(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (runnable, _) = text.split_whitespace().nth(3)?.split_once('/')?;
    runnable.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runnable_threads_stand_in_the_fourth_field() {
        assert_eq!(runnable(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(runnable(b"0.20 0.18"), None);
    }

    #[test]
    fn a_stretch_lasts_until_no_more_than_the_cpus_are_runnable() {
        let mut seen = Seen::default();
        let ms = Duration::from_millis(1);
        for runnable in [1, 3, 3, 2, 5, 2] {
            seen.add(runnable, 2, ms);
        }
        assert_eq!((seen.most, seen.above, seen.longest), (5, 3 * ms, 2 * ms));
    }
}
