//! The reaper: a queue that does in the place of threads that cannot wait what may take long. It
//! destroys queues that they destroyed, or whose last handle they dropped, and lets go of items
//! that a queue refused when their time had come: what these captured is the user's, and what its
//! drop waits for may be anything.

use std::cell::Cell;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use cmwq_core::{Closed, WorkItem};

use crate::engine::runtime::Runtime;
use crate::engine::threads::current;
use crate::engine::wq::{Kind, Queueing, Spec, Wq};
use crate::os::park::Event;
use crate::os::sync::{Arc, lock};

/// The queue that takes other queues down.
const REAPER: Spec =
    Spec { max_active: cmwq_core::consts::WQ_MAX_ACTIVE, ..Spec::of(Kind::Unbound) };

/// Workers have so long to begin and end what takes no time.
const LEAST: Duration = Duration::from_millis(200);

/// The item that takes a queue down.
#[repr(C)]
struct TakeDown<F> {
    item: WorkItem,
    end: F,
}

/// Its function.
unsafe extern "C" fn take_down<F: FnOnce()>(item: *mut WorkItem) {
    // SAFETY: made by `end_later`, queued once, and the run's.
    let this = unsafe { Box::from_raw(item.cast::<TakeDown<F>>()) };
    (this.end)();
}

/// The item that lets go of a refused one.
#[repr(C)]
struct LetGo<T> {
    item: WorkItem,
    refused: NonNull<T>,
    let_go: unsafe fn(NonNull<T>, Closed),
    /// Why it was refused.
    why: Closed,
    /// Of which this is one.
    errands: Option<Arc<Ended>>,
}

/// Its function.
unsafe extern "C" fn let_go<T>(item: *mut WorkItem) {
    // SAFETY: made by `let_go_later`, and the run's, or that call's if there is no run.
    let this = unsafe { Box::from_raw(item.cast::<LetGo<T>>()) };
    // SAFETY: the promise of who called `let_go_later`.
    let run = || unsafe { (this.let_go)(this.refused, this.why) };
    // Somebody waits for this, but not for a queue.
    if this.errands.is_some() { leaving_ends(run) } else { run() }
}

/// Items of which somebody [lets go later](Runtime::let_go_later), and waits until that is done.
pub(crate) struct Errands {
    all: Arc<Ended>,
    ended: Arc<Event>,
}

/// Tells when the last errand has it no more.
struct Ended(Arc<Event>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl Errands {
    pub(crate) fn new() -> Self {
        let ended = Arc::new(Event::new());
        Self { all: Arc::new(Ended(Arc::clone(&ended))), ended }
    }

    /// Waits until all that were begun are done; for no longer than until the deadline, or, if that
    /// is sooner, [`LEAST`]. What is left makes the reaper busy.
    pub(crate) fn wait(self, deadline: Option<Instant>) {
        drop(self.all);
        let deadline = deadline.map(|deadline| deadline.max(Instant::now() + LEAST));
        current::blocking(|| {
            loop {
                let left =
                    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                if self.ended.wait(left) || left.is_some_and(|left| left.is_zero()) {
                    return;
                }
            }
        });
    }
}

crate::os::sync::thread_local! {
    static LEAVES_ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread leaves it to the reaper to destroy queues whose last handle it drops.
pub(crate) fn leaves_ends() -> bool {
    LEAVES_ENDS.try_with(Cell::get).unwrap_or(false)
}

/// Does what may drop last handles of queues, which the calling thread has no time to destroy. It
/// must not unwind.
pub(crate) fn leaving_ends(what: impl FnOnce()) {
    let before = LEAVES_ENDS.with(|leaves| leaves.replace(true));
    what();
    LEAVES_ENDS.with(|leaves| leaves.set(before));
}

impl Runtime {
    /// Lets go of an item that a queue refused. Each by an item of its own: what it captured may
    /// wait for another one that was refused. After a shutdown the calling thread does it. `why`:
    /// what the queue [said](Queueing::Refused) then.
    ///
    /// # Safety
    /// `let_go` must be fit to be called with `refused`, once, by any thread, and not unwind.
    #[cold]
    pub(crate) unsafe fn let_go_later<T>(
        &'static self,
        refused: NonNull<T>,
        let_go: unsafe fn(NonNull<T>, Closed),
        why: Closed,
        errands: Option<&Errands>,
    ) {
        let item = WorkItem::new(self::let_go::<T>);
        let errands = errands.map(|errands| Arc::clone(&errands.all));
        let errand = LetGo { item, refused, let_go, why, errands };
        let item = Box::into_raw(Box::new(errand)).cast::<WorkItem>();
        // SAFETY: fresh, valid until its run, which frees it; the item is at its begin.
        let queued = unsafe { self.reaper().queue_item(None, NonNull::new_unchecked(item)) };
        if matches!(queued, Queueing::Refused(_)) {
            // SAFETY: there will be no run.
            leaving_ends(|| unsafe { self::let_go::<T>(item) });
        }
    }

    /// Takes a queue down whose last handle was dropped by one of the workers.
    pub(crate) fn destroy_later(&'static self, wq: Arc<Wq>) {
        self.end_later(move || {
            wq.destroy();
            self.forget_wq(wq.key);
        });
    }

    /// Calls `end`, which takes a queue down and does not unwind.
    #[cold]
    pub(crate) fn end_later<F: FnOnce() + Send + 'static>(&'static self, end: F) {
        let item = Box::into_raw(Box::new(TakeDown { item: WorkItem::new(take_down::<F>), end }));
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

    /// The queue of this module, which also waits for others in the place of who does not want to.
    /// A shutdown closes it last.
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
