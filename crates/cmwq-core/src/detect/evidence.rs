//! What a look at a worker's thread tells: whether the worker is blocked, or back.
//!
//! KERNEL: no twin. There the scheduler reports it (`wq_worker_sleeping`, `wq_worker_running`).

use super::By;
use crate::ids::Nanos;

/// Where only a thread's CPU time is known, the thread is taken for blocked when so many looks in a
/// row have found that time unchanged. It may only be starved of CPU; that costs one worker too
/// many, for a while.
pub const STILL_LOOKS: u32 = 3;

/// What a look tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// On a CPU, or waiting for one.
    Running,
    /// Waiting for something else than a CPU.
    Blocked,
    /// It cannot be told.
    Unknown,
}

/// What the last switch record of a thread says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// There is none yet.
    None,
    /// It got a CPU, or lost it to another thread.
    Runnable,
    /// It gave its CPU up.
    Blocked,
}

/// How a thread spent the time between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    /// It had no CPU.
    Nothing,
    /// It had one at times.
    Some,
    /// It had one nearly all the time.
    All,
}

impl Used {
    /// Of `passed` nanoseconds, `used` on a CPU.
    #[must_use]
    pub const fn of(used: Nanos, passed: Nanos) -> Self {
        match used {
            0 => Self::Nothing,
            _ if used >= passed - passed / 8 => Self::All,
            _ => Self::Some,
        }
    }
}

/// The ways to look at a thread, the cheapest first. Each is used only where it is needed.
pub trait Senses {
    /// Its last switch record; `None`: it has no records.
    fn switched(&mut self) -> Option<Switch>;
    /// How it spent the time since this was last asked; `None`: that cannot be told.
    fn used(&mut self) -> Option<Used>;
    /// Whether its state is one of waiting for something else than a CPU; `None`: that cannot be
    /// told.
    fn is_blocked(&mut self) -> Option<bool>;
    /// Counts a look that found the CPU time unchanged. Returns how many there were in a row.
    fn stood_still(&mut self) -> u32;
}

/// Whether a worker that is believed to run is blocked. The tick comes back, so to it the cheap
/// look at the CPU time may spare the dearer one at the state: a thread that had a CPU nearly all
/// the time most probably has it now.
pub fn state(thread: &mut impl Senses, by: By) -> Seen {
    match thread.switched() {
        Some(Switch::Blocked) => return Seen::Blocked,
        Some(Switch::Runnable) => return Seen::Running,
        Some(Switch::None) | None => {}
    }
    let used = match by {
        By::Tick => thread.used(),
        By::Alarm => None,
    };
    if used == Some(Used::All) {
        return Seen::Running;
    }
    match thread.is_blocked() {
        Some(true) => Seen::Blocked,
        Some(false) => Seen::Running,
        None if used == Some(Used::Nothing) && thread.stood_still() >= STILL_LOOKS => Seen::Blocked,
        None => Seen::Unknown,
    }
}

/// Whether a worker that stands for processes is blocked: it is if its own thread is, and none of
/// the processes is running. `processes_run`: whether one of them is running; `None`: that is
/// unknown, and so is the answer. The processes are asked first: nearly always the worker waits and
/// they run.
pub fn state_for(
    thread: &mut impl Senses,
    by: By,
    processes_run: impl FnOnce() -> Option<bool>,
) -> Seen {
    match processes_run() {
        Some(true) => Seen::Running,
        Some(false) => state(thread, by),
        None => Seen::Unknown,
    }
}

/// Whether a worker that stands for processes, and is believed blocked with them, is back: it is if
/// it is itself, or any of them runs. `processes_run`: as for [`state_for`].
pub fn is_back_for(thread: &mut impl Senses, processes_run: impl FnOnce() -> Option<bool>) -> bool {
    is_back(thread) || processes_run() == Some(true)
}

/// Whether a worker that is believed blocked is back. One that did not run since the last look
/// cannot be.
pub fn is_back(thread: &mut impl Senses) -> bool {
    match thread.switched() {
        Some(switch) => switch == Switch::Runnable,
        None => thread.used() != Some(Used::Nothing) && thread.is_blocked() == Some(false),
    }
}
