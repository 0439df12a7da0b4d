//! Waiting for somebody who is about to do something and may have lost its CPU: first a try without
//! a pause, then sleeps that become longer, up to a millisecond.

use std::time::Duration;

use super::sync;

/// See the module header.
#[derive(Debug)]
pub(crate) struct Rest {
    next: Duration,
}

impl Rest {
    const FIRST: Duration = Duration::from_micros(20);
    const LONGEST: Duration = Duration::from_millis(1);

    pub(crate) fn new() -> Self {
        Self { next: Duration::ZERO }
    }

    pub(crate) fn rest(&mut self) {
        if self.next.is_zero() {
            self.next = Self::FIRST;
            return sync::yield_now();
        }
        sync::sleep(self.next);
        self.next = (self.next * 2).min(Self::LONGEST);
    }
}
