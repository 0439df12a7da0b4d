//! The commands that run, and whether more may start: what Ctrl-C and `--halt` act on.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Child;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::{self as system, Errno};
use rustix::process::{Pid, Signal, kill_process_group};

use super::child::pid_of;
use super::group::Living;
use crate::message::{self, errno_text};

/// Whether commands start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Going {
    /// They do.
    On,
    /// Those that run may end, and no other starts.
    Ending,
    /// Those that run are ended.
    Ended,
}

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Running {
    // ORDERING (all accesses): no pairing: written under the lock of `groups`, and read there where
    // it matters.
    going: AtomicU8,
    groups: Mutex<Groups>,
    living: Living,
    /// A command was started, or may be.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Groups {
    next: u64,
    /// Commands that run, or are about to, and whose number is not known yet.
    nr_starting: usize,
    /// Those that run, and those that have ended and are still processes.
    nr_started: usize,
    /// None is started for now.
    is_paused: bool,
    /// How long all pauses took.
    stood_still: Duration,
    by_number: BTreeMap<u64, Pid>,
    /// Those of them that we may not end, which was said.
    refused: BTreeSet<u64>,
    /// What all that run were sent last, to end them.
    sent: Option<Signal>,
}

/// A command that runs, until this is dropped.
#[derive(Debug)]
pub(super) struct Ticket<'a> {
    running: &'a Running,
    number: u64,
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_when(&self, is_so: impl Fn(&Groups) -> bool) -> MutexGuard<'_, Groups> {
        let wait = self.changed.wait_while(self.lock(), |groups| !is_so(groups));
        wait.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn going(&self) -> Going {
        match self.going.load(Ordering::Relaxed) {
            0 => Going::On,
            1 => Going::Ending,
            _ => Going::Ended,
        }
    }

    pub(super) fn living(&self) -> &Living {
        &self.living
    }

    /// How many run, with those that are being started.
    pub(super) fn count(&self) -> usize {
        let groups = self.lock();
        groups.nr_started + groups.nr_starting
    }

    /// Whether one has started that takes a place among the processes that there may be.
    pub(super) fn has_started(&self) -> bool {
        self.lock().nr_started > 0
    }

    /// Starts a command by `spawn`, which makes it the leader of a group.
    ///
    /// # Errors
    /// Those of `spawn`.
    pub(super) fn start(
        &self,
        spawn: impl FnOnce() -> io::Result<Child>,
    ) -> io::Result<(Child, Ticket<'_>)> {
        self.lock_when(|groups| !groups.is_paused).nr_starting += 1;
        // Not under the lock: it takes a millisecond.
        let started = spawn();
        let mut groups = self.lock();
        groups.nr_starting -= 1;
        self.changed.notify_all();
        let child = started?;
        groups.next += 1;
        groups.nr_started += 1;
        let number = groups.next;
        groups.by_number.insert(number, pid_of(&child));
        if let Some(signal) = groups.sent {
            let _ = send(pid_of(&child), signal);
        }
        Ok((child, Ticket { running: self, number }))
    }

    /// No command starts any more. `true`: they did until now.
    pub(super) fn end_soon(&self) -> bool {
        let _groups = self.lock();
        self.going.fetch_max(1, Ordering::Relaxed) == 0
    }

    /// Stops those that run while `stand_still` does, and starts none meanwhile.
    pub(super) fn pause(&self, stand_still: impl FnOnce()) {
        self.lock().is_paused = true;
        // One that is being started runs, and its number is not known yet.
        let mut groups = self.lock_when(|groups| groups.nr_starting == 0);
        let begin = Instant::now();
        let _ = groups.send(Signal::TSTP);
        stand_still();
        let _ = groups.send(Signal::CONT);
        groups.stood_still += begin.elapsed();
        groups.is_paused = false;
        self.changed.notify_all();
    }

    /// How long all pauses have taken so far. Returns when there is none.
    pub(super) fn stood_still(&self) -> Duration {
        self.lock_when(|groups| !groups.is_paused).stood_still
    }

    /// Ends those that run, too. It is said once which of them we may not end.
    pub(super) fn end_now(&self, signal: Signal) {
        let mut groups = self.lock();
        self.going.store(2, Ordering::Relaxed);
        groups.sent = Some(signal);
        let mut refused = groups.send(signal);
        refused.retain(|(number, _)| groups.refused.insert(*number));
        drop(groups);
        if !refused.is_empty() {
            let pids: Vec<_> = refused.iter().map(|(_, pid)| pid.to_string()).collect();
            // The others do not wait until somebody reads it.
            message::say_meanwhile(format_args!(
                "{} of the commands may not be ended: {} (PID {})",
                pids.len(),
                errno_text(Errno::PERM),
                pids.join(", ")
            ));
        }
    }
}

