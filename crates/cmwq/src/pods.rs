//! Managed pods help each other: one with a CPU to spare lends a worker to one with a backlog.
//!
//! Each pod of a managed queue has its own pool, so that its workers stay on their CPUs and its
//! lock stays with them. What makes the pods together one work-conserving system is this board: how
//! many pods have a CPU to spare, and where they are. A pool with a backlog calls one of them; a
//! worker that runs out of work looks for a backlog elsewhere before it sleeps, and then runs items
//! there as a *guest*.
//!
//! Lost calls: the caller reads the board under its pool's lock after it queued; the idler writes
//! the board and then takes the locks of the pools that are watched. One sees the other, but for a
//! pool whose watching has just begun, which the tick looks after.

use crate::pool::Pool;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};

/// The managed pods of one priority.
#[derive(Debug)]
pub(crate) struct Pods {
    /// Pods with a CPU to spare. Those that were never used count: they are idle. Not those that have been called, now or for when
    /// their CPU is idle.
    spare: AtomicU32,
    /// Pods with more work than they may run.
    backlogs: AtomicU32,
    pools: Box<[AtomicPtr<Pool>]>,
}

impl Pods {
    /// `nr_spare` of them have a CPU now.
    pub(crate) fn new(count: usize, nr_spare: usize) -> Self {
        Self {
            spare: AtomicU32::new(u32::try_from(nr_spare).unwrap_or(u32::MAX)),
            backlogs: AtomicU32::new(0),
            pools: (0..count).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.pools.len()
    }

    /// The pool of a pod, if it was used yet.
    pub(crate) fn get(&self, place: usize) -> Option<&'static Pool> {
        // ORDERING: Acquire pairs with the Release in `add`.
        let pool = self.pools[place].load(Ordering::Acquire);
        // SAFETY: null or a pool, and pools live for ever.
        unsafe { pool.as_ref() }
    }

    pub(crate) fn add(&self, place: usize, pool: &'static Pool) {
        // ORDERING: Release pairs with the Acquire in `get`.
        self.pools[place].store(std::ptr::from_ref(pool).cast_mut(), Ordering::Release);
    }

    /// Whether any pod has a CPU to spare.
    #[inline]
    pub(crate) fn any_spare(&self) -> bool {
        // ORDERING: no pairing: ordered by the pools' locks, see the module header.
        self.spare.load(Ordering::Relaxed) != 0
    }

    /// Whether any pod has more work than it may run, so that a CPU that some worker leaves matters.
    #[inline]
    pub(crate) fn any_backlog(&self) -> bool {
        // ORDERING: no pairing: a pod that misses it is told by the tick.
        self.backlogs.load(Ordering::Relaxed) != 0
    }

    /// A pod has a backlog now, or no longer.
    pub(crate) fn count_backlog(&self, backlog: bool) {
        // ORDERING: no pairing: as above.
        if backlog {
            self.backlogs.fetch_add(1, Ordering::Relaxed);
        } else {
            self.backlogs.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A pod has a CPU to spare now, or no longer.
    pub(crate) fn count(&self, spare: bool) {
        // ORDERING: no pairing: as above.
        if spare {
            self.spare.fetch_add(1, Ordering::Relaxed);
        } else {
            self.spare.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
