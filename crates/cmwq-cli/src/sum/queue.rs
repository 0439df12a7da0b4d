//! The managed workqueue under `cmwq sum`: the only file of the verb that knows the library.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cmwq::Workqueue;

use crate::descriptors::raise_limit;

// LIMIT: the library's own default for queues that are not bound to a CPU.
const MAX_ACTIVE: u32 = 512;

/// File descriptors for the process itself.
const FDS_RESERVED: u64 = 32;

/// File descriptors of one worker: a directory, a file in it, and what the library may watch the
/// worker with.
const FDS_PER_WORKER: u64 = 4;

/// What went through the queue.
#[derive(Debug)]
pub(crate) struct Load {
    /// Items queued.
    pub(crate) items: u64,
    /// Items that never ended: zero unless one panicked.
    pub(crate) lost: u64,
    /// The most workers that were inside an item at the same time.
    pub(crate) workers: u64,
}

/// A self-sizing queue that counts its items. Clones are the same queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    workqueue: Workqueue,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    queued: AtomicU64,
    ended: AtomicU64,
    running: AtomicU64,
    most_running: AtomicU64,
}

impl Queue {
    /// Creates the queue.
    pub(crate) fn new() -> Result<Queue, cmwq::Error> {
        let workers = max_workers(raise_limit(u64::MAX));
        let workqueue = Workqueue::builder("sum").managed().max_active(workers).build()?;
        Ok(Queue { workqueue, counts: Arc::default() })
    }

    /// Queues `item`, which gets `context`.
    ///
    /// The context is let go only after the item was counted: who sees the last context go sees the
    /// whole [`Load`].
    pub(crate) fn push<C: Send + Sync + 'static>(
        &self,
        context: Arc<C>,
        item: impl FnOnce(&Arc<C>) + Send + 'static,
    ) {
        // ORDERING: no pairing: these are statistics; the end of the last context orders the final
        // reading.
        self.counts.queued.fetch_add(1, Relaxed);
        let counts = Arc::clone(&self.counts);
        // Nobody joins an item: each reports through its context.
        drop(self.workqueue.queue(move || {
            let running = counts.running.fetch_add(1, Relaxed) + 1;
            counts.most_running.fetch_max(running, Relaxed);
            item(&context);
            counts.running.fetch_sub(1, Relaxed);
            counts.ended.fetch_add(1, Relaxed);
            drop(context);
        }));
    }

    /// What went through so far.
    pub(crate) fn load(&self) -> Load {
        let items = self.counts.queued.load(Relaxed);
        let lost = items - self.counts.ended.load(Relaxed);
        Load { items, lost, workers: self.counts.most_running.load(Relaxed) }
    }
}

/// How many workers a limit of `fds` open files has room for, so that blocked ones do not starve
/// each other of them.
fn max_workers(fds: u64) -> u32 {
    let room = fds.saturating_sub(FDS_RESERVED) / FDS_PER_WORKER;
    u32::try_from(room).unwrap_or(MAX_ACTIVE).clamp(1, MAX_ACTIVE)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn every_item_is_counted_before_its_context_goes() {
        let queue = Queue::new().unwrap();
        let (alive, ended) = channel::<()>();
        let alive = Arc::new(alive);
        for _ in 0..1000 {
            queue.push(Arc::clone(&alive), |_| ());
        }
        drop(alive);
        assert!(ended.recv().is_err());
        let load = queue.load();
        assert_eq!((load.items, load.lost), (1000, 0));
        assert!(load.workers >= 1);
    }

    #[test]
    fn workers_fit_the_limit_on_open_files() {
        for (fds, expected) in [(0, 1), (36, 1), (64, 8), (1024, 248), (4096, 512), (u64::MAX, 512)]
        {
            assert_eq!(max_workers(fds), expected, "{fds}");
        }
    }

    #[test]
    fn an_item_that_panics_is_lost_and_told() {
        let queue = Queue::new().unwrap();
        let (alive, ended) = channel::<()>();
        let alive = Arc::new(alive);
        queue.push(Arc::clone(&alive), |_| ());
        queue.push(alive, |_| panic!("on purpose"));
        assert!(ended.recv().is_err());
        let load = queue.load();
        assert_eq!((load.items, load.lost), (2, 1));
    }
}
