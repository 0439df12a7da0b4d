//! What finishing or cancelling an item may demand of queues and of other pools, beside a kick: a
//! slot of the node's limit to be handed over, a flush that is complete, a replaced pwq that has
//! drained.

use cmwq_core::Effects;

use crate::engine::pool::Pool;

impl Pool {
    /// Does what finishing or cancelling an item demanded, but for the kick, which is
    /// [`unlock`](Self::unlock)'s. Caller holds no core lock.
    #[inline]
    pub(crate) fn act_effects(&'static self, effects: Effects) {
        if effects.has_rest() {
            self.act_rare(effects);
        }
    }

    #[cold]
    fn act_rare(&'static self, effects: Effects) {
        // First: whoever removes the pwq to which the slot is going waits for it, under WQ.
        Self::grant(self.runtime, effects.grant);
        if let Some(wq) = effects.flush_done.and_then(|key| self.runtime.wq(key)) {
            wq.flush_pwq_done();
        }
        if let Some(wq) = effects.retired.and_then(|key| self.runtime.wq(key)) {
            wq.release_retired();
        }
    }
}
