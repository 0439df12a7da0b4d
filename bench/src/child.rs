//! One measurement in a process of its own: start it, watch it, read its one line of JSON.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

use crate::sys::ThreadCount;

/// Variables that would change a peer's default size behind the table's back.
pub(crate) const CLEARED: [&str; 5] =
    ["RAYON_NUM_THREADS", "TOKIO_WORKER_THREADS", "BLOCKING_MAX_THREADS", "GOMAXPROCS", "GODEBUG"];

/// How often the threads of a child are counted where nothing else is asked for. A sample costs
/// some 10 µs: half a per cent of one CPU.
pub(crate) const COUNT_EVERY: Duration = Duration::from_millis(2);

/// How a child is watched while it measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// Killed when it takes longer.
    pub(crate) limit: Duration,
    /// How often its threads are counted, if they are.
    pub(crate) count_threads: Option<Duration>,
}

/// What a child told, and what was seen of it from outside.
#[derive(Debug)]
pub(crate) struct Measured<S> {
    pub(crate) sample: S,
    /// Most threads at once, 0 if they were not counted.
    pub(crate) peak_threads: u64,
    /// How long the foreground program took that ran beside it, 0 if there was none.
    pub(crate) foreground_ns: f64,
}

/// How a watched child ended, seen from the watcher.
#[derive(Debug, Default)]
struct Seen {
    peak_threads: u64,
    killed: bool,
}

/// Runs `command` to its end and parses what it printed.
pub(crate) fn run<S: DeserializeOwned>(command: &mut Command, watch: Watch) -> Result<Measured<S>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting a child process")?;
    let (out, seen) = read_while_watched(&mut child, watch)?;
    let mut complaint = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        // Only explains a failure that is reported anyway.
        let _ = pipe.read_to_string(&mut complaint);
    }
    let status = child.wait().context("waiting for a child process")?;
    if seen.killed {
        bail!("no result within {} s", watch.limit.as_secs());
    }
    if !status.success() {
        bail!("{status}: {}", first_line(&complaint));
    }
    let sample = serde_json::from_str(&out).with_context(|| format!("not a result: {out:?}"))?;
    Ok(Measured { sample, peak_threads: seen.peak_threads, foreground_ns: 0.0 })
}

/// Reads the child's output to its end, with a second thread beside it that can end a child that
/// hangs. The reading thread sleeps all the while: on a small machine a polling parent would be
/// part of the measurement.
fn read_while_watched(child: &mut Child, watch: Watch) -> Result<(String, Seen)> {
    let pid = Pid::from_child(child);
    let mut pipe = child.stdout.take().context("no pipe from the child process")?;
    thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let watcher = scope.spawn(move || look_on(pid, watch, &is_done));
        let mut out = String::new();
        let read = pipe.read_to_string(&mut out);
        // The child is reaped only after the watcher is gone, so the watcher's pid cannot mean
        // another process.
        drop(done);
        let seen = watcher.join().unwrap_or_default();
        read.context("reading a child's result")?;
        Ok((out, seen))
    })
}

fn look_on(pid: Pid, watch: Watch, is_done: &Receiver<()>) -> Seen {
    let end = Instant::now() + watch.limit;
    let every = watch.count_threads.unwrap_or(Duration::MAX);
    let threads = watch.count_threads.and_then(|_| ThreadCount::of(&pid.to_string()).ok());
    let mut seen = Seen::default();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let pause = every.min(left);
        if is_done.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return seen;
        }
        if let Some(now) = threads.as_ref().and_then(ThreadCount::read) {
            seen.peak_threads = seen.peak_threads.max(now);
        }
        if left.is_zero() {
            seen.killed = true;
            // Fails only if the child has just exited, and then reading its output ends as well.
            let _ = kill_process(pid, Signal::KILL);
            return seen;
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH: Watch = Watch { limit: Duration::from_secs(60), count_threads: Some(COUNT_EVERY) };

    fn shell(script: &str, watch: Watch) -> Result<Measured<u32>> {
        run(Command::new("sh").args(["-c", script]), watch)
    }

    #[test]
    fn the_printed_result_comes_back() {
        assert_eq!(shell("echo 42", WATCH).unwrap().sample, 42);
    }

    #[test]
    fn failures_say_what_the_child_said() {
        let error = shell("echo no such thing >&2; exit 3", WATCH).unwrap_err().to_string();
        assert!(error.contains("no such thing") && error.contains('3'), "{error}");
        let error = shell("echo nonsense", WATCH).unwrap_err().to_string();
        assert!(error.contains("nonsense"), "{error}");
    }

    #[test]
    fn a_child_that_hangs_is_ended() {
        let watch = Watch { limit: Duration::from_millis(50), count_threads: None };
        // `exec`, so that it is the sleeping process itself that holds the pipe.
        let error = shell("exec sleep 600", watch).unwrap_err().to_string();
        assert!(error.contains("no result"), "{error}");
    }
}
