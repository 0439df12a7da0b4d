//! Guests run this pool's items and are none of its workers: they are workers of other pods that
//! help, rescuers, BH contexts, and callers that run their own item.

use alloc::sync::Arc;

use super::{Kick, PoolState, Rule};
use crate::batch::Batch;
use crate::ids::WorkerId;
use crate::list::Node;
use crate::worker::{Claim, Phase};

impl PoolState {
    /// Registers a worker of another pool. It never counts here: its own pool counts it.
    #[must_use]
    pub fn guest_enter(&mut self) -> WorkerId {
        let id = WorkerId(self.workers.insert(crate::worker::Worker::new(true)));
        self.worker(id).phase = Phase::Working;
        id
    }

    /// As [`guest_enter`](Self::guest_enter), for a worker that may take items along: in `batch`,
    /// the place for those of its own pool.
    #[must_use]
    pub fn helper_enter(&mut self, batch: Option<Arc<Batch>>) -> WorkerId {
        let id = self.guest_enter();
        self.worker(id).batch = batch;
        id
    }

    /// The next item for a guest, while this pool cannot start it itself. `waits_first`: whether
    /// the guest's own pool [expects](Self::items_wait_first) that items wait.
    pub fn guest_next(&mut self, id: WorkerId, waits_first: bool) -> Option<Claim> {
        let node = self.guest_node(id)?;
        let mut claim = self.start(id, node);
        let is_barrier = self.worker(id).current.as_ref().is_some_and(|current| current.is_barrier);
        claim.is_to_wait |= waits_first && !is_barrier;
        if !is_barrier && !waits_first && self.worker(id).batch.is_some() {
            self.take_along(id, &mut claim);
        }
        Some(claim)
    }

    fn guest_node(&mut self, id: WorkerId) -> Option<Node> {
        if let Some(node) = self.worker(id).scheduled.pop_front() {
            return Some(node);
        }
        while self.has_backlog() {
            let node = self.first_to_start()?;
            if self.assign(node, id) {
                return Some(node);
            }
        }
        None
    }

    /// Whether the guest has no scheduled items, which only it can run.
    #[must_use]
    pub fn guest_may_leave(&self, id: WorkerId) -> bool {
        let guest = self.workers.get(id.0).expect("a worker that does not exist");
        !self.keeps(Rule::GuestsFinish) || guest.scheduled.is_empty()
    }

    /// The guest leaves. KERNEL: the end of `rescuer_thread`'s visit to a pool — same: kicks the
    /// pool.
    pub fn guest_leave(&mut self, id: WorkerId) -> Kick {
        debug_assert!(self.worker(id).current.is_none());
        debug_assert!(self.worker(id).scheduled.is_empty());
        self.workers.remove(id.0);
        if self.keeps(Rule::GuestKicksBehind) { self.kick() } else { Kick::None }
    }
}
