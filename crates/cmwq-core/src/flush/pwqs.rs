//! How many pwqs a flush waits for.

use core::cell::Cell;

use crate::ids::{PwqId, PwqRef};
use crate::pool::PoolState;
use crate::pwqs::Pwqs;

/// Pwqs that have not reported yet that they have no item of the flushed colour, and one for the
/// flusher itself until it has armed all: a pwq that reports meanwhile is not the last.
///
/// The counter is the driver's, since pwqs report without the lock (WQ).
pub trait PwqsToFlush {
    /// Begins again: only the flusher is counted. The last flush has ended.
    fn restart(&self);
    /// One pwq more.
    fn add(&self);
    /// One less. `true`: it was the last, and the first flusher is woken, unless it is the caller.
    #[must_use]
    fn done(&self) -> bool;
}

/// Where pwqs report with the lock.
impl PwqsToFlush for Cell<u32> {
    fn restart(&self) {
        assert_eq!(self.replace(1), 0, "a flush was started before the end of the last one");
    }

    fn add(&self) {
        self.set(self.get() + 1);
    }

    fn done(&self) -> bool {
        self.set(self.get() - 1);
        self.get() == 0
    }
}

/// Arms the queue's pwqs, as a flush demands: what a driver does for [`Prep`](super::Prep). `arm`
/// calls [`PoolState::flush_arm`] under the lock of the pwq's pool.
///
/// Without a colour to flush only the colour of new items changes, and another flush may be
/// counting.
///
/// KERNEL: `flush_workqueue_prep_pwqs` — same.
pub fn prep_pwqs(
    count: &impl PwqsToFlush,
    pwqs: &Pwqs,
    flush: Option<u8>,
    arm: impl FnMut(PwqRef),
) -> bool {
    if flush.is_some() {
        count.restart();
    }
    pwqs.iter().for_each(arm);
    flush.is_some() && !count.done()
}

impl PoolState {
    /// Prepares a pwq for a flush, and counts it if the flush has to wait for it. That is done
    /// under this pool's lock: once it is dropped, the pwq may report.
    pub fn flush_arm(
        &mut self,
        pwq: PwqId,
        flush: Option<u8>,
        color: Option<u8>,
        count: &impl PwqsToFlush,
    ) {
        if self.flush_prep(pwq, flush, color) {
            count.add();
        }
    }
}
