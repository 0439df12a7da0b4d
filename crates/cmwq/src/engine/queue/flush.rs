//! Flushes of whole queues: waiting for all items that were queued before. Who takes part:
//! [README](../item/flush/README.md).

use cmwq_core::flush::{self, PwqsToFlush};
use cmwq_core::{Colors, Kick, LockFor, Pwqs, Start};

use crate::engine::threads::current;
use crate::engine::tools::watchdog::WaitFor;
use crate::engine::wq::flushes::Flusher;
use crate::engine::wq::{State, Wq};
use crate::os::countdown::Countdown;
use crate::os::notice::{self, Notice};
use crate::os::park::Event;
use crate::os::sync::{Arc, lock};

impl PwqsToFlush for Countdown {
    fn restart(&self) {
        Countdown::restart(self);
    }

    fn add(&self) {
        Countdown::add(self);
    }

    #[inline]
    fn done(&self) -> bool {
        Countdown::done(self)
    }
}

impl Wq {
    /// Waits until everything queued before has finished. KERNEL: `flush_workqueue` — same.
    pub(crate) fn flush(&self) {
        if self.says_waits_for_itself("flushed") {
            return;
        }
        check_dependency(self);
        let done = Arc::new(Event::new());
        if let Some(me) = self.begin_flush(|| Flusher::Thread(Arc::clone(&done))) {
            current::waiting_for(WaitFor::Flush(self.key, me), || done.wait(None));
            self.hand_over(me);
        }
    }

    /// Begins a flush, and does not wait. `None`: there is nothing to wait for, and nobody is told.
    pub(crate) fn begin_flush(&self, flusher: impl FnOnce() -> Flusher) -> Option<u64> {
        let mut state = lock(&self.state);
        let State { flushes, pwqs, .. } = &mut *state;
        if flushes.is_none() && pwqs.is_empty() {
            // Nothing is queued, and no other flush waits.
            return None;
        }
        let flushes = flushes.get_or_insert_default();
        let me = flushes.number();
        let flush_state = &mut flushes.state;
        let start = flush_state.start(me, &mut |flush, color| self.prep_pwqs(pwqs, flush, color));
        if start == Start::Done {
            return None;
        }
        // Who finds that it is over takes the lock to look for this.
        flushes.enter(me, flusher());
        Some(me)
    }

    /// Nobody wants to be told any more of a flush that was begun. It goes on: others wait for it.
    pub(crate) fn forget_flusher(&self, me: u64) {
        let mut state = lock(&self.state);
        let unwanted = state.flushes.as_mut().and_then(|flushes| flushes.leave(me));
        drop(state);
        drop(unwanted);
    }

    /// The colours of the items that a flusher waits for.
    pub(crate) fn awaited(&self, me: u64) -> Colors {
        let state = lock(&self.state);
        state.flushes.as_ref().map_or(Colors::NONE, |flushes| flushes.state.awaited(me))
    }

    /// A flusher has been told; the first one completes the others.
    fn hand_over(&self, me: u64) {
        let mut state = lock(&self.state);
        let State { flushes, pwqs, .. } = &mut *state;
        let Some(flushes) = flushes else { return };
        let flush_state = &mut flushes.state;
        if !flush_state.is_first(me) {
            return;
        }
        let mut finished = Vec::new();
        flush_state.cascade(&mut |flush, color| self.prep_pwqs(pwqs, flush, color), |flusher| {
            finished.push(flusher)
        });
        let told: Vec<_> = finished.into_iter().filter_map(|id| flushes.leave(id)).collect();
        drop(state);
        told.into_iter().for_each(Flusher::tell);
    }

    /// Arms the queue's pwqs.
    fn prep_pwqs(&self, pwqs: &Pwqs, flush: Option<u8>, color: Option<u8>) -> bool {
        flush::prep_pwqs(&self.pwqs_to_flush, pwqs, flush, |at| {
            let Some(pool) = self.runtime.pool(at.pool) else { return };
            let mut guard = pool.lock(LockFor::Decide);
            guard.core.flush_arm(at.pwq, flush, color, &self.pwqs_to_flush);
            pool.unlock(guard, Kick::None);
        })
    }

    /// One pwq has no item of the flushed colour left.
    pub(crate) fn flush_pwq_done(&self) {
        if !self.pwqs_to_flush.done() {
            return;
        }
        let mut state = lock(&self.state);
        let first = state.flushes.as_mut().and_then(|flushes| flushes.take_first());
        drop(state);
        let Some((me, flusher)) = first else { return };
        // A thread hands over itself, when it is awake.
        if !matches!(flusher, Some(Flusher::Thread(_))) {
            self.hand_over(me);
        }
        flusher.into_iter().for_each(Flusher::tell);
    }
}

/// An item of a queue with a rescuer must not wait for a queue without one, which makes no progress
/// where no thread can be created. Reported once.
///
/// KERNEL: `check_flush_dependency` — same; not when cancelling.
pub(crate) fn check_dependency(target: &Wq) {
    if target.spec.mem_reclaim || !current::current_is_mem_reclaim() {
        return;
    }
    let Some(waiting) = current::current_wq().and_then(|key| target.runtime.wq_name(key)) else {
        return;
    };
    notice::once(Notice::Dependency, || {
        format!(
            "an item of mem_reclaim workqueue '{waiting}' ({}) waits for workqueue '{}', which \
             has no rescuer: where no \
             thread can be had, both may wait for ever",
            current::describe_item(),
            target.name
        )
    });
}
