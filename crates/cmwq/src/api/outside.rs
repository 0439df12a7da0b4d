//! Telling those who look how many items wait outside of the process.

use crate::api::workqueue::Workqueue;
use crate::os::sync::{AtomicU64, Ordering};

/// One place outside of the process, such as a broker's queue or a table of a database, from which
/// a program takes what it queues. What it says waits there is shown beside its workqueue by
/// `cmwq top`, and to readers (crate `cmwq-observe`), as the sum over all such places. Nothing is
/// decided by it.
///
/// Dropping it takes its number away. It is a handle of the queue, as a clone is.
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
}

impl Workqueue {
    /// A place outside of the process where items wait for this queue: none, until
    /// [`set`](OutsideBacklog::set) says so. A process that shows its state to others shows it;
    /// of queues beyond the first 16,384 it is not shown.
    #[must_use]
    pub fn outside_backlog(&self) -> OutsideBacklog {
        OutsideBacklog { wq: self.clone(), shown: AtomicU64::new(0) }
    }
}

impl OutsideBacklog {
    /// So many items wait there now. Some nanoseconds, never blocks.
    pub fn set(&self, items: u64) {
        // ORDERING (both): no pairing: what is added up is right in any order.
        let before = self.shown.swap(items, Ordering::Relaxed);
        self.wq.handle().add_outside(items.wrapping_sub(before));
    }
}

impl Drop for OutsideBacklog {
    fn drop(&mut self) {
        self.set(0);
    }
}
