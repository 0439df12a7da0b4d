//! Tests of the sources on real threads.
//!
//! Where a machine refuses a source, the test says why and does nothing.

mod descriptors;
mod park;
mod perf;
mod process;
mod sched;
mod subject;
mod thread_state;

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Only failing tests ever wait that long.
const PATIENCE: Duration = Duration::from_secs(200);

/// Lets other threads run until `condition` holds.
#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "this never came about: {what}");
        thread::yield_now();
    }
}

/// Says that a test could not be run, past the test harness, as the gate wants it.
fn skip(reason: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "not tested: {reason}");
}
