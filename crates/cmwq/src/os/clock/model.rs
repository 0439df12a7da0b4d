//! The time of a model: it passes when somebody sleeps, and a little with each look.
//!
//! A model checker runs all threads of an execution on one thread of the system, and so each test
//! has its own time.

use std::cell::Cell;
use std::time::Duration;

use cmwq_core::Nanos;

/// As on the system's clock, "at the start" differs from "never".
const START: Nanos = 1_000_000_000;
const LOOK: Nanos = 1_000;

std::thread_local! {
    static NOW: Cell<Nanos> = const { Cell::new(START) };
}

pub(crate) fn now() -> Nanos {
    pass(Duration::from_nanos(LOOK));
    NOW.get()
}

/// As on the system's clock, a number that changes now and then.
pub(crate) fn coarse() -> Nanos {
    NOW.get() >> 22
}

pub(crate) fn lately() -> Nanos {
    coarse()
}

pub(crate) fn refresh_coarse() {}

/// Lets time pass.
pub(crate) fn pass(time: Duration) {
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    NOW.set(NOW.get().saturating_add(time));
}

/// Begins a new execution.
#[cfg(test)]
pub(crate) fn restart() {
    NOW.set(START);
}
