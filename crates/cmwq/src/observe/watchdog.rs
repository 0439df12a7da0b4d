//! The stall watchdog: it says so when work waits and nothing happens.
//!
//! A thread of its own looks at intervals, and only while work waits: so it finds stalls that are
//! the service thread's, too, and an idle process is not woken. What is a stall, and when it is
//! reported, is decided by [`cmwq_core::Watchdog`]. Three kinds of things can stand still:
//!
//! - a pool with waiting work that starts none, as in the kernel: all its workers hog CPUs, or none
//!   can be created, or they get no CPU;
//! - a queue at `max_active` of which no item starts or ends;
//! - items that wait for each other in a circle: two ordered queues that flush each other. In the
//!   kernel this is left to lockdep and the hung-task detector.
//!
//! A stall is reported once per threshold ([`set_thresh`], 30 s) with the items in the way, their
//! functions, and their stacks: on standard error, followed by [`show_all_workqueues`]; or to a
//! handler ([`set_handler`]). [`set_panic_on_stall`] ends the process. Known long waits may
//! [`touch`] it.
//!
//! The stacks come from the threads themselves, which are sent a real-time signal. A system call in
//! which such a thread is goes on, but for those that a signal always ends (`signal(7)`: sleeps,
//! `poll`, waits with a time limit), which fail with `EINTR`. Only threads that a report is about
//! are asked. The parameter `watchdog_signal` names another signal, or 0 for none.
//!
//! KERNEL: `wq_watchdog_*`, `CONFIG_WQ_WATCHDOG`.
//!
//! [`show_all_workqueues`]: crate::show_all_workqueues

use std::time::Duration;

use cmwq_core::Nanos;

use crate::engine::runtime::Runtime;
use crate::engine::tools::params::Params;
use crate::os::error::Error;
use crate::os::sync::Ordering;

mod describe;
mod dump;
mod handler;
mod look;
mod stall;

pub use dump::dump_on_signal;
pub use handler::{clear_handler, set_handler};
pub use stall::{Frame, Place, RunningItem, Stack, Stall, WaitingItems};

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use dump::from_params as dump_as_params_say;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use handler::{HandlerGuard, lock_handler};
#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
pub(crate) use look::look_once;
pub(crate) use look::spawn;

/// The threshold in force; zero: the watchdog is off. Of a process that has not used the library
/// yet, zero.
///
/// KERNEL: the parameter `watchdog_thresh` — same, in any unit.
#[must_use]
pub fn thresh() -> Duration {
    let thresh = Runtime::existing().map_or(0, |runtime| runtime.watchdog.alarm.thresh());
    Duration::from_nanos(thresh)
}

/// Reports what stands still for `thresh`, from now on; zero turns the watchdog off. More than 1e9
/// s is taken as that. Every stall begins anew. The same as the parameter `watchdog_thresh`, which
/// takes seconds.
///
/// # Errors
/// [`ThreadCreation`](crate::ErrorKind::ThreadCreation), and no other: the library was not in use
/// and its service thread cannot be created.
///
/// KERNEL: the parameter `watchdog_thresh`, when written — same.
pub fn set_thresh(thresh: Duration) -> Result<(), Error> {
    let runtime = Runtime::global()?;
    let thresh = u64::try_from(thresh.as_nanos()).unwrap_or(u64::MAX).min(MOST_NS);
    runtime.watchdog.alarm.set_thresh(thresh);
    // There may be something that waits already.
    runtime.set_alarm();
    Ok(())
}

/// LIMIT: no threshold is longer: 31 years.
const MOST_NS: Nanos = 1_000_000_000_000_000_000;

/// Ends the process by `abort` at the `reports`-th report of stalls, or at a stall that has lasted
/// for `time`; 0 for never. The report comes first. The same as the parameters `panic_on_stall` and
/// `panic_on_stall_time`, which takes seconds.
///
/// # Errors
/// [`ThreadCreation`](crate::ErrorKind::ThreadCreation), and no other: the library was not in use
/// and its service thread cannot be created.
///
/// KERNEL: the parameters `panic_on_stall`, `panic_on_stall_time` — same.
pub fn set_panic_on_stall(reports: u32, time: Duration) -> Result<(), Error> {
    let watchdog = &Runtime::global()?.watchdog;
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    watchdog.on_stall.store(reports, Ordering::Relaxed);
    watchdog.on_stall_time.store(time, Ordering::Relaxed);
    Ok(())
}

/// One of the parameters that can be set at any time.
pub(crate) fn set_param(name: &str, to: &Params) -> Result<(), Error> {
    let now = Runtime::global()?.watchdog.policy();
    let time = Duration::from_nanos;
    match name {
        "panic_on_stall" => set_panic_on_stall(to.panic_on_stall, time(now.on_stall_time)),
        "panic_on_stall_time" => set_panic_on_stall(now.on_stall, time(to.panic_on_stall_time_ns)),
        _ => set_thresh(time(to.watchdog_thresh_ns)),
    }
}

/// Begins every stall anew, as if something had happened: for code that knows a long wait to be in
/// order. With a CPU those of its per-CPU pools and what belongs to no CPU, else only the latter.
/// Costs two atomic loads and sometimes a store; may be called by a signal handler.
///
/// KERNEL: `wq_watchdog_touch` — same.
#[doc(alias = "wq_watchdog_touch")]
pub fn touch(cpu: Option<u32>) {
    if let Some(runtime) = Runtime::existing() {
        runtime.watchdog.touch(cpu);
    }
}
