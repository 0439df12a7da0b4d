//! The watchdog's thread: looks at what waits, and tells of what stands still.

use std::collections::{BTreeSet, HashMap};
use std::mem;

use cmwq_core::watchdog::{ItemWait, WaitFor as Awaited, circles};
use cmwq_core::{Colors, LockFor, Nanos, PoolId, WorkerId, WqKey};

use super::describe::Describer;
use super::{dump, handler};
use crate::engine::pool::Pool;
use crate::engine::runtime::Runtime;
use crate::engine::tools::watchdog::{Wait, WaitFor};
use crate::engine::wq::Wq;
use crate::observe::show;
use crate::os::clock;
use crate::os::notice;
use crate::os::sync::{Arc, Ordering, Weak};
use crate::record::symbol;

/// Symbols are looked up in large tables.
const STACK: usize = 2 << 20;

/// What can stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    Pool(PoolId),
    /// With its address: another one may get the key, but not the address while we know of it.
    Queue(WqKey, usize),
    /// By the first of its waits.
    Circle(u64),
}

/// When a worker was first seen in which run.
pub(super) type Runs = HashMap<(PoolId, WorkerId), (u64, Nanos)>;

/// What stands still, and for how long.
pub(super) enum Still {
    Pool(&'static Pool, Nanos),
    Queue(WqKey, Nanos),
    Circle(Vec<Wait>, Nanos),
}

/// Starts the thread. By the service thread or its creator.
pub(crate) fn spawn(runtime: &'static Runtime) -> std::io::Result<()> {
    let watcher = Watcher::new(runtime);
    runtime.threads.spawn("cmwq/watchdog", STACK, move || watcher.run())
}

/// The thread's own state.
struct Watcher {
    runtime: &'static Runtime,
    dog: cmwq_core::Watchdog<Spot>,
    runs: Runs,
    /// The queues with items that waited for a slot at the last look.
    with_inactive: Vec<Weak<Wq>>,
}

/// One look at everything, by the caller.
#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
pub(crate) fn look_once(runtime: &'static Runtime) {
    Watcher::new(runtime).look(clock::now());
}

impl Watcher {
    fn new(runtime: &'static Runtime) -> Self {
        let dog = cmwq_core::Watchdog::new(1);
        Self { runtime, dog, runs: Runs::new(), with_inactive: Vec::new() }
    }

    fn run(mut self) {
        let watchdog = &self.runtime.watchdog;
        // ORDERING (here and below): no pairing: see `Watchdog`.
        while !watchdog.is_stopping.load(Ordering::Relaxed) {
            dump::dump_if_asked(self.runtime);
            self.runtime.hogs.tell(symbol::name_of);
            let now = clock::now();
            if watchdog.alarm.rings(now) {
                self.look(now);
            }
            watchdog.alarm.sleep();
        }
        self.runtime.hogs.tell(symbol::name_of);
    }

    fn look(&mut self, now: Nanos) {
        let watchdog = &self.runtime.watchdog;
        let Some(thresh) = watchdog.alarm.thresh_to_look() else { return };
        if thresh != self.dog.thresh() {
            self.dog.set_thresh(thresh);
        }
        self.dog.begin(now);
        let mut still = Vec::new();
        let with_inactive = self.look_at_pools(now, &mut still);
        self.look_at_queues(with_inactive, &mut still);
        self.look_at_waits(&mut still);
        let nr = self.dog.nr_reports();
        let looked = self.dog.end(watchdog.policy());
        let mut next = looked.next;
        if !still.is_empty() {
            self.tell(&still, nr, now);
            next = self.dog.told(clock::now());
        }
        if looked.has_to_panic {
            abort(self.dog.nr_reports());
        }
        if let Some(next) = next {
            watchdog.alarm.set(next);
        }
    }

