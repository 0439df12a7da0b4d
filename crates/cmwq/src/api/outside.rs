//! Telling those who look how many items wait outside of the process.

use crate::api::workqueue::Workqueue;
use crate::engine::queue::handle;
use crate::os::generation;
use crate::os::published::Lasting;
use crate::os::sync::{AtomicU64, Ordering};

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
    shown: Shown,
    /// The same in a forked child, whose queue shows nothing of what was said before. Some bytes
    /// that stay.
    shown_in_child: Lasting<Shown>,
}

/// What one process shows.
#[derive(Debug)]
struct Shown {
    generation: u32,
    items: AtomicU64,
}

impl Shown {
    fn nothing() -> Self {
        Self { generation: generation::current(), items: AtomicU64::new(0) }
    }

    fn is_own(&self) -> bool {
        self.generation == generation::current()
    }
}

impl Workqueue {
    /// A place outside of the process where items wait for this queue: none, until
    /// [`set`](OutsideBacklog::set) says so. A process that shows its state to others shows it;
    /// of queues beyond the first 16,384 it is not shown.
    #[must_use]
    pub fn outside_backlog(&self) -> OutsideBacklog {
        let shown_in_child = Lasting::nothing();
        OutsideBacklog { wq: self.clone(), shown: Shown::nothing(), shown_in_child }
    }
}

impl OutsideBacklog {
    /// So many items wait there now. Some nanoseconds, never blocks.
    pub fn set(&self, items: u64) {
        let shown = self.shown().unwrap_or_else(|| self.begin_in_child());
        // ORDERING: no pairing: what is added up is right in any order.
        let before = shown.items.swap(items, Ordering::Relaxed);
        self.wq.handle().add_outside(items.wrapping_sub(before));
    }

    /// What this process shows, if it was set here.
    fn shown(&self) -> Option<&Shown> {
        let own = Some(&self.shown).filter(|shown| shown.is_own());
        own.or_else(|| self.shown_in_child.get().filter(|shown| shown.is_own()))
    }

    #[cold]
    fn begin_in_child(&self) -> &Shown {
        let _forks = handle::lock_successors();
        self.shown().unwrap_or_else(|| {
            let shown = Box::leak(Box::new(Shown::nothing()));
            self.shown_in_child.set(shown);
            shown
        })
    }
}

impl Drop for OutsideBacklog {
    fn drop(&mut self) {
        // What the parent has said is shown by its own queue.
        if self.shown().is_some() {
            self.set(0);
        }
    }
}
