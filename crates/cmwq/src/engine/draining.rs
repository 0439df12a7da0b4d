//! Draining: waiting until a queue is empty, with only its own items let in meanwhile.
//!
//! KERNEL: `drain_workqueue`, `destroy_workqueue` — same rules: an item that a running item of the
//! same queue queues is *chained* and let in; everybody else's is refused, said once per process,
//! and its item is idle again.

use cmwq_core::WorkFn;

use crate::engine::current;
use crate::engine::wq::{DRAINING, SHUT, Wq};
use crate::os::notice::{self, Notice};
use crate::os::sync::{Arc, Ordering, lock};
use crate::record::symbol;

impl Wq {
    /// Whether the caller may queue here.
    #[inline]
    pub(crate) fn lets_in(&self) -> bool {
        // ORDERING: no pairing: a queuer that comes at the same time as a drainer may be let in or
        // not.
        self.flags.load(Ordering::Relaxed) == 0 || current::current_wq() == Some(self.key)
    }

    /// Whether it is closed for this reason, as of now.
    pub(crate) fn is_closed(&self, why: u32) -> bool {
        // ORDERING: no pairing: for people.
        self.flags.load(Ordering::Relaxed) & why != 0
    }

    #[cold]
    pub(crate) fn say_refused(&self, func: WorkFn) {
        notice::once(Notice::Refused, || {
            format!(
                "workqueue '{}' is being drained, destroyed or shut down and takes only what its \
                 own items queue: {} \
                 was not queued, and will not be said again",
                self.name,
                symbol::name_of(func as *const () as usize)
            )
        });
    }

    /// Waits until nothing is queued or running, for as long as items queue each other.
    pub(crate) fn drain(&self) {
        if self.says_waits_for_itself("drained") {
            return;
        }
        self.count_drainer(1);
        let mut tries = 0_u32;
        loop {
            self.flush();
            if !self.any_pwq(|(nr_active, is_inactive, _)| nr_active > 0 || is_inactive) {
                break;
            }
            tries += 1;
            if tries == 10 || (tries.is_multiple_of(100) && tries <= 1000) {
                notice::always(format!(
                    "workqueue '{}' is not empty after {tries} flushes while draining: its items \
                     queue each other",
                    self.name
                ));
            }
        }
        self.count_drainer(-1);
    }

    /// Lets only chained items in from now on, because of `why`. `false`: it was closed for that
    /// before.
    pub(crate) fn close(&self, why: u32) -> bool {
        // ORDERING: no pairing: see `lets_in`.
        self.flags.fetch_or(why, Ordering::Relaxed) & why == 0
    }

    /// As [`drain`](Self::drain) begins: until the result is dropped.
    pub(crate) fn begin_draining(self: &Arc<Self>) -> Draining {
        self.count_drainer(1);
        Draining(Arc::clone(self))
    }

    /// Whether timers may not be armed for it any more: nobody would see them expire.
    pub(crate) fn is_shut(&self) -> bool {
        // ORDERING: no pairing: a timer that is armed at the same time stays armed.
        self.flags.load(Ordering::Relaxed) & SHUT != 0
    }

    pub(crate) fn count_drainer(&self, by: i32) {
        let mut state = lock(&self.state);
        state.nr_drainers = state.nr_drainers.saturating_add_signed(by);
        // ORDERING: no pairing: written under the lock, read as `lets_in` says.
        if state.nr_drainers > 0 {
            self.flags.fetch_or(DRAINING, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!DRAINING, Ordering::Relaxed);
        }
    }

    /// Whether the caller is one of this queue's items, for which it is about to wait: said each
    /// time, with both names.
    pub(crate) fn says_waits_for_itself(&self, what: &str) -> bool {
        if current::current_wq() != Some(self.key) {
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