    /// Returns the queues with items that wait for a slot.
    fn look_at_pools(&mut self, now: Nanos, still: &mut Vec<Still>) -> BTreeSet<WqKey> {
        let mut with_inactive = BTreeSet::new();
        let mut runs = Runs::new();
        for pool in self.runtime.pools() {
            let (waits, progress, are_gone, is_unseen) = pool.read(|core, _| {
                for view in core.workers().filter(|view| view.wq.is_some()) {
                    let at = (pool.id, view.id);
                    let known = self.runs.get(&at).filter(|(seq, _)| *seq == view.seq);
                    runs.insert(at, known.copied().unwrap_or((view.seq, now)));
                }
                with_inactive.extend(core.queues_with_inactive());
                (core.work_waits(), core.progress(), core.waits_no_more(), core.takes_unseen())
            });
            if are_gone {
                pool.lock(LockFor::Counts).core.forget_inactive();
            }
            if is_unseen {
                self.dog.keep_looking();
            }
            if waits {
                let excused = self.is_excused(Some(pool));
                let found = self.dog.see(Spot::Pool(pool.id), progress, excused);
                still.extend(found.map(|time| Still::Pool(pool, time)));
            }
        }
        self.runs = runs;
        with_inactive
    }

    fn look_at_queues(&mut self, with_inactive: BTreeSet<WqKey>, still: &mut Vec<Still>) {
        // Until the others are known these keep their addresses.
        let _before = mem::take(&mut self.with_inactive);
        for wq in with_inactive.into_iter().filter_map(|key| self.runtime.wq(key)) {
            let spot = Spot::Queue(wq.key, Arc::as_ptr(&wq).addr());
            let excused = self.is_excused(None);
            let found = self.dog.see_queue(spot, wq.is_frozen(), || wq.progress(), excused);
            still.extend(found.map(|time| Still::Queue(wq.key, time)));
            self.with_inactive.push(Arc::downgrade(&wq));
        }
    }

    fn look_at_waits(&mut self, still: &mut Vec<Still>) {
        let waits = self.runtime.watchdog.waits.all();
        let in_core: Vec<_> = waits.iter().map(|wait| self.in_core(wait)).collect();
        for circle in circles(&in_core) {
            let circle: Vec<_> = circle.into_iter().map(|at| waits[at].clone()).collect();
            let spot = Spot::Circle(circle[0].id);
            let found = self.dog.see_circle(spot, self.is_excused(None));
            still.extend(found.map(|time| Still::Circle(circle, time)));
        }
    }

    /// What the core has to know of a wait. If it, or its flush, has ended meanwhile, that is not
    /// about what is there now; but then it is over at the next look.
    fn in_core(&self, wait: &Wait) -> ItemWait<usize> {
        let (pool, worker) = wait.at();
        let pool = self.runtime.pool(pool);
        let what = match wait.what {
            WaitFor::Item(item) => Awaited::Item(item),
            WaitFor::Flush(key, me) => {
                let awaited = self.runtime.wq(key).map_or(Colors::NONE, |wq| wq.awaited(me));
                Awaited::Queue(key, awaited)
            }
        };
        ItemWait {
            wq: wait.wq,
            item: wait.item,
            color: pool.and_then(|pool| pool.read(|core, _| core.color_of(worker))),
            what,
        }
    }

    /// Whether the watchdog was touched since the last look.
    fn is_excused(&self, pool: Option<&Pool>) -> bool {
        let cpus = pool.map(Pool::worker_cpus).unwrap_or_default();
        let (on_first, on_any) = self.runtime.watchdog.touched(cpus.first());
        self.dog.excuses(cpus.count() as u32, on_first, on_any)
    }

    fn tell(&self, still: &[Still], nr: u32, now: Nanos) {
        let mut describer = Describer::new(self.runtime, &self.runs, now);
        let mut is_written = false;
        for still in still {
            is_written |= handler::tell(&describer.describe(still), nr);
        }
        if is_written && let Some(report) = show::report() {
            notice::say(&format!("what queues and pools are doing:\n{report}"));
        }
    }
}

fn abort(nr: u32) -> ! {
    notice::say(&format!(
        "the watchdog ends the process after {nr} reports (panic_on_stall, panic_on_stall_time)"
    ));
    std::process::abort();
}
