//! The service thread: does what must happen at a time rather than on an event, see
//! [`service`](crate::engine::service). It calls rescuers, so from the first one on it leaves what
//! creates threads to the [creator](crate::engine::threads::creator).

use std::io;
use std::ptr::NonNull;

use cmwq_core::detect::tick::TickFound;
use cmwq_core::detect::{By, Tick};
use cmwq_core::place::Rescan;
use cmwq_core::{FIRE_BATCH, LockFor, Nanos, Timer, WorkItem};

use crate::engine::item::delayed::{self, Held};
use crate::engine::pool::Pool;
use crate::engine::runtime::Runtime;
use crate::engine::service::Service;
use crate::engine::threads::creator::{Creations, CreatorThread};
use crate::engine::threads::detection;
use crate::engine::tools::attrs::Priority;
use crate::engine::tools::plan::NEVER;
use crate::os::IS_MODEL;
use crate::os::clock;
use crate::os::sense;
use crate::os::sync::{Arc, AtomicU64, Ordering, lock};

const SERVICE_STACK: usize = 256 << 10;

/// The thread has little to do each time, and that at once: the shortest slice there is, 100 µs.
const SLICE_NS: u64 = 100_000;

/// Starts the thread.
///
/// # Errors
/// If the system has no thread to give.
pub(crate) fn start(runtime: &'static Runtime) -> std::io::Result<()> {
    runtime.threads.spawn("cmwq/service", SERVICE_STACK, move || Loop::new(runtime).run())
}

/// The thread's own state.
struct Loop {
    runtime: &'static Runtime,
    service: &'static Service,
    tick_at: Nanos,
    tick: Tick,
    nr_ticks: usize,
    /// There were more timers to handle than are handled at once.
    has_more_due: bool,
    /// When to look at the CPUs again.
    rescan: Rescan,
    /// Who creates threads, if there have been rescuers.
    creator: Option<Arc<CreatorThread>>,
    due: Vec<NonNull<Timer>>,
    /// Scratch space of [`delayed::expired`].
    items: Vec<NonNull<WorkItem>>,
    /// The same.
    held: Vec<Held>,
    pools: Vec<&'static Pool>,
}

// SAFETY: the timers are taken off the wheel and handled by this thread within one round.
unsafe impl Send for Loop {}

impl Loop {
    fn new(runtime: &'static Runtime) -> Self {
        Self {
            runtime,
            service: &runtime.service,
            tick_at: NEVER,
            tick: Tick::new(runtime.detect.tick_role()),
            nr_ticks: 0,
            has_more_due: false,
            due: Vec::with_capacity(FIRE_BATCH),
            items: Vec::with_capacity(FIRE_BATCH),
            held: Vec::new(),
            rescan: Rescan::begin(clock::now()),
            creator: None,
            pools: Vec::new(),
        }
    }

    fn run(mut self) {
        Service::begin();
        if !IS_MODEL {
            // Whoever was the first to use the library.
            Priority::default().assume_or_say(self.runtime.base_policy);
            sense::sched::set_timer_slack_ns(1);
            // Only a hint: without it, what is due waits for the slices of our own workers.
            let _ = sense::policy::set_slice_ns_current(SLICE_NS);
            // Better now than when workers wait for it.
            sense::reserve();
        }
        self.runtime.placement.set_widest_mask(&self.runtime.machine);
        // ORDERING: no pairing of its own: see `stop`.
        while !self.service.is_stopping.load(Ordering::Relaxed) {
            let now = clock::now();
            self.fire(now);
            self.tick(now);
            self.cull(now);
            self.start_creator();
            let due = self.creations(now);
            self.create(due);
            self.mayday(now);
            self.write_comms(now);
            self.service.plan.sleep(|| self.deadline());
        }
        self.runtime.placement.forget_widest_mask();
        self.create(Creations { end: true, ..Creations::default() });
    }

    fn deadline(&mut self) -> Nanos {
        let service = self.service;
        if self.tick_at == NEVER && !service.ticking.is_empty() {
            self.tick_at = clock::now() + self.tick.begin();
        }
        // ORDERING (here and below): no pairing of their own: see `Plan`.
        if service.is_wanted_now.swap(false, Ordering::Relaxed) && self.tick_at != NEVER {
            self.tick_at = self.tick_at.min(clock::now() + self.tick.begin());
        }
        if self.has_more_due {
            return clock::now();
        }
        let timer = lock(&service.timers).next_deadline().unwrap_or(NEVER);
        let rescan = service.rescan_at.load(Ordering::Relaxed);
        let rescan = if rescan == NEVER { NEVER } else { self.rescan.at(rescan) };
        [
            &service.cull_at,
            &service.retry_at,
            &service.mayday_at,
            &service.comms_at,
            &service.watchdog_at,
        ]
        .map(|at| at.load(Ordering::Relaxed))
        .into_iter()
        .chain([self.tick_at, timer, rescan])
        .min()
        .unwrap_or(NEVER)
    }

    /// Queues items whose timers have expired, a batch at a time: the thread sees to its other
    /// duties before it goes on.
    fn fire(&mut self, now: Nanos) {
        let service = self.service;
        let mut budget = FIRE_BATCH;
        let mut timers = lock(&service.timers);
        while let Some(timer) = timers.expire_some(now, &mut budget) {
            self.due.push(timer);
        }
        // ORDERING: no pairing: a hint, and written under the lock.
        if service.deferred_at.load(Ordering::Relaxed) <= now {
            service.publish_deferred(&timers);
        }
        drop(timers);
        self.has_more_due = budget == 0;
        // SAFETY: armed timers are members of delayed items that own PENDING and are alive.
        unsafe { delayed::expired(service, &self.due, &mut self.items, &mut self.held) };
        self.due.clear();
        // What the user's closures captured is not dropped by this thread: that may take long, or
        // wait for another timer.
        for held in self.held.drain(..) {
            // SAFETY: it came from `expired`.
            unsafe { held.let_go_later(self.runtime, None) };
        }
    }

