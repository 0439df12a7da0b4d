//! What the calling thread is: a worker running an item, or not.

use std::cell::Cell;
use std::ptr;

use cmwq_core::{Claim, WorkItem, WorkerId, WqKey};

use crate::pool::Pool;
use crate::sync::Arc;
use crate::thread::Thread;

/// The calling worker's view of itself. Lives on the worker's stack.
pub(crate) struct Context {
    pool: &'static Pool,
    id: WorkerId,
    thread: Arc<Thread>,
    run: Cell<Option<Run>>,
}

#[derive(Clone, Copy)]
struct Run {
    seq: u64,
    wq: WqKey,
    item: *const WorkItem,
    /// Depth of nested blocking sections.
    blocking: u32,
}

crate::sync::thread_local! {
    static CURRENT: Cell<*const Context> = const { Cell::new(ptr::null()) };
}

/// Makes `context` the calling thread's, until [`leave`].
pub(crate) fn enter(context: &Context) {
    CURRENT.with(|current| current.set(context));
}

pub(crate) fn leave() {
    CURRENT.with(|current| current.set(ptr::null()));
}

fn with<R>(f: impl FnOnce(&Context) -> R) -> Option<R> {
    let context = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: set by `enter` to a context on this thread's stack that outlives the matching
    // `leave`.
    unsafe { context.as_ref() }.map(f)
}

impl Context {
    pub(crate) fn new(pool: &'static Pool, id: WorkerId, thread: Arc<Thread>) -> Self {
        Self { pool, id, thread, run: Cell::new(None) }
    }

    #[inline]
    pub(crate) fn begin(&self, claim: &Claim, seq: u64) {
        self.run.set(Some(Run { seq, wq: claim.wq, item: claim.item, blocking: 0 }));
    }

    #[inline]
    pub(crate) fn end(&self) {
        self.run.set(None);
    }

    /// Enters a blocking section: this worker does not run any more, whatever detectors see.
    fn block(&self) {
        let Some(mut run) = self.run.get() else { return };
        run.blocking += 1;
        self.run.set(Some(run));
        if run.blocking > 1 {
            return;
        }
        let mut guard = self.pool.lock();
        let kick = guard.core.worker_blocked(self.id, run.seq);
        let kick = guard.replace_blocked(self.pool, kick);
        self.pool.unlock(guard, kick);
    }

    fn unblock(&self) {
        let Some(mut run) = self.run.get() else { return };
        run.blocking -= 1;
        self.run.set(Some(run));
        if run.blocking == 0 {
            self.pool.lock_only().core.worker_resumed(self.id, run.seq);
        }
    }
}

/// The queue whose item the calling thread runs.
pub(crate) fn current_wq() -> Option<WqKey> {
    with(|context| context.run.get().map(|run| run.wq)).flatten()
}

/// The item that the calling thread runs. Only its address means anything: the function may have
/// freed it.
pub(crate) fn current_item() -> Option<*const WorkItem> {
    with(|context| context.run.get().map(|run| run.item)).flatten()
}

/// Tells the pool that the calling worker is about to block, runs `f`, and tells it that the worker
/// is back.
///
/// Workers that block are noticed anyway, within microseconds where the system allows; this makes
/// it immediate and independent of what the system allows. Use it around waits that are known to be
/// long, or where [`Detect::Inline`](crate::Detect::Inline) is all there is. Outside of a work
/// function it only calls `f`. Sections nest.
///
/// ```
/// let wq = cmwq::Workqueue::new("io")?;
/// let len = wq.queue(|| cmwq::blocking(|| std::fs::read("/proc/self/cmdline").map(|b| b.len())));
/// assert!(len.join().unwrap().is_ok());
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    struct Section;
    impl Drop for Section {
        fn drop(&mut self) {
            with(Context::unblock);
        }
    }
    with(Context::block);
    let _section = Section;
    f()
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("pool", &self.pool.id)
            .field("id", &self.id)
            .field("thread", &self.thread)
            .finish_non_exhaustive()
    }
}
