//! Why a worker at work always has a standby, event by event, and the checks of that.
//!
//! A worker in its inner loop may block at any item, for ever, even for an item that waits behind
//! it. Then another worker must come, and queueing wakes only idle workers. So *(standby)*: while a
//! worker is in `Phase::Working`, another is idle or in `Phase::Prep`. Workers in `Prep` are on
//! their way to `recheck`, where each goes idle, becomes a manager, or finds another one idle.
//!
//! Events that put a worker into `Working`:
//!
//! - `recheck` lets the worker pass if another one is idle, or is manager (and so in `Prep`), or if
//!   a creation has just failed, so that a retry is due.
//! - `lend` takes an idle worker if there are two.
//!
//! Events that take an idle worker, or one in `Prep`, away from the workers at work:
//!
//! - A woken worker leaves the idle list in `recheck` and decides there, under the same hold of the
//!   lock, as above.
//! - `cull_one` dismisses only if `too_many_workers`: there are three, counting a manager, so
//!   another idle one stays.
//! - `yield_one` leaves another idle one, but where nobody is at work, on his way or waited for.
//! - `dismiss_one`, in a closed pool, spares the last idle worker while another worker works or is
//!   in `Prep`. So a queue may come back before the workers at work have looked.
//! - `create_failed` removes a worker in `Prep` and records the failure; the driver retries at
//!   `create_retry_at` if no worker is idle, whether work waits or not. `create_refused` does the
//!   same, but if no work waits the driver retries when it does: `kick` says so then, each time,
//!   until a creation has begun. A manager returns to `recheck`.
//! - `retry` forgets a failure only if a worker is idle.
//! - `next` returns `Exit` only to a dismissed worker, which is counted as dying; nothing relies on
//!   it.
//!
//! Events that do neither: a CPU that leaves or returns (`set_concurrency`) changes how many
//! workers may run, not which are idle; replacing and retiring pwqs moves no worker; guests and
//! rescuers are no workers of the pool they visit, and a lent worker counts as working in its own
//! pool for all of its stay; freezing lowers limits; reports of blocking and resuming change what
//! counts as running only.
//!
//! *(coming)* follows since every event after which `need_more_worker` may have become true ends in
//! `kick`: queueing, activating, blocking, a hog, a guest that leaves, a change of the concurrency.
//! No woken worker is dismissed, see `oldest_idle`. Who is marked as woken is woken: a hold of the
//! lock marks one worker, so `worker_created`, with which another one becomes the standby, marks
//! none where one is marked already.

use super::PoolState;
use crate::worker::{Phase, Worker};

impl PoolState {
    /// Workers on their way to look: woken ones that have left the idle list, managers, and those
    /// in the making.
    pub(super) fn nr_coming(&self) -> u32 {
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
        let is_excused = self.none_to_come() || self.no_create_before != 0;
        !self.need_more_worker() || is_excused || self.is_one_on_the_way()
    }

    /// Whether a worker will look what to do, whatever happens. Where work waits that a CPU could
    /// run, and none will, the driver is to create one, now or at the time of a retry: whether it
    /// knows is for its own checks.
    #[must_use]
    pub fn is_one_on_the_way(&self) -> bool {
        let comes = |w: &Worker| (w.phase == Phase::Idle && w.woken) || w.is_about_to_look();
        self.nr_coming() > 0 || self.workers.iter().any(|(_, w)| comes(w))
    }

    pub(super) fn check_standby(&self) {
        let working = self.workers.iter().filter(|(_, w)| w.is_working()).count();
        assert_eq!(working as u32, self.nr_working, "nr_working");
        self.assert_standby();
        assert!(self.somebody_comes(), "(coming): work waits, and nobody comes");
    }
}
