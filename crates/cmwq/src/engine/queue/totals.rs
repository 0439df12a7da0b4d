//! The statistics of queues, added up by name, so that no sum falls when a queue is destroyed.

use std::collections::{HashMap, HashSet};

use cmwq_core::{PwqStats, PwqWaiting};

use crate::engine::wq::Wq;
use crate::os::sync::Arc;

/// See the module header.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) by_name: HashMap<Box<str>, Total>,
    /// By address; each entry keeps its queue's memory until its last numbers were taken.
    seen: HashMap<usize, (Arc<Wq>, PwqStats)>,
}

/// The statistics of all queues of a name.
#[derive(Default)]
pub(crate) struct Total {
    pub(crate) sum: PwqStats,
    pub(crate) max_active: u32,
    pub(crate) waiting: PwqWaiting,
}

impl std::fmt::Debug for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Totals").field("queues", &self.seen.len()).finish_non_exhaustive()
    }
}

impl Totals {
    /// Adds what the queues have counted since the last call. `queues`: all queues there are.
    pub(crate) fn take_in(&mut self, queues: Vec<Arc<Wq>>) {
        for total in self.by_name.values_mut() {
            (total.max_active, total.waiting) = (0, PwqWaiting::default());
        }
        for wq in &queues {
            let seen = self.seen.entry(Arc::as_ptr(wq) as usize);
            seen.or_insert_with(|| (Arc::clone(wq), PwqStats::default()));
        }
        let by_name = &mut self.by_name;
        let is_there: HashSet<_> = queues.iter().map(|wq| Arc::as_ptr(wq) as usize).collect();
        self.seen.retain(|address, (wq, last)| {
            let is_there = is_there.contains(address);
            // For a queue that is gone, these are its final numbers.
            let is_final = !is_there && wq.is_gone();
            let now = wq.stats();
            let total = by_name.entry(wq.name.clone()).or_default();
            total.add(&now, last);
            if is_there {
                total.max_active = total.max_active.max(wq.max_active());
                total.waiting += wq.waiting();
            }
            !is_final
        });
    }
}

impl Total {
    /// Adds what was counted since `last`, which becomes `now`.
    fn add(&mut self, now: &PwqStats, last: &mut PwqStats) {
        // CPU time may be corrected downwards, by little.
        let mut now = *now;
        now.cpu_time = now.cpu_time.max(last.cpu_time);
        let mut since = now;
        since.started -= last.started;
        since.completed -= last.completed;
        since.cpu_time -= last.cpu_time;
        since.cpu_intensive -= last.cpu_intensive;
        since.cm_wakeup -= last.cm_wakeup;
        since.repatriated -= last.repatriated;
        since.mayday -= last.mayday;
        since.rescued -= last.rescued;
        since.cancelled -= last.cancelled;
        self.sum += since;
        *last = now;
    }
}
