//! What the threads of another process are doing, as `/proc` tells.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::stat;

/// Long enough for a running thread's CPU time to move: a scheduler tick is 10 ms at most.
const TICK: Duration = Duration::from_millis(12);

/// What the kernel says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) state: Sched,
    /// CPU time used.
    pub(crate) cpu_ns: u64,
    /// Time spent ready to run, without a CPU.
    pub(crate) wait_ns: u64,
}

/// Where a thread stands with the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sched {
    OnCpu,
    /// It wants a CPU and has none.
    Preempted,
    Sleeps,
    /// Not to be interrupted.
    SleepsHard,
    /// By a signal or a debugger.
    Stopped,
}

/// One look at each, and a second one, a tick later, at those that want to run: who then has used
/// no CPU is preempted. `None`: gone.
pub(crate) fn look(pid: u32, tids: &[u32]) -> Vec<Option<Thread>> {
    let mut seen: Vec<_> = tids.iter().map(|tid| thread(pid, *tid)).collect();
    let wants = |thread: &Option<Thread>| matches!(thread, Some(it) if it.state == Sched::OnCpu);
    if seen.iter().any(wants) {
        sleep(TICK);
        for (tid, thread) in tids.iter().zip(&mut seen).filter(|(_, thread)| wants(thread)) {
            let later = times(pid, *tid).map(|(cpu_ns, _)| cpu_ns);
            if let Some(thread) = thread
                && later == Some(thread.cpu_ns)
            {
                thread.state = Sched::Preempted;
            }
        }
    }
    seen
}

/// The process's state, as a letter.
pub(crate) fn process(pid: u32) -> Option<char> {
    stat::state(&stat::read(format!("/proc/{pid}/stat")).ok()?)
}

fn thread(pid: u32, tid: u32) -> Option<Thread> {
    let stat = stat::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let state = sched(stat::state(&stat)?)?;
    let (cpu_ns, wait_ns) = times(pid, tid).unwrap_or_default();
    Some(Thread { state, cpu_ns, wait_ns })
}

/// Where in the kernel it sleeps, if that is told.
pub(crate) fn wchan(pid: u32, tid: u32) -> Option<String> {
    let wchan = fs::read_to_string(format!("/proc/{pid}/task/{tid}/wchan")).ok()?;
    Some(wchan).filter(|wchan| !matches!(wchan.as_str(), "" | "0"))
}

/// `None`: it has ended.
fn sched(letter: char) -> Option<Sched> {
    match letter {
        'R' => Some(Sched::OnCpu),
        'D' => Some(Sched::SleepsHard),
        'T' | 't' => Some(Sched::Stopped),
        'Z' | 'X' => None,
        _ => Some(Sched::Sleeps),
    }
}

/// CPU time and time without a CPU, in ns. A kernel without schedstat tells neither.
fn times(pid: u32, tid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_letters() {
        let states = ['R', 'S', 'D', 'T', 't', 'I', 'Z'].map(sched);
        let sleeps = Some(Sched::Sleeps);
        let stopped = Some(Sched::Stopped);
        assert_eq!(
            states,
            [Some(Sched::OnCpu), sleeps, Some(Sched::SleepsHard), stopped, stopped, sleeps, None]
        );
    }

    #[test]
    fn one_that_runs_is_not_preempted_for_ever() {
        // This thread spins until its other half, looking from outside, has seen it on a CPU.
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let watcher = std::thread::spawn(move || {
            let on_cpu = |thread: &Thread| thread.state == Sched::OnCpu;
            while !look(std::process::id(), &[tid])[0].as_ref().is_some_and(on_cpu) {}
        });
        while !watcher.is_finished() {
            std::hint::spin_loop();
        }
        watcher.join().unwrap();
        assert_eq!(look(std::process::id(), &[u32::MAX]), [None]);
    }
}
