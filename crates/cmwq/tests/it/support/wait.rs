//! Waiting with a limit, so that what hangs fails with a message.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::JoinHandle;

/// How long anything may take before a test gives up. Only failing tests ever wait that long, and
/// machines have been seen to stop for most of a minute. Emulated ones on a busy host take minutes
/// for what takes a second here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(200);

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "this never came about: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Plays rounds until in one of them nothing disturbed, which is one that gives no reason against
/// it. For what holds unless the machine interferes: it may take a worker's CPU and call that CPU
/// time of the worker, or make it sleep at a page fault, and the library then rightly starts
/// another item. A rule that is broken is broken in all rounds.
#[track_caller]
pub(crate) fn undisturbed(rounds: usize, mut round: impl FnMut() -> Result<(), String>) {
    let mut reasons = Vec::new();
    for _ in 0..rounds {
        match round() {
            Ok(()) => return,
            Err(reason) => reasons.push(reason),
        }
    }
    panic!("in each of {rounds} rounds: {reasons:#?}");
}

/// Runs `f`, which must return (or panic, which is passed on) in time, on a thread of its own.
#[track_caller]
pub(crate) fn within<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _ = done.send(f());
    });
    match outcome.recv_timeout(PATIENCE) {
        Ok(value) => {
            thread.join().unwrap();
            value
        }
        Err(RecvTimeoutError::Timeout) => panic!("this never returned: {what}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the outcome was not sent"),
        },
    }
}

/// The value of an item that must finish in time, and not panic.
#[track_caller]
pub(crate) fn joined<T>(handle: JoinHandle<T>) -> T {
    match handle.join_timeout(PATIENCE) {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => panic!("{panic}"),
        Err(_) => panic!("an item did not finish"),
    }
}

/// Closed until it is opened, for good. Clones are the same gate.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<GateState>);

/// Whether it is open is asked without the lock: items that burn CPU time until then must not
/// block.
#[derive(Default)]
struct GateState {
    is_open: AtomicBool,
    lock: Mutex<()>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn open(&self) {
        let guard = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.is_open.store(true, Ordering::SeqCst);
        drop(guard);
        self.0.opened.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_open.load(Ordering::SeqCst)
    }

    /// Blocks until it is open.
    #[track_caller]
    pub(crate) fn pass(&self) {
        let guard = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _guard = self
            .0
            .opened
            .wait_timeout_while(guard, PATIENCE, |()| !self.is_open())
            .unwrap_or_else(PoisonError::into_inner);
        assert!(self.is_open(), "a gate was never opened");
    }

    /// Computes until it is open: never blocks.
    #[track_caller]
    pub(crate) fn spin(&self) {
        let start = Instant::now();
        while !self.is_open() {
            assert!(start.elapsed() < PATIENCE, "a gate was never opened");
            std::hint::spin_loop();
        }
    }
}

/// A gate that opens when the test ends, whatever its outcome, so that items behind it do not
/// outlive it.
pub(crate) struct Opened<'a>(pub(crate) &'a Gate);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// The smallest executor: polls on this thread, and sleeps until woken.
#[track_caller]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let start = Instant::now();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        let left = PATIENCE.checked_sub(start.elapsed()).expect("a future was never ready");
        thread::park_timeout(left);
    }
}
