//! Why whoever works has a standby, event by event, and the checks of that.
//!
//! A worker in its inner loop may block at any item, for ever, and for an item that waits behind
//! it. Then somebody else must come, and whoever queues wakes only idle workers. So *(standby)*:
//! while a worker is in `Phase::Working`, another is idle or in `Phase::Prep`. Those in `Prep` are
//! on their way to `recheck`, where each either goes idle or becomes a manager or finds another one
//! idle.
//!
//! Events that put a worker into `Working`:
//!
//! - `recheck` lets it pass if another worker is idle, or is manager (which is in `Prep`), or if
//!   creation has failed a moment ago, so that a retry is due.
//! - `lend` takes an idle worker if there are two.
//!
//! Events that take an idle worker, or one in `Prep`, away from those who work:
//!
//! - A worker that was woken leaves the idle list in `recheck` and decides there, under the same
//!   lock hold: as above.
//! - `cull_one` dismisses only where `too_many_workers`: of three, of whom one may be a manager, so
//!   another idle one stays.
//! - `dismiss_one`, in a closed pool, spares the last idle worker while anybody works or is in
//!   `Prep`. So it does not matter whether a queue comes back before those who work have looked.
//! - `create_failed` removes a worker in `Prep`; it notes the failure, and the driver retries at
//!   `create_retry_at` where nobody is idle, whether work waits or not. A manager returns to
//!   `recheck`.
//! - `next` returns `Exit` only to a worker that was dismissed, which is counted among the dying
//!   and relied upon by nobody.
//!
//! Events that do neither: a CPU that leaves or returns (`set_concurrency`) changes how many may
//! run, not who is idle; replacing and retiring pwqs moves no worker; guests and rescuers are no
//! workers of the pool they visit, and a lent worker counts as working at home for all of its stay;
//! freezing lowers limits; reports of blocking and resuming change what counts as running only.
//!
//! *(coming)* follows since every event after which `need_more_worker` may have become true ends in
//! `kick`: queueing, activating, blocking, a hog, a guest that leaves, a change of the concurrency.
//! A worker that was woken and one that was dismissed are never the same one, see `oldest_idle`.

use super::PoolState;
use crate::worker::{Phase, Worker};

impl PoolState {
    /// Workers on their way to look: woken ones that have left the idle list, managers, and those
    /// in the making.
    fn nr_coming(&self) -> u32 {
        self.nr_workers - self.nr_dying - self.nr_idle - self.nr_working
    }

    /// *(standby)*, in constant time.
    #[must_use]
    pub fn has_standby(&self) -> bool {
        self.nr_working == 0
            || self.nr_idle > 0
            || self.nr_coming() > 0
            || self.no_create_before != 0
    }

    /// Debug builds check *(standby)* where an event could break it.
    #[inline]
    pub(super) fn assert_standby(&self) {
        debug_assert!(self.has_standby(), "(standby): {} work alone", self.nr_working);
    }

    /// *(coming)*. It need not hold while a [`Kick`](super::Kick) that was just returned is not
    /// acted upon.
    #[must_use]
    pub fn somebody_comes(&self) -> bool {
        if !self.need_more_worker() || self.none_to_come() || self.nr_coming() > 0 {
            return true;
        }
        let comes = |w: &Worker| (w.phase == Phase::Idle && w.woken) || w.is_about_to_look();
        self.no_create_before != 0 || self.workers.iter().any(|(_, w)| comes(w))
    }

    pub(super) fn check_standby(&self) {
        let working = self.workers.iter().filter(|(_, w)| w.is_working()).count();
        assert_eq!(working as u32, self.nr_working, "nr_working");
        self.assert_standby();
        assert!(self.somebody_comes(), "(coming): work waits, and nobody comes");
    }
}
