//! The stall watchdog: looks at what waits at intervals while something does. As the runtime's: at
//! pools where work waits for a worker, at queues with items that wait for a slot, and at items
//! that wait for each other. Nobody touches it.

use std::collections::BTreeSet;

use cmwq_core::watchdog::{ItemWait, WaitFor, circles};
use cmwq_core::{Colors, LockFor, PanicPolicy, Watchdog};

use super::{Due, Engine, Mode, Run, Thread};
use crate::Nanos;
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
use crate::machine::Tid;
use crate::places::{PoolKind, Queue};
use crate::plan::{ItemId, Op, QueueId};

/// What can stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    Pool(PoolNo),
    /// With the number of times that it was made.
    Queue(QueueId, u32),
    /// By the first of its waits.
    Circle(u64),
}

/// An item's wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaits {
    /// Numbers the waits.
    id: u64,
    what: Awaited,
}

/// What an item waits for.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    Queue(QueueId),
    Item(ItemId),
}

/// The watchdog of a run.
#[derive(Debug)]
pub(super) struct StallWatchdog {
    core: Watchdog<Spot>,
    is_armed: bool,
    /// How many items have begun to wait.
    nr_waits: u64,
}

impl StallWatchdog {
    pub(super) const fn new(thresh: Nanos) -> Self {
        Self { core: Watchdog::new(thresh), is_armed: false, nr_waits: 0 }
    }
}

impl Engine<'_> {
    /// Arms the watchdog if items of the pool wait.
    pub(super) fn arm_watchdog(&mut self, pool: PoolNo) {
        if self.watchdog.is_some() && self.pools.list[pool].read().is_to_be_watched() {
            self.something_waits();
        }
    }

    /// The item that `tid` runs begins to wait, by this step.
    pub(super) fn begin_wait(&mut self, tid: Tid, by: Op) {
        let Some(watchdog) = &mut self.watchdog else { return };
        let what = match by {
            Op::FlushQueue(queue) => Awaited::Queue(queue),
            Op::FlushItem(item) | Op::FlushDelayed(item) | Op::CancelSync(item) => {
                Awaited::Item(item)
            }
            _ => return,
        };
        self.threads[tid].awaits = Some(Awaits { id: watchdog.nr_waits, what });
        watchdog.nr_waits += 1;
        self.something_waits();
    }

    pub(super) fn something_waits(&mut self) {
        let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| !watchdog.is_armed) else {
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
            let spot = Spot::Queue(queue, self.queues[queue].nr_made);
            let progress = || self.queue_progress(queue);
            let is_frozen = self.queues[queue].is_frozen;
            let time = watchdog.core.see_queue(spot, is_frozen, progress, false);
            found.extend(time.map(|time| What::QueueStalled(queue, time)));
        }
        self.look_at_waits(&mut watchdog.core, &mut found);
        let next = watchdog.core.end(PanicPolicy::default()).next;
        watchdog.is_armed = next.is_some();
        self.watchdog = Some(watchdog);
        if let Some(next) = next {
            self.agenda.add(next, Rank::Wake, Due::Watchdog);
        }
        found.retain(|what| self.is_told(what));
        found.into_iter().for_each(|what| self.note(what));
    }

    fn is_told(&self, what: &What) -> bool {
        match (self.config.sabotage, what) {
            (Some(Sabotage::BlindWatchdog), _) => false,
            (Some(Sabotage::BlindToPods), What::Stalled(pool, _)) => {
                matches!(self.pools.list[*pool].kind, PoolKind::Cpu(_))
            }
            (Some(Sabotage::BlindToQueues), What::QueueStalled(..)) => false,
            _ => true,
        }
    }

    /// Returns the queues with items that wait for a slot.
    fn look_at_pools(
        &mut self,
        watchdog: &mut Watchdog<Spot>,
        found: &mut Vec<What>,
    ) -> BTreeSet<QueueId> {
        let mut with_inactive = BTreeSet::new();
        for number in 0..self.pools.list.len() {
            let pool = &mut self.pools.list[number];
            let (waits, progress) = (pool.reading().work_waits(), pool.reading().progress());
            if pool.reading().takes_unseen() {
                watchdog.keep_looking();
            }
            with_inactive.extend(pool.reading().queues_with_inactive().map(|wq| wq.0 as QueueId));
            if waits {
                let time = watchdog.see(Spot::Pool(number), progress, false);
                found.extend(time.map(|time| What::Stalled(number, time)));
            }
            if pool.reading().waits_no_more() {
                pool.lock(LockFor::Counts).forget_inactive();
                self.check_pool(number);
            }
        }
        with_inactive
    }

    fn look_at_waits(&self, watchdog: &mut Watchdog<Spot>, found: &mut Vec<What>) {
        let wait_of = |thread: &Thread| match thread.mode {
            Mode::Item(run) => thread.awaits.map(|awaits| (awaits.id, self.in_core(thread, run))),
            _ => None,
        };
        let mut waits: Vec<_> = self.threads.iter().filter_map(wait_of).collect();
        waits.sort_unstable_by_key(|(id, _)| *id);
        let in_core: Vec<_> = waits.iter().map(|(_, in_core)| *in_core).collect();
        for circle in circles(&in_core) {
            let (id, own) = waits[circle[0]];
            let time = watchdog.see_circle(Spot::Circle(id), false);
            found.extend(time.map(|time| What::CircleStalled(own.item, time)));
        }
    }

    /// What the core has to know of the wait of an item that runs.
    fn in_core(&self, thread: &Thread, run: Run) -> ItemWait<ItemId> {
        let what = match thread.awaits.expect("it waits").what {
            Awaited::Item(item) => WaitFor::Item(item),
            Awaited::Queue(queue) => {
                let Queue { key, flush, .. } = &self.queues[queue];
                let awaited = thread.flush.map_or(Colors::NONE, |me| flush.awaited(me));
                WaitFor::Queue(*key, awaited)
            }
        };
        let worker = thread.visit.map_or(thread.id, |visit| visit.id);
        ItemWait {
            wq: self.queues[run.what.queue].key,
            item: run.what.item,
            color: self.pools.list[run.site.pool].reading().color_of(worker),
            what,
        }
    }

    /// A number that changes whenever an item of the queue starts, ends, or is taken back.
    fn queue_progress(&self, queue: QueueId) -> u64 {
        let it = &self.queues[queue];
        let mut sum = it.removed;
        for at in it.pwqs.iter() {
            sum += self.pools.list[at.pool.0 as usize].reading().stats(at.pwq).unwrap_or_default();
        }
        sum.progress()
    }
}
