//! Telling those who look how many items wait outside of the process.

use crate::api::workqueue::Workqueue;
use crate::os::generation;
use crate::os::sync::{AtomicU32, AtomicU64, Ordering};

/// One place outside of the process, such as a broker's queue or a table of a database, from which
/// a program takes what it queues. What it says waits there is shown beside its workqueue by
/// `cmwq top`, and to readers (crate `cmwq-observe`), as the sum over all such places. Nothing is
/// decided by it.
///
/// Dropping it takes its number away. It is a handle of the queue, as a clone is. In a forked child
/// it shows nothing until it is set there.
///
/// ```
/// let wq = cmwq::Workqueue::new("mail")?;
/// let waiting = wq.outside_backlog();
/// waiting.set(1_200); // as the broker told us
/// # Ok::<(), cmwq::Error>(())
/// ```
#[derive(Debug)]
pub struct OutsideBacklog {
    wq: Workqueue,
    shown: AtomicU64,
    /// The process in which that was said: a child's queue shows nothing of it.
    generation: AtomicU32,
}

impl Workqueue {
    /// A place outside of the process where items wait for this queue: none, until
    /// [`set`](OutsideBacklog::set) says so. A process that shows its state to others shows it;
    /// of queues beyond the first 16,384 it is not shown.
    #[must_use]
    pub fn outside_backlog(&self) -> OutsideBacklog {
        let generation = AtomicU32::new(generation::current());
        OutsideBacklog { wq: self.clone(), shown: AtomicU64::new(0), generation }
    }
}

impl OutsideBacklog {
    /// So many items wait there now. Some nanoseconds, never blocks.
    pub fn set(&self, items: u64) {
        // ORDERING (all): no pairing: what is added up is right in any order.
        let here = generation::current();
        let is_inherited = self.generation.swap(here, Ordering::Relaxed) != here;
        let before = self.shown.swap(items, Ordering::Relaxed);
        let before = if is_inherited { 0 } else { before };
        self.wq.handle().add_outside(items.wrapping_sub(before));
    }
}

impl Drop for OutsideBacklog {
    fn drop(&mut self) {
        self.set(0);
    }
}
