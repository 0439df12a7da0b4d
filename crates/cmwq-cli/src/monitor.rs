//! `cmwq monitor`: what a process's queues have done, again and again.
//!
//! KERNEL: `tools/workqueue/wq_monitor.py` — same columns, names and JSON keys. A managed queue
//! counts both as the kernel's unbound queues do (repatriated workers) and as its per-CPU ones (CPU
//! hogs, wake-ups), since it is both spread and managed: it shows what per-CPU queues show.

mod rows;

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use cmwq_observe::inspect::{Queue, Snapshot, Target};
use regex::Regex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::look::Which;
use crate::{enough, exit, look, message, output};

/// LIMIT: queues of a table.
const MOST_QUEUES: usize = 1000;

/// Show what the workqueues of a running process have done, at intervals
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("monitor/help.txt"))]
pub(crate) struct Args {
    /// The process: its number or name; `-` is the only one that uses cmwq
    #[arg(value_name = "PROCESS", default_value = "-", value_parser = Which::parse)]
    process: Which,

    /// Show only queues whose names one of these expressions finds something in
    #[arg(value_name = "REGEX", value_parser = Regex::new)]
    names: Vec<Regex>,

    /// Seconds from one table to the next; 0: once
    #[arg(short, long, value_name = "SECS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,

    /// Show all queues, however many they are
    #[arg(long)]
    all: bool,

    /// Print one JSON object per queue and line instead of tables
    #[arg(short, long)]
    json: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.0..=1e6).contains(&seconds) {
        return Err("seconds from 0 to 1000000".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    match monitor(args) {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(code) => code,
    }
}

fn monitor(args: &Args) -> Result<(), ExitCode> {
    let target = look::open(&args.process)?;
    let mut waiting = Waiting::new(&target, args.interval)?;
    loop {
        print(&target, args)?;
        // After an `exec` the process goes on, and what it showed does not.
        if args.interval.is_zero() || !waiting.wait() || !target.is_shown() {
            return Ok(());
        }
    }
}

fn print(target: &Target, args: &Args) -> Result<(), ExitCode> {
    let seen = look::snapshot(target)?;
    let is_wanted = |queue: &&Queue| {
        args.names.is_empty() || args.names.iter().any(|name| name.is_match(&queue.name))
    };
    let mut queues: Vec<&Queue> = seen.queues.iter().filter(is_wanted).collect();
    let left_out = if args.all { 0 } else { look::limit::cut(&mut queues, MOST_QUEUES) };
    let printed = if args.json {
        output::print_json(&rows::json(&seen, &queues, now()))
    } else {
        output::print_foreign(&rows::table(&seen, &queues))
    };
    if left_out > 0 {
        message::say(format_args!(
            "{left_out} workqueues are left out: --all shows them, and an expression those that \
             it finds"
        ));
    }
    if printed == ExitCode::from(exit::DONE) {
        return Ok(());
    }
    // Nobody reads any more, or it cannot be written: that ends it.
    Err(printed)
}

/// The time of day, in seconds.
fn now() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64()
}

/// A byte can be read from it after SIGINT or SIGTERM.
fn interrupts() -> io::Result<UnixStream> {
    let (read, mut write) = UnixStream::pair()?;
    enough::listen(&[SIGINT, SIGTERM], move || _ = write.write(b"x"))?;
    Ok(read)
}

/// What one waits for between two tables.
struct Waiting {
    /// Readable when the process has ended. `None`: the system has no such descriptors.
    end: Option<OwnedFd>,
    interval: Duration,
    next: Instant,
    /// Readable when the user has had enough. Not a flag: a signal just before the wait would be
    /// missed.
    interrupts: UnixStream,
}

impl Waiting {
    fn new(target: &Target, interval: Duration) -> Result<Self, ExitCode> {
        let interrupts = interrupts().map_err(|error: io::Error| {
            message::say(format_args!("signals: {error}"));
            ExitCode::from(exit::FAILED)
        })?;
        let pid = i32::try_from(target.pid()).ok().and_then(Pid::from_raw);
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Self { end, interval, next: Instant::now() + interval, interrupts })
    }

    /// Until it is time for the next table. `false`: there is none, since the process has ended or
    /// the user has had enough.
    fn wait(&mut self) -> bool {
        loop {
            let now = Instant::now();
            let left = self.next.saturating_duration_since(now);
            if left.is_zero() {
                self.next = following(self.next, self.interval, now);
                return true;
            }
            let left = Timespec::try_from(left.min(Duration::from_secs(3600))).ok();
            let mut fds: Vec<PollFd<'_>> =
                self.end.iter().map(|end| PollFd::new(end, PollFlags::IN)).collect();
            fds.push(PollFd::new(&self.interrupts, PollFlags::IN));
            // Interrupted by a signal, it looks again.
            if poll(&mut fds, left.as_ref()).is_ok_and(|ready| ready > 0) {
                return false;
            }
        }
    }
}

/// When the table after the one of `due` comes. What was missed, as while this command was stopped
/// (Ctrl-Z), is not made up for.
fn following(due: Instant, interval: Duration, now: Instant) -> Instant {
    let next = due + interval;
    if next > now { next } else { now + interval }
}

/// What is shown of one queue.
fn stats(seen: &Snapshot, queue: &Queue) -> cmwq::Stats {
    seen.stats_of(queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_keep_their_rhythm_and_those_that_were_missed_do_not_come() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let late = Duration::from_millis(300);
        assert_eq!(following(begin, second, begin + late), begin + second);
        let hour = begin + 3600 * second;
        assert_eq!(following(begin, second, hour), hour + second);
    }
}
