//! How many workers a process may have, if that is limited, and which pool yields. So they do where
//! the system has no more threads to give.
//!
//! A pool may always have its first worker, so that every item has a worker to run it. Beyond that
//! a pool that is refused a worker does as where no thread can be created: it works with those it
//! has, tries again after [`LIMIT_RETRY_NS`], and calls the rescuers of its queues. So an item that
//! waits for items of a queue with a rescuer does not wait for ever. Pools yield the idle workers
//! that they do not need; each keeps one, as standby. A process of `n` pools has at most `n`
//! workers more than the limit.

use super::PoolState;
use crate::ids::{Nanos, WorkerId};

/// When a pool that was refused a worker, or for which another one has let a worker go, asks again.
pub const LIMIT_RETRY_NS: Nanos = 10_000_000;

/// Whether a pool of `of_pool` workers may have another one, in a process that has `of_process` of
/// at most `max`.
#[must_use]
pub const fn may_add_worker(of_process: u32, max: u32, of_pool: u32) -> bool {
    of_pool == 0 || of_process < max
}

/// Which of `pools`, in the order in which they were made, lets a worker go for `refused`, which
/// was refused one, or got no thread for it: the first that has one to spare. `yields`: makes it
/// let one go ([`PoolState::yield_one`]); `false`: it has none.
pub fn yield_for<P: PartialEq>(
    refused: &P,
    pools: impl IntoIterator<Item = P>,
    yields: impl FnMut(&P) -> bool,
) -> Option<P> {
    pools.into_iter().filter(|pool| pool != refused).find(yields)
}

impl PoolState {
    /// Workers that were not told to leave, those in the making included.
    #[must_use]
    pub fn nr_staying(&self) -> u32 {
        self.nr_workers - self.nr_dying
    }

    /// The registered worker `id` may not be created now, because the process has as many as it
    /// may. As [`create_failed`](Self::create_failed), but the next attempt comes sooner.
    pub fn create_refused(&mut self, id: WorkerId, manager: Option<WorkerId>, now: Nanos) {
        self.create_failed(id, manager, now);
        self.retry_soon(now);
    }

    /// A creation has failed, and another pool lets a worker go: its thread can be had soon.
    pub fn retry_soon(&mut self, now: Nanos) {
        let pause = self.config().create_cooldown.min(LIMIT_RETRY_NS);
        self.no_create_before = self.no_create_before.min(now.saturating_add(pause));
    }

    /// Tells an idle worker to leave because another pool needs one more: wake it. `None`: this
    /// pool has none beside its standby.
    #[must_use]
    pub fn yield_one(&mut self) -> Option<WorkerId> {
        if self.nr_idle < 2 {
            return None;
        }
        let id = self.oldest_idle()?;
        self.dismiss(id);
        Some(id)
    }
}
