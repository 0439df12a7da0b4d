//! A pool that no queue needs is closed, and its workers leave; a queue that comes back opens it.

use cmwq_core::{LockFor, WorkerId};

use super::Engine;
use crate::config::Sabotage;
use crate::event::PoolNo;

impl Engine<'_> {
    /// A queue does not lead here any more.
    pub(super) fn close_if_unused(&mut self, pool: PoolNo) {
        let kind = self.pools.list[pool].kind;
        let closes = kind.in_core().closes(kind.is_usual());
        if !closes || self.config.sabotage == Some(Sabotage::NeverClose) {
            return;
        }
        if self.pools.list[pool].lock(LockFor::Counts).close_if_unused() {
            self.check_pool(pool);
            self.dismiss_idle(pool);
        }
    }

    /// Sends the idle workers of a closed pool away. To be called when it was closed, and when a
    /// worker went idle or was created there.
    pub(super) fn dismiss_idle(&mut self, pool: PoolNo) {
        while let Some(id) = self.pools.list[pool].lock(LockFor::Counts).dismiss_one() {
            self.send_away(pool, id);
        }
    }

    /// The core has told an idle worker to leave.
    pub(super) fn send_away(&mut self, pool: PoolNo, id: WorkerId) {
        self.check_pool(pool);
        self.gauges[pool].leaving += 1;
        self.unpark_worker(pool, id);
    }

    pub(super) fn dismiss_if_closed(&mut self, pool: PoolNo) {
        if self.pools.list[pool].read().is_closed() {
            self.dismiss_idle(pool);
        }
    }
}
