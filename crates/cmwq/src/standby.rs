//! The standby of the perf mode: the pool's next idle worker polls the running workers' switch records.
//!
//! One hop, no monitor thread, nobody woken when nothing waits. A record that is not a block (a preemption,
//! a switch in) wakes the standby for nothing, and on one CPU its very waking may preempt the runner, which
//! makes the next record: so after a false wake it rests, longer each time, and the tick stands in.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use crate::pool::Pool;
use crate::sense::Switch;
use crate::sync::Arc;
use crate::thread::Thread;

const FIRST_REST: Duration = Duration::from_micros(100);
const LONGEST_REST: Duration = Duration::from_millis(4);

/// Sleeps like `Parker::park`, and also wakes when a running worker blocks. Returns the tokens; a block is
/// reported as `CHECK`, so that the caller verifies it under the lock like any alarm.
pub(crate) fn wait(pool: &'static Pool, me: &Arc<Thread>) -> u32 {
    let parker = &me.berth.parker;
    let Some(event) = me.berth.event() else { return parker.park(None) };
    let mut rest = FIRST_REST;
    loop {
        let Some(runners) = runners(pool, me) else { return parker.park(None) };
        if runners.iter().any(|runner| is_blocked(runner)) {
            forget(pool, &runners);
            return parker.take() | crate::park::CHECK;
        }
        if !parker.begin_poll() {
            forget(pool, &runners);
            return parker.take();
        }
        let signalled = poll(event.fd().as_raw_fd(), &runners);
        let tokens = parker.take();
        if signalled {
            event.drain();
        }
        let blocked = runners.iter().any(|runner| is_blocked(runner));
        forget(pool, &runners);
        if tokens != 0 || blocked {
            return tokens | if blocked { crate::park::CHECK } else { 0 };
        }
        let tokens = parker.park(Some(rest));
        if tokens != 0 {
            return tokens;
        }
        rest = (rest * 2).min(LONGEST_REST);
    }
}

fn is_blocked(thread: &Arc<Thread>) -> bool {
    thread.switches().is_some_and(|switches| switches.last() == Switch::Blocked)
}

/// The threads to watch, marked as watched; `None`: nothing waits, or somebody else watches.
fn runners(pool: &'static Pool, me: &Arc<Thread>) -> Option<Vec<Arc<Thread>>> {
    let mut guard = pool.lock();
    if !guard.core.work_waits() {
        guard.unwatch(pool);
        return None;
    }
    if !pool.is_standby(me.berth) {
        return None;
    }
    let running = guard.core.workers().filter(|view| view.running);
    let runners: Vec<_> = running
        .filter_map(|view| guard.thread(view.id).cloned())
        .filter(|thread| thread.switches().is_some())
        .collect();
    for runner in &runners {
        runner.set_polled(true);
    }
    drop(guard);
    Some(runners)
}

fn forget(pool: &'static Pool, runners: &[Arc<Thread>]) {
    let guard = pool.lock();
    for runner in runners {
        runner.set_polled(false);
    }
    drop(guard);
}

/// `true`: the event file is readable.
fn poll(event: RawFd, runners: &[Arc<Thread>]) -> bool {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds: Vec<libc::pollfd> = vec![entry(event)];
    let switches = runners.iter().filter_map(|runner| runner.switches());
    fds.extend(switches.map(|switches| entry(switches.fd().as_raw_fd())));
    // SAFETY: `fds` is an array of that many entries, writable during the call; the descriptors stay open
    // because `runners` keeps their threads' records alive.
    let rc = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
    debug_assert!(rc >= 0 || io::Error::last_os_error().kind() == io::ErrorKind::Interrupted);
    fds[0].revents != 0
}
