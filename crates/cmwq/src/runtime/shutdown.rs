//! The end of a runtime.

use super::{REAPER, Runtime};
use crate::park::Event;
use crate::sync::{Arc, lock};
use crate::wq::Wq;

impl Runtime {
    /// Waits until all queues are gone, those that armed timers keep included, and takes the runtime down: when this
    /// returns, its threads have left. Its memory stays: an idle item may name one of its pools.
    ///
    /// The caller sees to it that nobody makes a queue any more, and calls this once, from outside of a work function.
    #[cfg_attr(not(shuttle), expect(dead_code, reason = "shutting down is for the models, so far"))]
    pub(crate) fn shutdown(&'static self) {
        self.wait_for_queues();
        // A thread that still acts on what it saw earlier may make a pool; it will be a closed one.
        lock(&self.registry).is_closing = true;
        self.service.stop();
        self.sentinels.stop();
        for pool in self.pools() {
            pool.close();
        }
        self.crew.dismiss();
    }

    fn wait_for_queues(&'static self) {
        let mut registry = lock(&self.registry);
        let all_gone = registry.has_queues().then(|| Arc::new(Event::new()));
        registry.all_gone.clone_from(&all_gone);
        drop(registry);
        if let Some(all_gone) = all_gone {
            all_gone.wait(None);
        }
        let reaper = lock(&self.registry).reaper.clone();
        if let Some(reaper) = reaper {
            reaper.destroy();
            self.forget_wq(reaper.key);
        }
    }

    /// The queue that takes down queues whose last handle was dropped where one cannot wait.
    pub(super) fn reaper(&'static self) -> Arc<Wq> {
        let mut registry = lock(&self.registry);
        if let Some(reaper) = &registry.reaper {
            return Arc::clone(reaper);
        }
        let reaper = self.register(&mut registry, "reaper", REAPER);
        registry.reaper = Some(Arc::clone(&reaper));
        reaper
    }
}
