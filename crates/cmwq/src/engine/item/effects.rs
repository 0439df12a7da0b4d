//! What follows for queues and other pools when an item is finished or cancelled: a slot of the
//! node's limit is handed over, a flush is complete, a replaced pwq has drained.

use cmwq_core::Effects;

use crate::engine::pool::Pool;
use crate::os::sync::leaves_out;

impl Pool {
    /// Acts on the effects of finishing or cancelling an item. Caller holds no core lock.
    #[inline]
    pub(crate) fn act_effects(&'static self, effects: Effects) {
        if !effects.is_none() {
            self.act_rare(effects);
        }
    }

    #[cold]
    fn act_rare(&'static self, effects: Effects) {
        // The slot first: a thread that removes the pwq to which the slot is going waits for the
        // slot, under WQ.
        if !leaves_out("act.grant") {
            Self::grant(self.runtime, effects.grant);
        }
        if let Some(wq) = effects.flush_done.and_then(|key| self.runtime.wq(key))
            && !leaves_out("act.flushed")
        {
            wq.flush_pwq_done();
        }
        if let Some(wq) = effects.retired.and_then(|key| self.runtime.wq(key))
            && !leaves_out("act.retired")
        {
            wq.release_retired();
        }
    }
}
