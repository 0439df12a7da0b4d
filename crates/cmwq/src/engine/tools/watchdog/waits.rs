//! Items that wait for queues and for other items. The watchdog looks for circles among them.
//!
//! Only waits of items are recorded: other threads' waits hold up no worker.

use cmwq_core::{PoolId, WorkerId, WqKey};

use crate::engine::tools::thread::Thread;
use crate::os::sync::{Arc, PlainMutex, lock_plain};

/// What an item waits for; items are known by their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// A flush of a queue, as this flusher.
    Flush(WqKey, u64),
    /// An item.
    Item(usize),
}

/// An item that waits.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    /// Numbers the waits.
    pub(crate) id: u64,
    /// The queue, the address and the function of the item that waits.
    pub(crate) wq: WqKey,
    pub(crate) item: usize,
    pub(crate) func: usize,
    pub(crate) what: WaitFor,
    at: (PoolId, WorkerId),
    /// The worker's thread.
    pub(crate) thread: Arc<Thread>,
}

impl Wait {
    /// In which pool it runs, and by which of its workers. A helper is a guest there.
    pub(crate) fn at(&self) -> (PoolId, WorkerId) {
        self.thread.guest().unwrap_or(self.at)
    }
}

/// All waits, as they began.
#[derive(Debug, Default)]
pub(crate) struct Waits(PlainMutex<List>);

#[derive(Debug, Default)]
struct List {
    next: u64,
    list: Vec<Wait>,
}

/// A wait, until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    waits: &'a Waits,
    id: u64,
}

impl Waits {
    /// The item of `wq` at `item`, with that function, begins to wait, on the worker `at` with that
    /// thread.
    pub(crate) fn begin(
        &self,
        (wq, item, func): (WqKey, usize, usize),
        what: WaitFor,
        (at, thread): ((PoolId, WorkerId), Arc<Thread>),
    ) -> Waiting<'_> {
        let mut waits = lock_plain(&self.0);
        let id = waits.next;
        waits.next += 1;
        waits.list.push(Wait { id, wq, item, func, what, at, thread });
        Waiting { waits: self, id }
    }

    /// All waits of this moment.
    pub(crate) fn all(&self) -> Vec<Wait> {
        lock_plain(&self.0).list.clone()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock_plain(&self.waits.0).list.retain(|wait| wait.id != self.id);
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use super::*;
    use crate::record::WorkerMirror;

    fn worker() -> ((PoolId, WorkerId), Arc<Thread>) {
        let thread = Arc::new(Thread::new(String::new(), WorkerMirror::default()));
        ((PoolId(0), WorkerId(0)), thread)
    }

    const fn queue(wq: u32) -> WaitFor {
        WaitFor::Flush(WqKey(wq), 1)
    }

    #[test]
    fn a_wait_lasts_until_it_is_dropped() {
        let waits = Waits::default();
        let first = waits.begin((WqKey(1), 10, 0), queue(2), worker());
        let second = waits.begin((WqKey(2), 20, 0), queue(1), worker());
        assert_eq!(waits.all().iter().map(|wait| wait.id).collect::<Vec<_>>(), [0, 1]);
        drop(first);
        assert_eq!(waits.all().iter().map(|wait| wait.id).collect::<Vec<_>>(), [1]);
        drop(second);
        assert!(waits.all().is_empty());
    }
}
