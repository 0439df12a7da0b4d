//! Who may create a worker, and when.

use super::PoolState;
use crate::ids::{Nanos, WorkerId};
use crate::policy;

/// Who would create a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creator {
    /// The pool's manager.
    Manager(WorkerId),
    /// Somebody outside, because work waits and the pool has nobody to come for it:
    /// [`Kick::NeedFirst`](super::Kick::NeedFirst).
    First,
    /// Somebody who has made the pool, or led a queue here, see [`PoolState::is_to_begin`]. Another
    /// such may have had its first worker created meanwhile.
    Begin,
    /// Somebody who does it ahead of need: one worker can be lent, or come for the first item, and
    /// one stays.
    Spare,
}

impl Creator {
    /// The manager, if it is a worker of the pool.
    #[must_use]
    pub const fn manager(self) -> Option<WorkerId> {
        if let Self::Manager(id) = self { Some(id) } else { None }
    }
}

/// Whether somebody is to create a worker.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// Now: register one, see [`PoolState::worker_new`].
    Now,
    /// Not he: somebody else is to look whether to [retry](PoolState::retry), at this time. Until
    /// then the pool may [need a rescuer](PoolState::needs_rescuer).
    Later(Nanos),
    /// No.
    No,
}

impl PoolState {
    /// Whether `by` is to create a worker. `is_rescuer`: the thread is a rescuer, perhaps in an
    /// item that has queued something. It creates nobody: that may take long, and the worker would
    /// have its priority. So it leaves that to the next regular attempt.
    pub fn may_create(&mut self, by: Creator, is_rescuer: bool, now: Nanos) -> Create {
        let is_due = match by {
            Creator::Manager(_) => true,
            Creator::First => self.may_create_from_outside(),
            Creator::Begin => self.has_to_begin() && self.may_create_spare(now),
            Creator::Spare => self.may_create_spare(now),
        };
        match (is_due, is_rescuer) {
            (true, false) => Create::Now,
            (true, true) => Create::Later(self.postpone_creation(now)),
            (false, _) => Create::No,
        }
    }

    /// Whether work waits that a CPU could run, and no worker is idle. Somebody may be creating
    /// one.
    #[must_use]
    pub fn need_to_create_worker(&self) -> bool {
        policy::need_to_create_worker(self.need_more_worker(), self.nr_idle)
    }

    /// For somebody who is not a worker of this pool.
    fn may_create_from_outside(&self) -> bool {
        self.manager.is_none() && self.need_to_create_worker()
    }

    fn may_create_spare(&self, now: Nanos) -> bool {
        self.manager.is_none() && self.nr_idle < 2 && now >= self.no_create_before
    }

    /// When the next regular attempt is due ([`create_retry_at`](Self::create_retry_at)).
    fn postpone_creation(&mut self, now: Nanos) -> Nanos {
        if self.no_create_before == 0 {
            self.no_create_before = now.max(1);
        }
        self.no_create_before
    }
}
