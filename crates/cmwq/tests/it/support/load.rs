//! What items do, and how many do it at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::sys;

/// Uses CPU time of the calling thread, however long that takes.
pub(crate) fn burn(time: Duration) {
    let end = sys::thread_cpu_time() + time;
    while sys::thread_cpu_time() < end {
        std::hint::spin_loop();
    }
}

/// Counts how many are inside, and remembers the most there were.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Inside of a [`Peak`].
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a Peak);

impl Peak {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn enter(&self) -> Inside<'_> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Inside(self)
    }

    pub(crate) fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A small generator of random numbers (splitmix64), so that a seed is all there is to print.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
