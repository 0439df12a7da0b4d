//! A dump of all queues and pools when the process gets a signal.
//!
//! The handler sets a flag and wakes the watchdog's thread, which does the rest: an atomic store,
//! an atomic read-modify-write and a `futex` call. All of that is async-signal-safe.

use crate::engine::runtime::Runtime;
use crate::engine::tools::params::Params;
use crate::observe::show;
use crate::os::error::Error;
use crate::os::notice::{self, Notice};
use crate::os::sense::signal;
use crate::os::sync::Ordering;

/// Writes what all queues and pools are doing to standard error whenever the process gets `signal`,
/// as [`show_all_workqueues`](crate::show_all_workqueues) does. The same as the parameter
/// `dump_signal`.
///
/// The signal's handler is async-signal-safe: it only wakes a thread, which collects and writes the
/// report. So a dump needs memory and takes the pools' locks, but not in the handler; signals that
/// come before the report is written are answered by that one. A forked child has the handler and
/// no dumps, until it calls this, too. There is no way back.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): the program has a handler for the signal or
/// ignores it; or it is no signal that can be caught: those are the numbers from 1 to `SIGRTMAX`
/// (64), without 9 (`SIGKILL`), 19 (`SIGSTOP`), and the two or three that the C library keeps for
/// itself, from 32 on. [`ThreadCreation`](crate::ErrorKind::ThreadCreation): the library was not in
/// use and its service thread cannot be created.
///
/// ```
/// cmwq::dump_on_signal(10)?; // SIGUSR1 on most architectures
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn dump_on_signal(signal: i32) -> Result<(), Error> {
    let runtime = Runtime::global()?;
    runtime.start_watchdog();
    if signal::is_taken_by(signal, on_signal) {
        return Ok(());
    }
    if !signal::is_free(signal) {
        return Err(Error::invalid(format!("signal {signal} has a handler, or is ignored")));
    }
    signal::take(signal, on_signal)
        .map_err(|error| Error::invalid(format!("signal {signal} cannot be caught: {error}")))
}

/// The parameter `dump_signal`. What is refused is said.
pub(crate) fn from_params(params: &Params) {
    let Some(Err(error)) = params.dump_signal.map(dump_on_signal) else { return };
    notice::once(Notice::DumpSignal, || format!("dump_signal: {error}; there are no dumps"));
}

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    signal::keeping_errno(|| {
        if let Some(runtime) = Runtime::existing() {
            // ORDERING: no pairing of its own: who takes the token of the wake-up sees it.
            runtime.watchdog.has_to_dump.store(true, Ordering::Relaxed);
            runtime.watchdog.alarm.wake();
        }
    });
}

/// By the watchdog's thread.
pub(super) fn dump_if_asked(runtime: &Runtime) {
    if runtime.watchdog.has_to_dump.swap(false, Ordering::Relaxed) {
        show::show_all_workqueues();
    }
}
