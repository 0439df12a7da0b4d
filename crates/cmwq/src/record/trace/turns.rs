//! A lock that one thread takes again and again, and others now and then.
//!
//! The system's locks are not fair: who lets go of one and takes it at once gets it, and whom that
//! has woken finds it taken. So others say that they wait, and the one makes way for them.

use std::thread;
use std::time::Duration;

use crate::os::sync::plain::{AtomicU32, Ordering};
use crate::os::sync::{PlainGuard, PlainMutex, lock_plain};

/// LIMIT: so long way is made: who waits may get no CPU, and the one has something to do.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// See the module header.
#[derive(Debug)]
pub(super) struct Turns<T> {
    lock: PlainMutex<T>,
    nr_waiting: AtomicU32,
}

impl<T> Turns<T> {
    pub(super) const fn new(value: T) -> Self {
        Self { lock: PlainMutex::new(value), nr_waiting: AtomicU32::new(0) }
    }

    /// By one of the others.
    pub(super) fn lock(&self) -> PlainGuard<'_, T> {
        // ORDERING (all): no pairing: a hint.
        self.nr_waiting.fetch_add(1, Ordering::Relaxed);
        let guard = lock_plain(&self.lock);
        self.nr_waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// By the one: after who waits.
    pub(super) fn lock_last(&self) -> PlainGuard<'_, T> {
        for _ in 0..LOOKS {
            if self.nr_waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
            thread::sleep(PAUSE);
        }
        lock_plain(&self.lock)
    }

    /// In a child: those who wait in its parent are not here.
    pub(super) fn begin_anew(&self) {
        self.nr_waiting.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn who_comes_now_and_then_has_its_turn() {
        // Who gets no CPU for long may miss some.
        const MOST: u32 = 8;
        let turns = Arc::new(Turns::new(()));
        let rounds = Arc::new(AtomicU32::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let one = thread::spawn({
            let (turns, rounds) = (Arc::clone(&turns), Arc::clone(&rounds));
            let is_over = Arc::clone(&is_over);
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    let round = turns.lock_last();
                    rounds.fetch_add(1, Ordering::Relaxed);
                    // As long as it takes to write to a slow disk.
                    thread::sleep(Duration::from_millis(5));
                    drop(round);
                }
            }
        });
        for _ in 0..20 {
            let seen = rounds.load(Ordering::Relaxed);
            while rounds.load(Ordering::Relaxed) == seen {
                thread::yield_now();
            }
            // It was not there for what passed until now.
            let before = rounds.load(Ordering::Relaxed);
            let turn = turns.lock();
            let passed = rounds.load(Ordering::Relaxed) - before;
            drop(turn);
            assert!(passed <= MOST, "{passed} rounds passed before it was somebody else's turn");
        }
        is_over.store(true, Ordering::Relaxed);
        one.join().unwrap();
    }
}