impl Groups {
    /// Returns those that we may not send it.
    fn send(&self, signal: Signal) -> Vec<(u64, Pid)> {
        // A process that is in the books was not waited for: the number is its own.
        let groups = self.by_number.iter().map(|(number, group)| (*number, *group));
        groups.filter(|(_, group)| send(*group, signal) == Err(Errno::PERM)).collect()
    }
}

/// Sends a signal to a group that was not waited for. It may have ended just now.
///
/// # Errors
/// Those of the system: EPERM if we may send it to none of the group, as to `sudo`, which is
/// root's.
pub(super) fn send(group: Pid, signal: Signal) -> system::Result<()> {
    let sent = kill_process_group(group, signal);
    if signal == Signal::TERM {
        // Who stands still does not hear it.
        let _ = kill_process_group(group, Signal::CONT);
    }
    sent
}

impl Ticket<'_> {
    /// It has ended: nobody sends it anything any more. It counts until this is dropped.
    pub(super) fn leave(&self) {
        let mut groups = self.running.lock();
        groups.by_number.remove(&self.number);
        groups.refused.remove(&self.number);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.leave();
        self.running.lock().nr_started -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::Command;

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    /// A pause that is asked for meanwhile begins when it is known, and stops it, too.
    #[test]
    fn one_that_is_being_started_is_stopped_with_the_others() {
        let running = Running::default();
        std::thread::scope(|scope| {
            let (mut child, _ticket) = running
                .start(|| {
                    let child = Command::new("sleep").arg("600").process_group(0).spawn()?;
                    let pid = pid_of(&child);
                    let running = &running;
                    scope.spawn(move || running.pause(|| stopped_and_killed(pid)));
                    while !running.lock().is_paused {
                        std::thread::yield_now();
                    }
                    Ok(child)
                })
                .unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        });
    }

    fn stopped_and_killed(pid: Pid) {
        let how = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(pid), how).unwrap().unwrap();
        assert!(status.stopped());
        kill_process_group(pid, Signal::KILL).unwrap();
    }

    /// Its number may be another's by then, and its place among the processes nobody else's yet.
    #[test]
    fn one_that_has_ended_is_sent_nothing_and_counts_until_it_was_waited_for() {
        let running = Running::default();
        let mut spawn = Command::new("sleep");
        let (mut child, ticket) =
            running.start(|| spawn.arg("600").process_group(0).spawn()).unwrap();
        ticket.leave();
        running.end_now(Signal::KILL);
        assert!(child.try_wait().unwrap().is_none());
        assert_eq!((running.count(), running.has_started()), (1, true));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(ticket);
        assert_eq!((running.count(), running.has_started()), (0, false));
    }

    /// It is asked to end, which it would not do, and killed, before its number is known.
    #[test]
    fn one_that_is_being_started_gets_the_last_signal() {
        let running = Running::default();
        let script = "trap '' TERM; while :; do sleep 0.01; done";
        let (mut child, _ticket) = running
            .start(|| {
                let child = Command::new("sh").args(["-c", script]).process_group(0).spawn();
                running.end_now(Signal::TERM);
                running.end_now(Signal::KILL);
                child
            })
            .unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
