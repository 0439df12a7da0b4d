//! Draining: waiting until a queue is empty, with only its own items let in meanwhile. Destroying a
//! queue begins with draining.
//!
//! KERNEL: `drain_workqueue`, `destroy_workqueue` — same rules: an item that a running item of the
//! same queue queues is *chained* and let in. Any other item is refused: it is idle again, and that
//! is reported once per process.

use cmwq_core::{Closed, LockFor, drain_is_long};

use crate::engine::pool::Pool;
use crate::engine::threads::current;
use crate::engine::wq::Wq;
use crate::os::notice;
use crate::os::sync::{Arc, lock};

impl Wq {
    /// Waits until nothing is queued or running, also while items queue each other.
    pub(crate) fn drain(&self) {
        if self.says_waits_for_itself("drained") {
            return;
        }
        self.count_drainer(1);
        let mut tries = 0_u32;
        loop {
            self.flush();
            if self.no_pwq(|load| load.nr_active > 0 || load.has_inactive) {
                break;
            }
            tries += 1;
            if drain_is_long(tries) {
                notice::always(format!(
                    "workqueue '{}' is not empty after {tries} flushes while draining: its items \
                     queue each other",
                    self.name
                ));
            }
        }
        self.count_drainer(-1);
    }

    /// Takes no more items, and waits for those it has. A thread that passed `lets_in` before the
    /// close may still queue an item.
    pub(crate) fn close_and_drain(&self) {
        self.close(Closed::DESTROYING);
        self.drain();
        self.wait_until_idle();
    }

    /// Of a closed queue: whoever was let in before has queued his item now, or
    /// [will be refused](Closed::still_lets_in). Otherwise he would come to pwqs that are removed,
    /// and they would be waited for under WQ, which his item may need.
    fn await_who_was_let_in(&self) {
        // Who makes another pwq takes WQ later, and sees that the queue is closed.
        let pwqs = lock(&self.state).pwqs.clone();
        let pools = pwqs.iter().filter_map(|at| self.runtime.pool(at.pool));
        pools.for_each(|pool| drop(pool.lock(LockFor::Counts)));
    }

    /// Waits for the queue's items, and for those that they queue, and takes others in meanwhile.
    pub(crate) fn wait_until_idle(&self) {
        while !self.is_idle() {
            self.flush();
        }
    }

    /// Drains the queue and leaves all pools. No thread of the program may be queueing on it any
    /// more, since it would find the pwqs gone; the item of a timer may be on its way.
    ///
    /// KERNEL: `destroy_workqueue` — differs: if a thread still waits for one of the queue's items,
    /// this waits, too, where Linux leaks the queue.
    pub(crate) fn destroy(&self) {
        self.close(Closed::DESTROYING);
        self.await_who_was_let_in();
        self.drain();
        self.wait_until_idle();
        // The rescuer stops before the pwqs that may call it are removed.
        if let Some(rescuer) = self.rescuer.get() {
            rescuer.stop();
        }
        let mut state = lock(&self.state);
        let pwqs = state.pwqs.take_all();
        for &at in &pwqs {
            // The rescuer has gone.
            self.remove_pwq(&mut state, at);
        }
        drop(state);
        if pwqs.is_empty() {
            return;
        }
        // Behind the lock: workers are woken.
        let pools = pwqs.iter().filter_map(|at| self.runtime.pool(at.pool));
        pools.for_each(Pool::close_if_unused);
        // Another queue may get this key. Threads whose `comm` shows this queue must forget it.
        for thread in self.runtime.pools().flat_map(Pool::threads) {
            thread.comm.forget(self.key);
        }
    }

    /// Closes the queue as [`drain`](Self::drain) does, until the result is dropped.
    pub(crate) fn begin_draining(self: &Arc<Self>) -> Draining {
        self.count_drainer(1);
        Draining(Arc::clone(self))
    }

    pub(crate) fn count_drainer(&self, by: i32) {
        let mut state = lock(&self.state);
        state.nr_drainers = state.nr_drainers.saturating_add_signed(by);
        self.set_draining(state.nr_drainers > 0);
    }

    /// Whether the caller is one of this queue's items, and so about to wait for itself. Reports
    /// that each time, with both names.
    pub(crate) fn says_waits_for_itself(&self, what: &str) -> bool {
        if !current::runs_item_of(self.key) {
            return false;
        }
        notice::always(format!(
            "workqueue '{}' is {what} from inside one of its own items ({}), which would wait for \
             itself for ever; \
             the call returns without waiting",
            self.name,
            current::describe_item()
        ));
        true
    }
}

/// Keeps a queue closed for all but its own items.
pub(crate) struct Draining(Arc<Wq>);

impl Drop for Draining {
    fn drop(&mut self) {
        self.0.count_drainer(-1);
    }
}
