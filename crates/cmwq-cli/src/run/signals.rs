//! Ctrl-C: once lets those end that run, again ends them, and when they are to end it kills them,
//! which happens anyway after a while. Ctrl-\ and other signals are the second. Ctrl-Z stops
//! commands, too: a terminal sends signals to our group, and not to theirs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getppid, getsid};
use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, raise};

use super::running::Going;
use super::work::Work;
use crate::enough::SAME;
use crate::ignored::not_ignored;
use crate::message;

/// For Ctrl-C, which a hand presses again on purpose: [`SAME`] would be too long.
const SAME_INTERRUPT: Duration = Duration::from_millis(50);

/// Listens from now on. Where that cannot be, signals end this command as ever.
///
/// # Errors
/// If there is no thread to listen. Nobody takes back then that signals do not end this command.
pub(super) fn listen(work: &Arc<Work>) -> io::Result<()> {
    let mut wanted = not_ignored(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT]);
    if somebody_could_continue_us() {
        wanted.extend(not_ignored(&[SIGTSTP]));
    }
    let Ok(mut signals) = Signals::new(wanted) else { return Ok(()) };
    let work = Arc::clone(work);
    let listen = move || {
        let mut last = None;
        for signal in signals.forever() {
            let now = Instant::now();
            if signal == SIGTSTP {
                // To this thread, which so does nothing more before it is continued.
                work.running().pause(|| _ = raise(SIGSTOP));
            } else if !is_the_same(last, (signal, now)) {
                last = Some((signal, now));
                // First, since with the commands that are ended for it all may end.
                let is_first = work.note_signal(signal);
                act(&work, signal == SIGINT && is_first);
                work.look_again();
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).map(drop)
}

/// A file that may not become longer (`ulimit -f`) is an error of writing, as a full disk is: it
/// does not end this command, and its commands go on.
pub(super) fn survive_long_files() {
    // What it notes is of no use. To ignore it would be for commands, too.
    for signal in not_ignored(&[SIGXFSZ]) {
        let _ = flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

/// Ends this process by a signal that has been heeded, as if it had not been listened to: after a
/// program that *exits* a shell goes on with its script or loop, whatever the code is. For so long
/// it waits for what is being done.
pub(super) fn end_by(signal: i32, patience: Duration) {
    // Of a PID namespace's first process the system takes no signal that is not listened to.
    if std::process::id() == 1 {
        return;
    }
    // What the library does when a process exits.
    let _ = cmwq::shutdown(patience);
    // Nobody wants a core file of it.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = emulate_default_handler(signal);
}

/// A shell with job control is in our session. Without one the system ignores SIGTSTP, and so do
/// we.
///
/// In a PID namespace the parent may be out of sight, and then it is 0; so may the leader of the
/// session be, and then the session is 0.
fn somebody_could_continue_us() -> bool {
    let parent = getppid();
    parent != Pid::from_raw(0) && getsid(Some(parent)).ok() == getsid(None).ok()
}

/// Whether a signal is the one before, sent twice.
fn is_the_same(last: Option<(i32, Instant)>, (signal, now): (i32, Instant)) -> bool {
    let same = if signal == SIGINT { SAME_INTERRUPT } else { SAME };
    last.is_some_and(|(before, at)| before == signal && now.duration_since(at) < same)
}

fn act(work: &Work, lets_end: bool) {
    let running = work.running();
    match running.going() {
        // Also if there was enough before: who presses it does not mean those that run.
        Going::On | Going::Ending if lets_end => {
            running.end_soon();
            // The next signal does not wait until somebody reads it.
            message::say_meanwhile(format_args!(
                "nothing more starts; {} that run may end, Ctrl-C again ends them",
                running.count()
            ));
        }
        Going::On | Going::Ending => work.end_now(),
        Going::Ended => running.end_now(Signal::KILL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_sent_twice_counts_once() {
        let first = Instant::now();
        let is_the_same = |before, signal, ms| {
            let now = first + Duration::from_millis(ms);
            is_the_same(Some((before, first)), (signal, now))
        };
        assert!(!super::is_the_same(None, (SIGTERM, first)));
        for signal in [SIGTERM, SIGHUP, SIGQUIT] {
            assert!(is_the_same(signal, signal, 0) && is_the_same(signal, signal, 499));
            assert!(!is_the_same(signal, signal, 500));
            assert!(
                !is_the_same(SIGINT, signal, 0),
                "who presses Ctrl-C may also close the window"
            );
        }
        assert!(is_the_same(SIGINT, SIGINT, 49));
        assert!(!is_the_same(SIGINT, SIGINT, 50), "a hand is not faster");
    }
}
