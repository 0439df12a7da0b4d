//! Reports to the stall watchdog: that work waits, and what an item waits for.

use cmwq_core::{PoolId, WorkerId, WqKey};

use super::Runtime;
use crate::engine::tools::thread::Thread;
use crate::engine::tools::watchdog::WaitFor;
use crate::os::clock;
use crate::os::sync::Arc;

impl Runtime {
    /// Work waits. The caller holds no lock; it has seen the work under the lock of its pool, or
    /// recorded it under a lock that the watchdog takes.
    #[inline]
    pub(crate) fn work_waits(&self) {
        if self.watchdog.alarm.is_unset() {
            self.set_alarm();
        }
    }

    /// Sets the watchdog's alarm, if the watchdog is on.
    #[cold]
    pub(crate) fn set_alarm(&self) {
        if self.watchdog.set_alarm() {
            self.start_watchdog();
        }
    }

    /// Asks the service to start the watchdog's thread, unless it was asked before.
    pub(crate) fn start_watchdog(&self) {
        if self.watchdog.is_first_to_start() {
            self.service.start_watchdog_at(clock::now());
        }
    }

    /// There are hogs to be told of. By the watchdog's thread: the caller's, on which all timers
    /// wait, must not wait for who loads a library or reads what is written.
    pub(crate) fn tell_of_hogs(&self) {
        self.start_watchdog();
        self.watchdog.alarm.wake();
    }

    /// The item of a queue, with this address and function, begins to wait on a worker, until the
    /// returned guard is dropped.
    pub(crate) fn begin_wait(
        &self,
        item: (WqKey, usize, usize),
        what: WaitFor,
        worker: ((PoolId, WorkerId), Arc<Thread>),
    ) -> impl Drop + '_ + use<'_> {
        let waiting = self.watchdog.waits.begin(item, what, worker);
        self.work_waits();
        waiting
    }
}
