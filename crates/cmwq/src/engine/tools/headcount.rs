//! The workers of the process, counted where their number is limited; the rule is
//! [`may_add_worker`]'s.

use cmwq_core::may_add_worker;

use crate::os::notice::{self, Notice};
use crate::os::sync::{AtomicU32, Ordering};

/// See the module header.
#[derive(Debug)]
pub(crate) struct Headcount {
    /// `u32::MAX`: there is no limit.
    max: u32,
    // ORDERING (all accesses): no pairing: a number.
    now: AtomicU32,
}

impl Headcount {
    /// 0: there is no limit.
    pub(crate) fn new(max_workers: u32) -> Self {
        let max = if max_workers == 0 { u32::MAX } else { max_workers };
        Self { max, now: AtomicU32::new(0) }
    }

    /// Counts a worker that is to be created for a pool that has `of_pool` others. `false`: the
    /// process may have no more.
    pub(crate) fn enter(&self, of_pool: u32) -> bool {
        let more = |now| may_add_worker(now, self.max, of_pool).then_some(now + 1);
        self.now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// A worker has left, or could not be created.
    pub(crate) fn leave(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    /// Reports once that no more workers may be created.
    #[cold]
    pub(crate) fn say(&self) {
        notice::once(Notice::MaxWorkers, || {
            format!(
                "this process has {} workers, as many as it may (max_workers): items wait though \
                 CPUs may be idle, and those that wait for each other may do so for ever, but on \
                 queues with a rescuer",
                self.max
            )
        });
    }
}
