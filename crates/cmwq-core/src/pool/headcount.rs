//! How many workers a process may have, if that is limited, and which pool yields.
//!
//! A pool's first worker it may always have: whatever is queued has somebody to run it. Beyond that
//! the process has as many as it may, and who comes late works with what it has, as where no thread
//! can be had: it tries again after [`LIMIT_RETRY_NS`], and rescuers are called for its queues that
//! have one. So items that wait for items of such queues do not wait for ever. Pools yield what
//! they do not use: of idle workers each keeps one, to stand by. A process of `n` pools has at most
//! `n` workers more than it may.

use super::PoolState;
use crate::ids::{Nanos, WorkerId};

/// When a pool that was refused a worker asks again.
pub const LIMIT_RETRY_NS: Nanos = 10_000_000;

/// Whether a pool that has so many workers may have another one, where the process has so many of
/// `max`.
#[must_use]
pub const fn may_add_worker(of_process: u32, max: u32, of_pool: u32) -> bool {
    of_pool == 0 || of_process < max
}

/// Which of `pools`, in the order in which they were made, lets a worker go for `refused`, which
/// was refused one: the first that has one to spare. `yields`: makes it let one go
/// ([`PoolState::yield_one`]); `false`: it has none.
pub fn yield_for<P: PartialEq>(
    refused: &P,
    pools: impl IntoIterator<Item = P>,
    yields: impl FnMut(&P) -> bool,
) -> Option<P> {
    pools.into_iter().filter(|pool| pool != refused).find(yields)
}

impl PoolState {
    /// Workers that were not told to leave, with those in the making.
    #[must_use]
    pub fn nr_staying(&self) -> u32 {
        self.nr_workers - self.nr_dying
    }

    /// The registered worker `id` may not be created now, because the process has as many as it
    /// may. As [`create_failed`](Self::create_failed), but asked again soon.
    pub fn create_refused(&mut self, id: WorkerId, manager: Option<WorkerId>, now: Nanos) {
        self.create_failed(id, manager, now);
        let pause = self.config().create_cooldown.min(LIMIT_RETRY_NS);
        self.no_create_before = now.saturating_add(pause);
    }

    /// Tells an idle worker to leave that this pool has beyond the one that stands by, because
    /// another pool needs it more: wake it.
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
