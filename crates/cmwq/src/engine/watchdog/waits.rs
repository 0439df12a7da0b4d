//! Items that wait for queues and for other items. The watchdog looks for circles among them.
//!
//! Only waits of items are recorded: other threads' waits hold up no worker.

use cmwq_core::WqKey;
use cmwq_core::watchdog::ItemWait;

use crate::engine::thread::Thread;
use crate::os::sync::{Arc, PlainMutex, lock_plain};

/// What an item waits for; items are known by their addresses.
pub(crate) type WaitFor = cmwq_core::watchdog::WaitFor<usize>;

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
    /// The worker's thread.
    pub(crate) thread: Arc<Thread>,
}

impl Wait {
    /// What the core has to know of it.
    pub(crate) fn in_core(&self) -> ItemWait<usize> {
        let &Self { wq, item, what, .. } = self;
        ItemWait { wq, item, what }
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
    /// The item of `wq` at `item`, with that function, on the worker `thread`, begins to wait.
    pub(crate) fn begin(
        &self,
        (wq, item, func): (WqKey, usize, usize),
        what: WaitFor,
        thread: Arc<Thread>,
    ) -> Waiting<'_> {
        let mut waits = lock_plain(&self.0);
        let id = waits.next;
        waits.next += 1;
        waits.list.push(Wait { id, wq, item, func, what, thread });
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

    fn thread() -> Arc<Thread> {
        Arc::new(Thread::new(String::new(), WorkerMirror::default()))
    }

    const fn queue(wq: u32) -> WaitFor {
        WaitFor::Queue(WqKey(wq))
    }

    #[test]
    fn a_wait_lasts_until_it_is_dropped() {
        let waits = Waits::default();
        let first = waits.begin((WqKey(1), 10, 0), queue(2), thread());
        let second = waits.begin((WqKey(2), 20, 0), queue(1), thread());
        assert_eq!(waits.all().iter().map(|wait| wait.id).collect::<Vec<_>>(), [0, 1]);
        drop(first);
        assert_eq!(waits.all().iter().map(|wait| wait.id).collect::<Vec<_>>(), [1]);
        drop(second);
        assert!(waits.all().is_empty());
    }
}
