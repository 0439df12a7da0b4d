//! The processes that a worker stands for while it waits for them.
//!
//! Whether one of them runs is read from procfs, which is dear: some 20 µs for each process. So all
//! looks together may take a small part of the time only; a question that comes too soon gets the
//! answer "unknown".
//!
//! Why: docs/decisions/descendants-by-proc.md

use cmwq_core::detect::processes::{Asker, Looks};

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

/// When a look for any worker that is believed blocked may be made again. Plain: a hint, and no
/// model has statics.
static SLEEPERS_FROM: plain::AtomicU64 = plain::AtomicU64::new(0);

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
        // The holder of the lock is looking at them just now, and reports what it finds.
        let mut families = try_lock_plain(&self.families)?;
        let mut is_known = true;
        for process in families.iter_mut() {
            match process.is_running(asker) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => is_known = false,
            }
        }
        is_known.then_some(false)
    }
}

impl Process {
    fn is_running(&mut self, asker: Asker) -> Option<bool> {
        if self.family.has_not_run() {
            return Some(false);
        }
        let now = clock::now();
        // ORDERING: no pairing: a budget.
        let from = if asker == Asker::Sleeper { SLEEPERS_FROM.load(Ordering::Relaxed) } else { 0 };
        let may_look = now >= from && self.looks.may_look(now, asker);
        // A worker that is believed running is blocked only if none of its processes runs, which
        // takes all looks; one that is believed blocked is back if any of them runs.
        if !may_look && asker != Asker::Sleeper {
            return None;
        }
        if self.family.is_likely_running() {
            return Some(true);
        }
        if !may_look {
            return None;
        }
        let runs = self.family.look();
        let next = self.looks.looked(now, clock::now(), asker);
        if asker == Asker::Sleeper {
            SLEEPERS_FROM.store(next, Ordering::Relaxed);
        }
        runs
    }
}
