//! Signals that say that it is enough, to what goes on until then.
//!
//! The first one is told to whoever goes on, who ends as at any other end. He may be writing to
//! somebody who does not read, and never hear of it: so a later one ends the process.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, exit};

use crate::ignored::not_ignored;
use crate::launch;

/// One that comes so soon after the first is the same: timeout(1) sends each to the process and to
/// its group, and of a terminal that is closed the system tells and the shell.
pub(crate) const SAME: Duration = Duration::from_millis(500);

/// Listens from now on; not to those that are ignored. Calls `tell` at the first one.
///
/// # Errors
/// Those of the system.
pub(crate) fn listen(signals: &[i32], tell: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(not_ignored(signals))?;
    let listen = move || {
        let mut signals = signals.forever();
        if signals.next().is_none() {
            return;
        }
        let first = Instant::now();
        tell();
        if let Some(signal) = signals.find(|_| first.elapsed() >= SAME) {
            end_by(signal);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).map(drop)
}

fn end_by(signal: i32) {
    launch::end_group();
    // To a PID namespace's first process the system does nothing by it.
    if std::process::id() != 1 {
        let _ = emulate_default_handler(signal);
    }
    exit(128 + signal);
}
