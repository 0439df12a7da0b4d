//! The end of a runtime.

use cmwq_core::WqKey;

use super::Runtime;
use crate::sync::{Arc, lock};
use crate::wq::Wq;

impl Runtime {
    /// Takes the runtime down: when this returns, all its threads have left. Its memory stays: an
    /// idle item may name one of its pools.
    ///
    /// The caller sees to it that no queue is left and that none is made any more, and calls this
    /// once, from outside.
    pub(crate) fn shutdown(&'static self) {
        self.dismiss_reaper();
        let mut registry = lock(&self.registry);
        assert!(registry.wqs.iter().all(Option::is_none), "shut down with workqueues in use");
        // A thread that still acts on what it saw earlier may make a pool; it will be a closed one.
        registry.is_closing = true;
        drop(registry);
        self.service.stop();
        self.sentinels.stop();
        for pool in self.pools() {
            pool.close();
        }
        self.crew.dismiss();
    }

    /// The queue that takes down queues whose last handle was dropped by one of their own items.
    pub(super) fn reaper(&'static self) -> Arc<Wq> {
        let mut registry = lock(&self.registry);
        if let Some(reaper) = &registry.reaper {
            return Arc::clone(reaper);
        }
        let reaper = self.register(&mut registry, "reaper", super::REAPER);
        registry.reaper = Some(Arc::clone(&reaper));
        reaper
    }

    /// Waits for it, and so for all queues that were left to it.
    fn dismiss_reaper(&'static self) {
        let Some(reaper) = lock(&self.registry).reaper.take() else { return };
        reaper.destroy();
        let key: WqKey = reaper.key;
        self.forget_wq(key);
    }
}
