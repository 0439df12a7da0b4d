//! The stall watchdog: looks at the pools at intervals while work waits.

use cmwq_core::{PanicPolicy, Watchdog};

use super::{Due, Engine};
use crate::Nanos;
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};

/// The watchdog of a run.
#[derive(Debug)]
pub(super) struct StallWatchdog {
    core: Watchdog<PoolNo>,
    is_armed: bool,
}

impl StallWatchdog {
    pub(super) const fn new(thresh: Nanos) -> Self {
        Self { core: Watchdog::new(thresh), is_armed: false }
    }
}

impl Engine<'_> {
    /// Arms the watchdog if items of the pool wait.
    pub(super) fn arm_watchdog(&mut self, pool: PoolNo) {
        let waits = self.pools.list[pool].read().is_to_be_watched();
        let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| waits && !watchdog.is_armed)
        else {
            return;
        };
        watchdog.is_armed = true;
        let interval = Watchdog::<PoolNo>::interval(watchdog.core.thresh());
        self.agenda.add(self.now + interval, Rank::Wake, Due::Watchdog);
    }

    pub(super) fn look_for_stalls(&mut self) {
        let is_quiet = self.is_quiet();
        let Some(watchdog) = &mut self.watchdog else { return };
        watchdog.core.begin(self.now);
        let mut found = Vec::new();
        let mut waits = false;
        for (number, pool) in self.pools.list.iter_mut().enumerate() {
            let core = pool.lock();
            waits |= core.is_to_be_watched();
            if core.work_waits()
                && let Some(time) = watchdog.core.see(number, core.progress(), false)
            {
                found.push(What::Stalled(number, time));
            }
        }
        let _ = watchdog.core.end(PanicPolicy::default());
        watchdog.is_armed = waits && !is_quiet;
        if watchdog.is_armed {
            let interval = Watchdog::<PoolNo>::interval(watchdog.core.thresh());
            self.agenda.add(self.now + interval, Rank::Wake, Due::Watchdog);
        }
        (0..self.pools.list.len()).for_each(|pool| self.check_pool(pool));
        if self.config.sabotage != Some(Sabotage::BlindWatchdog) {
            found.into_iter().for_each(|what| self.note(what));
        }
    }
}
