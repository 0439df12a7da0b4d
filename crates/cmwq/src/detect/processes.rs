//! The processes that a worker stands for while it waits for them.
//!
//! Whether one of them runs is read from procfs, which is dear: some 20 µs for each process. So all
//! looks together may take a small part of the time only; a question that comes too soon gets the
//! answer "unknown".
//!
//! Why: docs/decisions/descendants-by-proc.md

use cmwq_core::Nanos;
use cmwq_core::detect::processes::{Asker, Looks, Sleepers};

use crate::os::clock;
use crate::os::sense::{Family, Root};
use crate::os::sync::{AtomicU64, Ordering, PlainMutex, lock_plain, plain, try_lock_plain};

/// The processes of one worker. Lock: its own, innermost.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// The run in which the worker stands for processes; 0: none.
    // ORDERING (all accesses): no pairing: a hint. What a detector concludes is applied under the
    // pool's lock, with the run's number.
    run: AtomicU64,
    families: PlainMutex<Vec<Process>>,
}

#[derive(Debug)]
struct Process {
    number: u64,
    family: Family,
    looks: Looks,
}

/// A plain one: a hint, and no model has statics.
static SLEEPERS_FROM: plain::AtomicU64 = plain::AtomicU64::new(0);

/// The process's.
struct AllSleepers;

// ORDERING: no pairing: a budget.
impl Sleepers for AllSleepers {
    fn from(&self) -> Nanos {
        SLEEPERS_FROM.load(Ordering::Relaxed)
    }

    fn set_from(&self, from: Nanos) {
        SLEEPERS_FROM.store(from, Ordering::Relaxed);
    }
}

impl Processes {
    /// The worker, in run `seq`, stands for one more process. Returns the process's number here.
    pub(crate) fn begin(&self, seq: u64, root: Root) -> u64 {
        let mut families = lock_plain(&self.families);
        if self.run.swap(seq, Ordering::Relaxed) != seq {
            // These are of an earlier run.
            families.clear();
        }
        let number = families.last().map_or(1, |last| last.number + 1);
        families.push(Process { number, family: Family::new(root), looks: Looks::default() });
        number
    }

    /// Ends to stand for one process. `true`: it was the last.
    pub(crate) fn end(&self, number: u64) -> bool {
        let mut families = lock_plain(&self.families);
        families.retain(|process| process.number != number);
        if families.is_empty() {
            self.run.store(0, Ordering::Relaxed);
        }
        families.is_empty()
    }

    #[inline]
    pub(crate) fn is_in(&self, seq: u64) -> bool {
        self.run.load(Ordering::Relaxed) == seq
    }

    /// Whether any of the processes runs; `None`: unknown. `asker`: which worker asks, and why.
    pub(crate) fn is_any_running(&self, asker: Asker) -> Option<bool> {
        // The holder of the lock is looking at them just now, or changes which there are. What it
        // finds is unknown here, and the next tick asks again.
        let mut families = try_lock_plain(&self.families)?;
        let mut is_known = true;
        for process in families.iter_mut() {
            let Process { family, looks, .. } = process;
            match looks.is_running(family, asker, &AllSleepers, clock::now) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => is_known = false,
            }
        }
        is_known.then_some(false)
    }
}
