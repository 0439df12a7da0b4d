//! The stall watchdog: looks at what waits at intervals while something does. As the runtime's: at
//! pools where work waits for a worker, and at queues with items that wait for a slot. Nobody
//! touches it, and it knows no circles of items that wait for each other.

use std::collections::BTreeSet;

use cmwq_core::{PanicPolicy, Watchdog};

use super::{Due, Engine};
use crate::Nanos;
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
use crate::plan::QueueId;

/// What can stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    Pool(PoolNo),
    Queue(QueueId),
}

/// The watchdog of a run.
#[derive(Debug)]
pub(super) struct StallWatchdog {
    core: Watchdog<Spot>,
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
        let interval = Watchdog::<Spot>::interval(watchdog.core.thresh());
        self.agenda.add(self.now + interval, Rank::Wake, Due::Watchdog);
    }

    pub(super) fn look_for_stalls(&mut self) {
        let Some(mut watchdog) = self.watchdog.take() else { return };
        watchdog.core.begin(self.now);
        let mut found = Vec::new();
        for queue in self.look_at_pools(&mut watchdog.core, &mut found) {
            let progress = self.queue_progress(queue);
            let time = watchdog.core.see(Spot::Queue(queue), progress, false);
            found.extend(time.map(|time| What::QueueStalled(queue, time)));
        }
        let next = watchdog.core.end(PanicPolicy::default()).next;
        watchdog.is_armed = next.is_some();
        self.watchdog = Some(watchdog);
        if let Some(next) = next {
            self.agenda.add(next, Rank::Wake, Due::Watchdog);
        }
        if self.config.sabotage != Some(Sabotage::BlindWatchdog) {
            found.into_iter().for_each(|what| self.note(what));
        }
    }

    /// Returns the queues with items that wait for a slot.
    fn look_at_pools(
        &mut self,
        watchdog: &mut Watchdog<Spot>,
        found: &mut Vec<What>,
    ) -> BTreeSet<QueueId> {
        let mut parked = BTreeSet::new();
        for number in 0..self.pools.list.len() {
            let pool = &mut self.pools.list[number];
            let (waits, progress) = (pool.reading().work_waits(), pool.reading().progress());
            if pool.reading().takes_unseen() {
                watchdog.keep_looking();
            }
            let here: Vec<_> = pool.reading().parked().map(|at| at.wq.0 as QueueId).collect();
            if waits {
                let time = watchdog.see(Spot::Pool(number), progress, false);
                found.extend(time.map(|time| What::Stalled(number, time)));
            } else if here.is_empty() && pool.read().is_to_be_watched() {
                pool.lock_only().forget_parked();
                self.check_pool(number);
            }
            parked.extend(here);
        }
        parked
    }

    /// A number that changes whenever an item of the queue starts, ends, or is taken back.
    fn queue_progress(&self, queue: QueueId) -> u64 {
        let it = &self.queues[queue];
        let mut sum = it.removed;
        for at in it.pwqs.iter() {
            sum += self.pools.list[at.pool.0 as usize].reading().stats(at.pwq).unwrap_or_default();
        }
        sum.started + sum.completed + sum.cancelled
    }
}
