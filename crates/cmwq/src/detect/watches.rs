//! The processes for which a worker stands while it waits for them.
//!
//! Whether one of them runs is read from procfs, which is dear: some 20 µs for each process. So all
//! looks together may take a small part of the time only; who asks too soon is told that nobody
//! knows.

use cmwq_core::detect::watched::{Asker, Looks};

use crate::os::clock;
use crate::os::sense::{Family, Root};
use crate::os::sync::{AtomicU64, Ordering, PlainMutex, lock_plain, plain, try_lock_plain};

/// The processes of one worker. Lock: its own, innermost.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// The run in which the worker watches; 0: none.
    // ORDERING (all accesses): no pairing: a hint. What a detector concludes is applied under the
    // pool's lock, with the run's number.
    run: AtomicU64,
    families: PlainMutex<Vec<Watched>>,
}

#[derive(Debug)]
struct Watched {
    number: u64,
    family: Family,
    looks: Looks,
}

/// When workers that are believed blocked may be looked at again, whoever they are.
/// A plain one: a hint, and no model has statics.
static SLEEPERS_FROM: plain::AtomicU64 = plain::AtomicU64::new(0);

impl Watches {
    /// The worker, in run `seq`, watches one more. Returns its number.
    pub(crate) fn begin(&self, seq: u64, root: Root) -> u64 {
        let mut families = lock_plain(&self.families);
        if self.run.swap(seq, Ordering::Relaxed) != seq {
            // Of a run that has ended without ending its watches.
            families.clear();
        }
        let number = families.last().map_or(1, |last| last.number + 1);
        families.push(Watched { number, family: Family::new(root), looks: Looks::default() });
        number
    }

    /// One less. `true`: it was the last.
    pub(crate) fn end(&self, number: u64) -> bool {
        let mut families = lock_plain(&self.families);
        families.retain(|watched| watched.number != number);
        if families.is_empty() {
            self.run.store(0, Ordering::Relaxed);
        }
        families.is_empty()
    }

    #[inline]
    pub(crate) fn is_in(&self, seq: u64) -> bool {
        self.run.load(Ordering::Relaxed) == seq
    }

    /// Whether any of them runs; `None`: nobody knows. `asker`: what the worker is believed to do.
    pub(crate) fn is_any_running(&self, asker: Asker) -> Option<bool> {
        // Who holds it looks at them just now, which he may know and we do not, or changes which
        // there are.
        let mut families = try_lock_plain(&self.families)?;
        let mut is_known = true;
        for watched in families.iter_mut() {
            match watched.is_running(asker) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => is_known = false,
            }
        }
        is_known.then_some(false)
    }
}

impl Watched {
    fn is_running(&mut self, asker: Asker) -> Option<bool> {
        if self.family.has_not_run() {
            return Some(false);
        }
        let now = clock::now();
        // ORDERING: no pairing: a budget.
        let from = if asker == Asker::Sleeper { SLEEPERS_FROM.load(Ordering::Relaxed) } else { 0 };
        let may_look = now >= from && self.looks.may_look(now, asker);
        // Whether a runner is blocked, all of them have to tell; a sleeper is back if one runs.
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
