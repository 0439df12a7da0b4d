//! Ctrl-C: once lets those end that run, twice ends them, and once more kills them.

use std::sync::Arc;
use std::thread;

use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::running::Going;
use super::work::Work;
use crate::message;

/// Listens from now on. Where that cannot be, signals end this command as ever.
pub(super) fn listen(work: &Arc<Work>) {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    let work = Arc::clone(work);
    let listen = move || {
        for signal in signals.forever() {
            act(&work, signal);
            work.note_signal(signal);
        }
    };
    let _ = thread::Builder::new().name("signals".into()).spawn(listen);
}

fn act(work: &Work, signal: i32) {
    let running = work.running();
    match (running.going(), signal) {
        (Going::On, SIGINT) => {
            running.end_soon();
            message::say(format_args!(
                "nothing more starts; {} that run may end, Ctrl-C again ends them",
                running.count()
            ));
        }
        (Going::On | Going::Ending, _) => running.end_now(Signal::TERM),
        (Going::Ended, _) => running.end_now(Signal::KILL),
    }
}
