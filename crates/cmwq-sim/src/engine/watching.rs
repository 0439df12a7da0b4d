//! The stall watchdog: looks at the pools at intervals, as long as work waits.

use cmwq_core::{PanicPolicy, Watchdog};

use super::{Due, Engine};
use crate::Nanos;
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};

/// The watchdog of a run.
#[derive(Debug)]
pub(super) struct Watcher {
    dog: Watchdog<PoolNo>,
    is_armed: bool,
}

impl Watcher {
    pub(super) const fn new(thresh: Nanos) -> Self {
        Self { dog: Watchdog::new(thresh), is_armed: false }
    }
}

impl Engine<'_> {
    /// Arms the watchdog if items of the pool wait.
    pub(super) fn arm_watchdog(&mut self, pool: PoolNo) {
        let waits = self.pools.list[pool].read().is_to_be_watched();
        let Some(watcher) = self.watcher.as_mut().filter(|watcher| waits && !watcher.is_armed)
        else {
            return;
        };
        watcher.is_armed = true;
        let interval = Watchdog::<PoolNo>::interval(watcher.dog.thresh());
        self.agenda.add(self.now + interval, Rank::Wake, Due::Watchdog);
    }

    pub(super) fn look_for_stalls(&mut self) {
        let is_quiet = self.is_quiet();
        let Some(watcher) = &mut self.watcher else { return };
        watcher.dog.begin(self.now);
        let mut found = Vec::new();
        let mut waits = false;
        for (number, pool) in self.pools.list.iter_mut().enumerate() {
            let core = pool.lock();
            waits |= core.is_to_be_watched();
            if core.work_waits()
                && let Some(time) = watcher.dog.see(number, core.progress(), false)
            {
                found.push(What::Stalled(number, time));
            }
        }
        let _ = watcher.dog.end(PanicPolicy::default());
        watcher.is_armed = waits && !is_quiet;
        if watcher.is_armed {
            let interval = Watchdog::<PoolNo>::interval(watcher.dog.thresh());
            self.agenda.add(self.now + interval, Rank::Wake, Due::Watchdog);
        }
        (0..self.pools.list.len()).for_each(|pool| self.check_pool(pool));
        if self.config.sabotage != Some(Sabotage::BlindWatchdog) {
            found.into_iter().for_each(|what| self.note(what));
        }
    }
}
