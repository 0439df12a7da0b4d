//! How many workers a process may have, if that is limited, and which pool yields. So they do where
//! the system has no more threads to give.
//!
//! A pool may always have its first worker, so that every item has a worker to run it. Beyond that
//! a pool that is refused a worker does as where no thread can be created: it works with those it
//! has, tries again after [`LIMIT_RETRY_NS`], and calls the rescuers of its queues. So an item that
//! waits for items of a queue with a rescuer does not wait for ever. Pools yield the idle workers
//! that they do not need; each keeps one, as standby, but where the system has no thread for a pool
//! without any worker, and nothing is to be done here: else what waits there would wait for as long
//! as those threads sleep. A process of `n` pools has at most `n` workers more than the limit.

use super::{PoolState, Rule};
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
/// was refused one, or got no thread for it: the first that has one to spare; if there is none, and
/// `refused` `has_none` at all, the first that is at rest. `yields`: makes it let one go
/// ([`PoolState::yield_one`]), the last one if that is said; `false`: it has none.
pub fn yield_for<P: PartialEq, I: IntoIterator<Item = P>>(
    refused: &P,
    has_none: bool,
    pools: impl Fn() -> I,
    mut yields: impl FnMut(&P, bool) -> bool,
) -> Option<P> {
    let others = || pools().into_iter().filter(|pool| pool != refused);
    let spare = others().find(|pool| yields(pool, false));
    spare.or_else(|| others().find(|pool| has_none && yields(pool, true)))
}

impl PoolState {
    /// Workers that were not told to leave, those in the making included.
    #[must_use]
    pub fn nr_staying(&self) -> u32 {
        self.nr_workers - self.nr_dying
    }

    /// The registered worker `id` may not be created now, because the process has as many as it
    /// may. As [`create_failed`](Self::create_failed), but the next attempt comes sooner if work
    /// waits. Else it comes when work does, by [`Kick::NeedFirst`](super::Kick::NeedFirst): workers
    /// that wait for long, and there may be as many as there can be, keep nobody awake.
    pub fn create_refused(&mut self, id: WorkerId, manager: Option<WorkerId>, now: Nanos) {
        self.create_failed(id, manager, now);
        self.retry_soon(now);
        self.is_retried_on_need = !self.need_to_create_worker();
    }

    /// Whether a creation that was refused is to be tried again now. True until somebody begins
    /// one, however often it is asked: who asks may have no use for the answer, or be too late with
    /// it.
    pub(super) fn is_refused_one_needed(&mut self) -> bool {
        let is_retried = self.is_retried_on_need && self.manager.is_none();
        if !self.keeps(Rule::RefusalsAreRemembered) {
            self.is_retried_on_need = false;
            return is_retried;
        }
        is_retried && self.need_to_create_worker()
    }

    /// A creation has failed, and another pool lets a worker go: its thread can be had soon.
    pub fn retry_soon(&mut self, now: Nanos) {
        let pause = self.config().create_cooldown.min(LIMIT_RETRY_NS);
        self.no_create_before = self.no_create_before.min(now.saturating_add(pause));
    }

    /// Tells an idle worker to leave because another pool needs one more: wake it. `None`: this
    /// pool has none beside its standby. `may_be_last`: the other one has no worker; the standby
    /// may leave, too, if nothing is to be done here.
    #[must_use]
    pub fn yield_one(&mut self, may_be_last: bool) -> Option<WorkerId> {
        let is_at_rest = self.nr_working == 0 && self.nr_coming() == 0 && !self.work_waits();
        if self.nr_idle < 2 && !(may_be_last && is_at_rest) {
            return None;
        }
        let id = self.oldest_idle()?;
        self.dismiss(id);
        if self.nr_idle == 0 {
            // Else the thread would soon be asked back, for nobody who needs it.
            self.no_create_before = 0;
        }
        Some(id)
    }
}
