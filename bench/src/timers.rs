//! A timer thread, for systems that have none: what a program writes itself when its pool cannot
//! delay an item.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

type Call = Box<dyn FnOnce() + Send>;

/// Calls that wait for their time, in its order. One thread makes them all, so each should only
/// hand something over.
#[derive(Default)]
pub(crate) struct Timers {
    waiting: Mutex<Waiting>,
    earlier: Condvar,
}

#[derive(Default)]
struct Waiting {
    due: BinaryHeap<Reverse<Due>>,
    /// Tells calls that are due at the same instant apart: first armed, first made.
    armed: u64,
}

struct Due {
    at: Instant,
    turn: u64,
    call: Call,
}

impl Due {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.turn)
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl Timers {
    /// The process' timers; the first call starts their thread.
    pub(crate) fn of_process() -> &'static Self {
        static TIMERS: OnceLock<&'static Timers> = OnceLock::new();
        TIMERS.get_or_init(|| {
            let timers: &'static Self = Box::leak(Box::default());
            thread::Builder::new()
                .name("timers".to_owned())
                .spawn(|| timers.run())
                .expect("a process that measures can have one more thread");
            timers
        })
    }

    /// Makes `call` after `delay`, never early, on the timers' thread.
    pub(crate) fn after(&self, delay: Duration, call: impl FnOnce() + Send + 'static) {
        let at = Instant::now() + delay;
        let mut waiting = self.lock();
        waiting.armed += 1;
        let turn = waiting.armed;
        let is_first = waiting.due.peek().is_none_or(|Reverse(first)| at < first.at);
        waiting.due.push(Reverse(Due { at, turn, call: Box::new(call) }));
        drop(waiting);
        if is_first {
            self.earlier.notify_one();
        }
    }

    fn run(&self) {
        let mut waiting = self.lock();
        loop {
            let now = Instant::now();
            let left = waiting.due.peek().map(|Reverse(first)| first.at.duration_since(now));
            waiting = match left {
                None => self.earlier.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let first = waiting.due.pop();
                    drop(waiting);
                    first.into_iter().for_each(|Reverse(due)| (due.call)());
                    self.lock()
                }
                Some(left) => {
                    let waited = self.earlier.wait_timeout(waiting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// No call is made under the lock, so a panic in one leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn calls_come_in_the_order_of_their_time_and_never_early() {
        let (send, receive) = channel();
        let start = Instant::now();
        for ms in [30_u64, 0, 20, 10] {
            let send = send.clone();
            let call = move || send.send((ms, start.elapsed())).unwrap();
            Timers::of_process().after(Duration::from_millis(ms), call);
        }
        let calls: Vec<_> = receive.iter().take(4).collect();
        assert!(calls.iter().all(|(ms, at)| *at >= Duration::from_millis(*ms)), "{calls:?}");
        // The thread may have slept through several of them, but not out of order.
        let later: Vec<u64> = calls.iter().map(|call| call.0).filter(|ms| *ms > 0).collect();
        assert_eq!(later, [10, 20, 30]);
    }

    #[test]
    fn calls_due_at_once_come_in_the_order_of_arming() {
        let timers = Timers::default();
        let (send, receive) = channel();
        for turn in 0..50 {
            let send = send.clone();
            timers.after(Duration::ZERO, move || send.send(turn).unwrap());
        }
        // Armed before anybody looks, and the clock moves on between them.
        let timers: &'static Timers = Box::leak(Box::new(timers));
        thread::spawn(|| timers.run());
        assert_eq!(receive.iter().take(50).collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
    }
}