    /// Looks at the running workers of pools whose work waits.
    fn tick(&mut self, now: Nanos) {
        if now < self.tick_at {
            return;
        }
        clock::refresh_coarse();
        self.nr_ticks = self.nr_ticks.wrapping_add(1);
        self.service.ticking.collect(&mut self.pools);
        self.cover();
        let mut all = TickFound::default();
        for pool in &self.pools {
            all |= self.tick_pool(pool);
        }
        self.service.ticking.drop_quiet();
        if self.runtime.sentinels.is_one_astray() {
            self.service.rescan_soon();
        }
        if self.runtime.sentinels.is_one_refused() {
            // Switch records do not help: they are only read when somebody looks.
            self.tick.turn_alone();
        }
        let interval = self.tick.after(all);
        // ORDERING: no pairing: a hint.
        self.service.is_tick_first.store(self.tick.is_first(), Ordering::Relaxed);
        self.tick_at =
            if self.service.ticking.is_empty() { NEVER } else { clock::now() + interval };
    }

    /// Has sentinels started that are missing.
    fn cover(&self) {
        if !self.runtime.detect.has_sentinel() {
            return;
        }
        let lacks_some = |pool: &&'static Pool| !pool.is_covered();
        let sentinels: Vec<_> = self.pools.iter().copied().filter(lacks_some).collect();
        if !sentinels.is_empty() {
            self.create(Creations { sentinels, ..Creations::default() });
        }
    }

    fn tick_pool(&self, pool: &'static Pool) -> TickFound {
        if !pool.is_watched() {
            return TickFound::default();
        }
        pool.detect_short_items();
        let found = detection::detect(pool, None, By::Tick);
        if found.has_to_watch && self.runtime.detect.has_sentinel() {
            pool.resume_alarms();
        }
        if pool.wants_help() {
            self.runtime.ask_for_help(pool);
            self.runtime.watch_other_pods(pool, self.nr_ticks);
        }
        TickFound { has_woken: found.has_woken, has_processes: found.has_processes }
    }

    /// Lets surplus idle workers leave.
    fn cull(&mut self, now: Nanos) {
        if now < self.service.cull_at.load(Ordering::Relaxed) {
            return;
        }
        self.service.cull_at.store(NEVER, Ordering::Relaxed);
        for pool in self.runtime.pools() {
            loop {
                let mut guard = pool.lock(LockFor::Counts);
                let leaving = guard.core.cull_one(now);
                if leaving.is_some() {
                    guard.mirror.culled();
                }
                let next = guard.core.cull_at();
                if !Pool::unlock_to_leave(guard, leaving) {
                    self.service.cull_at(next);
                    break;
                }
            }
        }
    }

    /// Calls rescuers to pools whose work no worker comes for.
    fn mayday(&mut self, now: Nanos) {
        if now < self.service.mayday_at.load(Ordering::Relaxed) {
            return;
        }
        self.service.mayday_at.store(NEVER, Ordering::Relaxed);
        for pool in self.runtime.pools() {
            self.service.mayday_at(pool.send_maydays(now));
        }
    }

    /// What creates threads, and is due.
    fn creations(&mut self, now: Nanos) -> Creations {
        let is_due = |at: &AtomicU64| {
            let is_due = now >= at.load(Ordering::Relaxed);
            if is_due {
                at.store(NEVER, Ordering::Relaxed);
            }
            is_due
        };
        let (workers, rescuers) = self.service.to_create_for();
        Creations {
            retries: is_due(&self.service.retry_at),
            workers,
            rescuers,
            watchdog: is_due(&self.service.watchdog_at),
            rescan: self.rescan(now),
            ..Creations::default()
        }
    }

    /// Whether to look which CPUs the process has, and whether workers go back to theirs: once a
    /// second at most, and never only for that.
    fn rescan(&mut self, now: Nanos) -> Option<bool> {
        if !self.rescan.is_due(now) {
            return None;
        }
        self.rescan = Rescan::begin(now);
        Some(self.service.rescan_at.swap(NEVER, Ordering::Relaxed) != NEVER)
    }

    fn create(&self, due: Creations) {
        match &self.creator {
            Some(creator) => creator.leave(due),
            None => due.carry_out(self.runtime),
        }
    }

    /// Rescuers are about to be started.
    fn start_creator(&mut self) {
        for asked in self.service.askers() {
            asked.answer(self.have_creator());
        }
    }

    fn have_creator(&mut self) -> io::Result<()> {
        if self.creator.is_none() {
            self.creator = Some(CreatorThread::start(self.runtime)?);
            self.service.creator_has_come();
        }
        Ok(())
    }

    fn write_comms(&mut self, now: Nanos) {
        if now < self.service.comms_at.load(Ordering::Relaxed) {
            return;
        }
        self.service.comms_at.store(NEVER, Ordering::Relaxed);
        let mut is_done = true;
        for pool in self.runtime.pools() {
            for thread in pool.threads() {
                is_done &= thread.comm.write(|wq| self.runtime.wq_name(wq));
            }
        }
        if !is_done {
            self.service.write_comms_soon();
        }
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests;
