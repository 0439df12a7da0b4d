//! The reaper: a queue that destroys queues whose last handle was dropped where the thread cannot
//! wait.

use std::ptr::NonNull;

use cmwq_core::{Closed, WorkItem};

use crate::engine::runtime::Runtime;
use crate::engine::wq::{Kind, Queueing, Spec, Wq};
use crate::os::sync::{Arc, lock};

/// The queue that takes other queues down.
const REAPER: Spec =
    Spec { max_active: cmwq_core::consts::WQ_MAX_ACTIVE, ..Spec::of(Kind::Unbound) };

/// The item that takes a queue down.
#[repr(C)]
struct TakeDown {
    item: WorkItem,
    wq: Arc<Wq>,
}

/// Its function.
unsafe extern "C" fn take_down(item: *mut WorkItem) {
    // SAFETY: made by `destroy_later`, queued once, and the run's.
    let this = unsafe { Box::from_raw(item.cast::<TakeDown>()) };
    this.wq.destroy();
    this.wq.runtime.forget_wq(this.wq.key);
}

impl Runtime {
    /// Takes a queue down whose last handle was dropped by one of the workers.
    #[cold]
    pub(crate) fn destroy_later(&'static self, wq: Arc<Wq>) {
        let item = Box::into_raw(Box::new(TakeDown { item: WorkItem::new(take_down), wq }));
        // SAFETY: fresh, valid until its run, which frees it; the item is at its begin.
        let queued = unsafe { self.reaper().queue_item(None, NonNull::new_unchecked(item.cast())) };
        // After a shutdown no queue is destroyed any more: this one stays, empty, until the process
        // ends.
        debug_assert_ne!(queued, Queueing::Not, "a fresh item was pending");
    }

    /// All queues but that one, as of now.
    pub(crate) fn wqs_but_reaper(&self) -> Vec<Arc<Wq>> {
        let registry = lock(&self.registry);
        let reaper = registry.reaper.as_ref();
        let is_other = |wq: &&Arc<Wq>| reaper.is_none_or(|reaper| !Arc::ptr_eq(reaper, wq));
        registry.wqs.iter().flatten().filter(is_other).cloned().collect()
    }

    /// The queue that takes down queues whose last handle was dropped where one cannot wait, and
    /// waits for others in the place of who does not want to. A shutdown closes it last.
    pub(crate) fn reaper(&'static self) -> Arc<Wq> {
        let mut registry = lock(&self.registry);
        if let Some(reaper) = &registry.reaper {
            return Arc::clone(reaper);
        }
        let reaper = self.register(&mut registry, "reaper", REAPER);
        if registry.is_reaper_shut {
            reaper.close(Closed::SHUT);
        }
        registry.reaper = Some(Arc::clone(&reaper));
        reaper
    }
}
