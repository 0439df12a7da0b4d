//! What a thread of another process is doing, as `/proc` tells.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

/// Long enough for a running thread's CPU time to move: a scheduler tick is 10 ms at most.
const TICKS: Duration = Duration::from_millis(12);

/// See the module header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// On a CPU.
    Running,
    /// It wants a CPU and has none.
    Preempted,
    /// It waits, there in the kernel if that is told.
    Sleeping(Option<String>),
    /// Likewise, and not to be interrupted.
    Uninterruptible(Option<String>),
    /// By a signal or a debugger.
    Stopped,
    /// It has ended.
    Gone,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = |wchan: &Option<String>| {
            wchan.as_ref().map_or(String::new(), |wchan| format!(" in {wchan}"))
        };
        match self {
            Self::Running => write!(f, "running"),
            Self::Preempted => write!(f, "preempted"),
            Self::Sleeping(wchan) => write!(f, "sleeping{}", there(wchan)),
            Self::Uninterruptible(wchan) => write!(f, "sleeping uninterruptibly{}", there(wchan)),
            Self::Stopped => write!(f, "stopped"),
            Self::Gone => write!(f, "gone"),
        }
    }
}

/// The states of some threads, by one look, and a second one at those that want to run.
pub(crate) fn states(pid: u32, tids: &[u32]) -> Vec<State> {
    let before: Vec<Option<u64>> = tids.iter().map(|tid| cpu_time(pid, *tid)).collect();
    let mut states: Vec<State> = tids.iter().map(|tid| state(pid, *tid)).collect();
    if states.contains(&State::Running) {
        sleep(TICKS);
        for ((state_of, tid), before) in states.iter_mut().zip(tids).zip(before) {
            if *state_of == State::Running && before.is_some() && cpu_time(pid, *tid) == before {
                *state_of = State::Preempted;
            }
        }
    }
    states
}

fn task(pid: u32, tid: u32, file: &str) -> Option<String> {
    fs::read_to_string(PathBuf::from(format!("/proc/{pid}/task/{tid}/{file}"))).ok()
}

fn state(pid: u32, tid: u32) -> State {
    let Some(stat) = task(pid, tid, "stat") else { return State::Gone };
    // The name in parentheses may hold anything.
    let letter = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    let wchan = || task(pid, tid, "wchan").filter(|wchan| !matches!(wchan.as_str(), "" | "0"));
    match letter {
        Some('R') => State::Running,
        Some('D') => State::Uninterruptible(wchan()),
        Some('T' | 't') => State::Stopped,
        Some('Z' | 'X') | None => State::Gone,
        Some(_) => State::Sleeping(wchan()),
    }
}

fn cpu_time(pid: u32, tid: u32) -> Option<u64> {
    task(pid, tid, "schedstat")?.split_whitespace().next()?.parse().ok()
}
