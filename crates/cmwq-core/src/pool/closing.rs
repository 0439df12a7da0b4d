//! Closing a pool that no queue needs, and opening it again.
//!
//! A pool lives for ever, for the ids in idle items' words; its workers need not. While it is
//! closed they leave as soon as they are idle, except for the standby of those that are still at
//! work: *(standby)* holds in a closed pool as in any other, since a queue may come back before the
//! last worker has looked.
//!
//! When the last worker has left, the pool is *vacant*: queues that want workers of another kind
//! may have it ([`PoolState::renew`]), so that there are as many pools as were ever needed at the
//! same time, and not one for each kind that was ever wanted.
//!
//! KERNEL: `put_unbound_pool` — differs: there the pool goes, and with it nothing can come back.

use super::{PoolState, Rule};
use crate::ids::WorkerId;
use crate::place::PoolKind;

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

    /// A queue has a pwq in this pool (again).
    pub(super) fn reopen(&mut self) {
        if self.closing == Closing::Unused {
            self.closing = Closing::Open;
        }
    }

    /// Whether the pool is closed because no queue leads here, and nothing at all is left: no pwq,
    /// no guest, no rescuer, and no worker, not even one that is being created or about to leave.
    #[must_use]
    pub fn is_vacant(&self) -> bool {
        self.is_unused()
            && self.pwqs.is_empty()
            && self.workers.is_empty()
            && self.manager.is_none()
            && !self.work_waits()
    }

    /// Opens a vacant pool for queues that want workers of another kind. `false`: the pool is not
    /// vacant, and its kind must stay.
    ///
    /// The pool's id stays, and may be in the words of idle items that ran here. When such an item
    /// is queued, it is looked for among the running items of this pool and not found, as before.
    #[must_use]
    pub fn renew(&mut self) -> bool {
        let is_vacant = self.is_vacant();
        if is_vacant {
            debug_assert!(self.nr_workers == 0 && self.nr_running == 0 && self.nr_cursors == 0);
            self.reopen();
        }
        is_vacant
    }

    /// Whether whoever has just made this pool, or led a queue here, makes its first worker: a pool
    /// of its kind [begins with one](PoolKind::begins_with_worker), and it is open and has none,
    /// not even one that is being created.
    #[must_use]
    pub fn is_to_begin(&self, kind: PoolKind) -> bool {
        kind.begins_with_worker() && self.has_to_begin()
    }

    pub(super) fn has_to_begin(&self) -> bool {
        !self.is_closed() && self.workers.is_empty() && self.manager.is_none()
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
    /// The last idle worker stays, as standby, while another one is at work or on its way. When
    /// that one goes idle, too, both are dismissed.
    #[must_use]
    pub fn dismiss_one(&mut self) -> Option<WorkerId> {
        let others = self.nr_workers - self.nr_dying - self.nr_idle;
        let is_needed = self.nr_idle == 1 && others != 0 && self.keeps(Rule::ClosedKeepsStandby);
        if !self.is_closed() || self.work_waits() || is_needed {
            return None;
        }
        // The newest idle worker is the standby, and stays.
        let id = self.idle_tail?;
        self.dismiss(id);
        Some(id)
    }
}
