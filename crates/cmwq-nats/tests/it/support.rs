//! What the tests share.

mod machines;
mod outsider;
mod server;

use std::io::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cmwq_nats::{Broker, Item, Server as Machine, SharedQueue};

pub(crate) use machines::{Log, Machines};
pub(crate) use outsider::Outsider;
pub(crate) use server::{Server, forbidding};

/// So long a condition may take on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(200);

/// A broker of this test's own, or what else `start` starts; or the test ends with a word.
macro_rules! broker_or_skip {
    () => {
        $crate::support::broker_or_skip!($crate::support::Server::start())
    };
    ($start:expr) => {
        match $start {
            Some(server) => server,
            None => {
                return $crate::support::not_tested(
                    "no nats-server here (Debian: apt-get install nats-server), or no network",
                );
            }
        }
    };
}
pub(crate) use broker_or_skip;

/// Says that this machine lacks what a test needs. Written past the test harness, which keeps what
/// a test that passes prints; the gate lists these lines at its end.
pub(crate) fn not_tested(why: &str) {
    let _ = writeln!(std::io::stderr(), "not tested: {why}");
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A queue with default settings.
pub(crate) fn queue(broker: &Broker, name: &str) -> SharedQueue {
    broker.queue(name).open().unwrap()
}

/// A door that functions wait at.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn pass(&self) {
        let is_open = self.0.0.lock().unwrap();
        let (is_open, waited) =
            self.0.1.wait_timeout_while(is_open, PATIENCE, |is_open| !*is_open).unwrap();
        drop(is_open);
        assert!(!waited.timed_out(), "nobody opened the gate");
    }
}

/// Runs of functions, as they begin.
pub(crate) struct Runs(Receiver<String>);

/// What a function notes its runs with.
#[derive(Clone)]
pub(crate) struct Note(std::sync::mpsc::Sender<String>);

pub(crate) fn runs() -> (Note, Runs) {
    let (sender, receiver) = channel();
    (Note(sender), Runs(receiver))
}

impl Note {
    pub(crate) fn item(&self, item: &Item) {
        self.text(text(item));
    }

    pub(crate) fn text(&self, text: String) {
        let _ = self.0.send(text);
    }
}

impl Runs {
    /// The next one.
    pub(crate) fn next(&self) -> String {
        match self.0.recv_timeout(PATIENCE) {
            Ok(text) => text,
            Err(RecvTimeoutError::Timeout) => panic!("no run has begun"),
            Err(RecvTimeoutError::Disconnected) => panic!("nobody runs anything"),
        }
    }

    /// Those that have begun and were not asked for.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.0.try_iter().collect()
    }
}

/// A machine whose function `f` notes its runs.
pub(crate) fn noting(machine: Machine, note: Note) -> Machine {
    machine.function("f", move |item| {
        note.item(item);
        Ok(())
    })
}

/// A machine whose function `f` notes its runs and waits at the gate.
pub(crate) fn holding(machine: Machine, note: Note, gate: &Gate) -> Machine {
    let gate = gate.clone();
    machine.function("f", move |item| {
        note.item(item);
        gate.pass();
        Ok(())
    })
}

/// An item's payload as text.
pub(crate) fn text(item: &Item) -> String {
    String::from_utf8_lossy(item.payload()).into_owned()
}
