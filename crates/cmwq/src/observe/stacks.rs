//! The stacks of other threads of this process, for reports of stalls.
//!
//! A thread is asked by a signal. Its handler copies three registers and the upper part of its
//! stack into a buffer that was made before, and returns; it calls nothing, so it may interrupt
//! anything (`handler`, `request`). What the copy means is worked out afterwards, by whoever asked:
//! frames from the unwind tables in memory (`walk`), names and lines from the debug information
//! (`symbols`).
//!
//! The signal is a real-time signal that the program has not given a handler; if there is none, or
//! a thread has it blocked, or does not answer, the reason is what one gets in place of a stack.
//!
//! Why: docs/decisions/stacks-copied.md

use std::time::{Duration, Instant};

use crate::engine::tools::params::Params;
use crate::engine::tools::thread::Thread;
use crate::observe::watchdog::{Frame, Stack};
use crate::os::text;

mod handler;
mod request;
mod symbols;
mod walk;

/// LIMIT: for so long a thread is waited for, on a machine that has little time for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often one looks whether it has answered.
const REST: Duration = Duration::from_micros(500);

/// The stacks of one report: all threads together are waited for no longer than twice as long as
/// one.
pub(crate) struct Stacks {
    signal: Result<i32, String>,
    /// For how long threads may still be waited for. What is done with their stacks takes nothing
    /// of it: the first look into the debug information of a large program takes seconds.
    left: Duration,
    modules: Option<walk::Modules>,
}

impl Stacks {
    /// Makes sure that threads can be asked.
    pub(crate) fn begin(params: &Params) -> Self {
        let signal = match params.watchdog_signal {
            Some(0) => Err("stacks are off (watchdog_signal=0)".to_owned()),
            wanted => handler::install(wanted),
        };
        Self { signal, left: 2 * PATIENCE, modules: None }
    }

    /// The stack of a worker's thread, down to its item's function.
    pub(crate) fn of(&mut self, thread: &Thread) -> Stack {
        match self.addresses(thread) {
            Ok(addresses) => Stack::Frames(symbols::frames(&addresses)),
            Err(reason) => Stack::Missing(reason),
        }
    }

    fn addresses(&mut self, thread: &Thread) -> Result<Vec<u64>, String> {
        let signal = self.signal.clone()?;
        let tid = thread.comm.tid().ok_or("the thread's number is not known")?;
        refusal(tid, signal).map_or(Ok(()), Err)?;
        handler::ask(signal, tid, thread.stack())?;
        if !self.wait() {
            handler::withdraw()?;
            return Err(format!("the thread did not answer signal {signal}"));
        }
        let modules = self.modules.get_or_insert_with(walk::Modules::loaded);
        Ok(handler::with_answer(|answer| modules.walk(answer)))
    }

    /// Whether the thread that was asked has answered.
    fn wait(&mut self) -> bool {
        let start = Instant::now();
        let patience = self.left.min(PATIENCE);
        while !handler::has_answered() && start.elapsed() < patience {
            std::thread::sleep(REST);
        }
        self.left = self.left.saturating_sub(start.elapsed());
        handler::has_answered()
    }
}

/// Why the thread would not answer, as far as that can be seen.
fn refusal(tid: libc::pid_t, signal: i32) -> Option<String> {
    let status = text::read(format!("/proc/self/task/{tid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_start_matches(':').trim().to_owned())
    };
    match field("State").unwrap_or_default().bytes().next() {
        Some(b'D') => return Some("the thread is in uninterruptible sleep".to_owned()),
        Some(b'T' | b't') => return Some("the thread is stopped".to_owned()),
        _ => {}
    }
    let blocked = u64::from_str_radix(&field("SigBlk")?, 16).ok()?;
    let is_blocked = blocked & 1 << (signal - 1) != 0;
    is_blocked.then(|| format!("the thread has signal {signal} blocked"))
}

/// See `fork`.
pub(crate) fn forget() {
    handler::forget();
}

/// The name of a function, and where it is.
pub(crate) fn function_at(address: usize) -> Option<Frame> {
    symbols::frames_at(address as u64).pop()
}
