//! A thread that blocks, spins and ends when told to, for others to watch.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

use super::eventually;
use crate::os::sense::futex;

const BLOCK: u32 = 0;
const SPIN: u32 = 1;
const END: u32 = 2;

/// How the watched thread is commanded.
pub(super) struct Subject {
    order: AtomicU32,
    nr_spins: AtomicU32,
}

impl Subject {
    /// Starts a thread that opens a watch on itself with `open` and then blocks, runs `test` beside
    /// it, and ends it.
    ///
    /// Returns the watch, now that the thread has ended.
    pub(super) fn watched<T: Send>(
        open: impl FnOnce() -> T + Send,
        test: impl FnOnce(&Self, &T),
    ) -> T {
        let subject = Self { order: BLOCK.into(), nr_spins: 0.into() };
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                sender.send(open()).expect("the test waits for this");
                subject.obey();
            });
            let watch = receiver.recv().expect("the watch opens");
            // Also when the test fails, or the scope would wait for the thread forever.
            let _end = EndOnDrop(&subject);
            test(&subject, &watch);
            watch
        })
    }

    /// Makes the thread block. It may not have got there when this returns.
    pub(super) fn block(&self) {
        self.command(BLOCK);
    }

    /// Makes the thread spin, and returns when it does.
    pub(super) fn spin(&self) {
        let before = self.nr_spins.load(Ordering::Acquire);
        self.command(SPIN);
        eventually("the thread spins", || self.nr_spins.load(Ordering::Acquire) != before);
    }

    fn command(&self, order: u32) {
        self.order.store(order, Ordering::Release);
        futex::wake(&self.order, 1);
    }

    fn obey(&self) {
        loop {
            match self.order.load(Ordering::Acquire) {
                BLOCK => {
                    futex::wait(&self.order, BLOCK, None);
                }
                SPIN => {
                    self.nr_spins.fetch_add(1, Ordering::Release);
                }
                _ => return,
            }
        }
    }
}

struct EndOnDrop<'a>(&'a Subject);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.command(END);
    }
}
