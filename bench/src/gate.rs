//! A countdown that one thread waits on: how the waiting side of every load learns that all its
//! items are done.
//!
//! The same counter serves every in-process system, so its cost (one atomic read-modify-write per
//! item) is the same for all of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

/// Counts items down; the thread that made it can wait for zero.
#[derive(Debug)]
pub(crate) struct Gate {
    left: AtomicUsize,
    waiter: Thread,
}

impl Gate {
    /// A gate for `items` items, to be waited on by the calling thread.
    pub(crate) fn new(items: usize) -> Self {
        Self { left: AtomicUsize::new(items), waiter: thread::current() }
    }

    /// As [`Gate::new`], but lives for ever, so that an item can hold a plain reference: a counted
    /// one would add two contended atomics to each item. Fine in a process that measures once and
    /// exits.
    pub(crate) fn leaked(items: usize) -> &'static Self {
        Box::leak(Box::new(Self::new(items)))
    }

    /// One item is done.
    pub(crate) fn done(&self) {
        // ORDERING: Release pairs with the Acquire in `wait`: what the items wrote is visible after
        // it.
        if self.left.fetch_sub(1, Ordering::Release) == 1 {
            self.waiter.unpark();
        }
    }

    /// Items that are not done. For looking on: it says nothing of what the others wrote.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Waits, asleep, until every item is done.
    pub(crate) fn wait(&self) {
        // ORDERING: Acquire pairs with the Release in `done`.
        while self.left.load(Ordering::Acquire) != 0 {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_returns_after_the_last_item_only() {
        let gate = Gate::new(3);
        let seen = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    seen.fetch_add(1, Ordering::Relaxed);
                    gate.done();
                });
            }
            gate.wait();
            assert_eq!(seen.load(Ordering::Relaxed), 3);
        });
    }
}
