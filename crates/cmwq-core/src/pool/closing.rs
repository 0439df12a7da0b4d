//! Closing a pool that no queue needs, and opening it again.
//!
//! A pool lives for ever, for the ids in idle items' words; its workers need not. While it is
//! closed they leave as soon as they are idle, except for the standby of those that are still at
//! work: *(standby)* holds in a closed pool as in any other, since a queue may come back before the
//! last worker has looked.
//!
//! When the last worker has left, the pool is *vacant*: queues that want workers of another kind
//! may have it ([`PoolState::renew`]), so that there are as many pools as were ever needed at the
//! same time, and not one for each kind that anybody ever wanted.
//!
//! KERNEL: `put_unbound_pool` — differs: there the pool goes, and with it nothing can come back.

use super::{PoolState, Rule};
use crate::ids::WorkerId;

/// Whether idle workers stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    Open,
    /// No queue leads here; one that comes back opens it.
    Unused,
    /// The library is shut down.
    ForEver,
}

impl PoolState {
    /// Closes the pool if no queue leads here any more, retired pwqs included. `true`: it is
    /// closed, so workers have to be [dismissed](Self::dismiss_one).
    #[must_use]
    pub fn close_if_unused(&mut self) -> bool {
        if self.closing == Closing::Open && self.nr_pwqs() == 0 {
            self.closing = Closing::Unused;
        }
        self.is_closed()
    }

    /// Closes the pool for ever. Nothing is queued here any more.
    pub fn close(&mut self) {
        self.closing = Closing::ForEver;
    }

    /// A queue leads here (again).
    pub(super) fn reopen(&mut self) {
        if self.closing == Closing::Unused {
            self.closing = Closing::Open;
        }
    }

    /// Whether it is closed because no queue leads here, and nothing at all is left: no pwq, no
    /// worker, also in the making or about to leave, no guest, no rescuer.
    #[must_use]
    pub fn is_vacant(&self) -> bool {
        self.is_unused()
            && self.pwqs.is_empty()
            && self.workers.is_empty()
            && self.manager.is_none()
            && !self.work_waits()
    }

    /// Opens a vacant pool, for queues that want workers of another kind than it had. `false`:
    /// something is left, so its workers have to be of the kind they are.
    ///
    /// Its id stays, and may be in words of idle items that ran here: these look for themselves
    /// among the items that run here, and are not found, as if it were the pool that it was.
    #[must_use]
    pub fn renew(&mut self) -> bool {
        let is_vacant = self.is_vacant();
        if is_vacant {
            debug_assert!(self.nr_workers == 0 && self.nr_running == 0 && self.nr_cursors == 0);
            self.reopen();
        }
        is_vacant
    }

    /// Whether workers leave as soon as they are idle.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closing != Closing::Open
    }

    /// Closed because no queue leads here, not for ever.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.closing == Closing::Unused
    }

    /// Tells an idle worker of a closed pool to leave: wake it. To be asked until `None`, when the
    /// pool was closed and whenever a worker of a closed pool went idle or was created.
    ///
    /// The last idle one stays while another worker is at work or on its way, as its standby. That
    /// one goes idle in the end, and is asked for then together with its standby.
    #[must_use]
    pub fn dismiss_one(&mut self) -> Option<WorkerId> {
        let others = self.nr_workers - self.nr_dying - self.nr_idle;
        let is_needed = self.nr_idle == 1 && others != 0 && self.keeps(Rule::ClosedKeepsStandby);
        if !self.is_closed() || self.work_waits() || is_needed {
            return None;
        }
        // The newest stays, which is the standby.
        let id = self.idle_tail?;
        self.dismiss(id);
        Some(id)
    }
}
