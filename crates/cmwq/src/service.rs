//! The service thread: whatever must happen at a time rather than on an event.
//!
//! Timers of delayed items, the adaptive tick of the detectors, culling of idle workers, retries of
//! failed creation, titles of idle workers. It sleeps without a deadline when there is none of
//! these: a process whose queues are idle wakes nobody.

use std::ptr::NonNull;
use std::time::Duration;

use cmwq_core::{Nanos, Timer, Wheel};

use crate::clock;
use crate::delayed;
use crate::detect::Detect;
use crate::notice::{self, Notice};
use crate::plan::{NEVER, Plan};
use crate::pool::{Creator, Pool};
use crate::runtime::Runtime;
use crate::sense;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use crate::ticking::TickList;
use crate::{park, verify};

const SERVICE_STACK: usize = 256 << 10;

/// The tick begins with this interval, and returns to it when a worker has started a new item.
const TICK_MIN: Nanos = 250_000;
/// The interval after a tick that found a blocked worker: nothing better told of it, so the tick
/// matters.
const TICK_BUSY: Nanos = 100_000;
/// The longest interval where the tick is the only source, and where it stands behind a better one.
const TICK_MAX_ALONE: Nanos = 1_000_000;
const TICK_MAX_BEHIND: Nanos = 4_000_000;
/// The interval doubles after so many ticks that found nobody. Where other programs keep the CPUs
/// busy the sentinel comes late and the tick finds blocked workers, so it stays short there.
const FRUITLESS_TICKS: u32 = 8;
/// How long after a worker turned to something else its name says so.
const SETTLE_AFTER: Nanos = 25_000_000;

/// What the service thread shares with everybody else.
#[derive(Debug)]
pub(crate) struct Service {
    /// When the thread will look again; who needs it sooner wakes it.
    plan: Plan,
    /// Lock: timers.
    wheel: Mutex<Wheel>,
    /// Pools that were watched lately.
    ticking: TickList,
    cull_at: AtomicU64,
    retry_at: AtomicU64,
    settle_at: AtomicU64,
    /// The tick is to come soon again.
    is_hurried: AtomicBool,
    is_stopping: AtomicBool,
}

impl Service {
    pub(crate) fn new() -> Self {
        Self {
            plan: Plan::new(),
            wheel: Mutex::new(Wheel::new(clock::now())),
            ticking: TickList::new(),
            cull_at: AtomicU64::new(NEVER),
            retry_at: AtomicU64::new(NEVER),
            settle_at: AtomicU64::new(NEVER),
            is_hurried: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// Starts the thread.
    pub(crate) fn start(runtime: &'static Runtime) -> std::io::Result<()> {
        runtime.crew.spawn("cmwq/service", SERVICE_STACK, move || Loop::new(runtime).run())
    }

    /// Asks the thread to leave.
    pub(crate) fn stop(&self) {
        // ORDERING: no pairing of its own: who takes the token of the wake-up sees it.
        self.is_stopping.store(true, Ordering::Relaxed);
        self.plan.wake();
    }

    /// Surplus workers' time is up at `at`.
    #[inline]
    pub(crate) fn cull_at(&self, at: Option<Nanos>) {
        if let Some(at) = at {
            // ORDERING: no pairing: only a short cut.
            if self.cull_at.load(Ordering::Relaxed) > at {
                self.plan.lower(&self.cull_at, at);
            }
        }
    }

    /// Creation failed; try again at `at`.
    pub(crate) fn retry_at(&self, at: Nanos) {
        self.plan.lower(&self.retry_at, at);
    }

    /// A worker's name is wrong.
    #[inline]
    pub(crate) fn settle_titles_soon(&self) {
        // ORDERING: no pairing: only a short cut.
        if self.settle_at.load(Ordering::Relaxed) == NEVER {
            self.plan.lower(&self.settle_at, clock::now() + SETTLE_AFTER);
        }
    }

    /// The pool's work waits at capacity: look at its workers at intervals.
    pub(crate) fn start_ticking(&self, pool: &'static Pool) {
        if self.ticking.add(pool) {
            self.plan.need_by(clock::now() + TICK_MIN);
        }
    }

    /// Something relies on the tick: let it come at its shortest interval.
    pub(crate) fn hurry(&self) {
        // ORDERING: no pairing of its own: see `Plan`.
        if !self.is_hurried.swap(true, Ordering::Relaxed) {
            self.plan.need_by_unlocked(clock::now() + TICK_MIN);
        }
    }

    // ---- timers

    /// Arms a timer.
    ///
    /// # Safety
    /// As for [`Wheel::arm`].
    pub(crate) unsafe fn arm(&self, timer: NonNull<Timer>, delay: Duration) {
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let at = clock::now().saturating_add(delay).min(1 << 62);
        let mut wheel = lock(&self.wheel);
        // SAFETY: passed on to the caller.
        unsafe { wheel.arm(timer, at) };
        let next = wheel.next_deadline();
        drop(wheel);
        // Whoever held the wheel's lock second knows of the other: we of the plan, or the service
        // of the timer.
        self.plan.need_by(next.unwrap_or(NEVER));
    }

    /// Disarms a timer; `false`: it was not armed.
    ///
    /// # Safety
    /// As for [`Wheel::cancel`].
    pub(crate) unsafe fn disarm(&self, timer: NonNull<Timer>) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { lock(&self.wheel).cancel(timer) }
    }
}

/// The thread's own state.
struct Loop {
    runtime: &'static Runtime,
    service: &'static Service,
    tick_at: Nanos,
    interval: Nanos,
    /// Ticks in a row that found nobody newly blocked.
    fruitless: u32,
    due: Vec<NonNull<Timer>>,
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
            interval: TICK_MIN,
            fruitless: 0,
            due: Vec::new(),
            pools: Vec::new(),
        }
    }

    fn run(mut self) {
        if cfg!(not(any(loom, shuttle))) {
            sense::sched::set_timer_slack_ns(1);
        }
        // ORDERING: no pairing of its own: see `stop`.
        while !self.service.is_stopping.load(Ordering::Relaxed) {
            let now = clock::now();
            self.fire(now);
            self.tick(now);
            self.cull(now);
            self.retry(now);
            self.settle(now);
            self.service.plan.sleep(|| self.deadline());
        }
    }

    fn deadline(&mut self) -> Nanos {
        let service = self.service;
        if self.tick_at == NEVER && !service.ticking.is_empty() {
            self.interval = TICK_MIN;
            self.tick_at = clock::now() + self.interval;
        }
        // ORDERING (here and below): no pairing of their own: see `Plan`.
        if service.is_hurried.swap(false, Ordering::Relaxed) && self.tick_at != NEVER {
            self.interval = TICK_MIN;
            self.tick_at = self.tick_at.min(clock::now() + TICK_MIN);
        }
        let timer = lock(&service.wheel).next_deadline().unwrap_or(NEVER);
        [&service.cull_at, &service.retry_at, &service.settle_at]
            .map(|at| at.load(Ordering::Relaxed))
            .into_iter()
            .chain([self.tick_at, timer])
            .min()
            .unwrap_or(NEVER)
    }

    /// Queues the items whose time has come.
    fn fire(&mut self, now: Nanos) {
        let mut wheel = lock(&self.service.wheel);
        while let Some(timer) = wheel.expire(now) {
            self.due.push(timer);
        }
        drop(wheel);
        for timer in self.due.drain(..) {
            // SAFETY: armed timers are members of delayed items that own PENDING and are alive.
            unsafe { delayed::expired(timer) };
        }
    }

    /// Looks at the running workers of pools whose work waits.
    fn tick(&mut self, now: Nanos) {
        if now < self.tick_at {
            return;
        }
        self.service.ticking.collect(&mut self.pools);
        let mut found = 0;
        for pool in &self.pools {
            if self.runtime.detect.has_sentinel() {
                self.runtime.sentinels.cover(pool);
            }
            found += self.tick_pool(pool);
        }
        self.service.ticking.drop_quiet();
        let longest = match self.runtime.detect {
            Detect::Perf | Detect::Sentinel => TICK_MAX_BEHIND,
            Detect::Tick | Detect::Inline => TICK_MAX_ALONE,
        };
        self.fruitless = if found > 0 { 0 } else { self.fruitless + 1 };
        self.interval = if found > 0 {
            TICK_BUSY
        } else if self.fruitless.is_multiple_of(FRUITLESS_TICKS) {
            (self.interval * 2).min(longest)
        } else {
            self.interval
        };
        self.tick_at =
            if self.service.ticking.is_empty() { NEVER } else { clock::now() + self.interval };
    }

    fn tick_pool(&self, pool: &'static Pool) -> usize {
        if !pool.is_watched() {
            return 0;
        }
        let found = verify::look(pool, None, true);
        if found.has_to_watch && self.runtime.detect.has_sentinel() {
            // ORDERING: no pairing: a hint.
            pool.is_calm.store(false, Ordering::Relaxed);
            pool.arm_all_sentinels();
        }
        if found.has_backlog {
            self.runtime.ask_idle_pods(pool);
            self.runtime.watch_other_pods(pool);
        }
        found.blocked
    }

    /// Lets surplus idle workers leave.
    fn cull(&mut self, now: Nanos) {
        if now < self.service.cull_at.load(Ordering::Relaxed) {
            return;
        }
        self.service.cull_at.store(NEVER, Ordering::Relaxed);
        for pool in self.runtime.pools() {
            loop {
                let mut guard = pool.lock_only();
                let leaving = guard.core.cull_one(now);
                let berth = leaving.and_then(|id| guard.thread(id)).map(|thread| thread.berth);
                let next = guard.core.cull_at();
                drop(guard);
                let Some(berth) = berth else {
                    self.service.cull_at(next);
                    break;
                };
                berth.parker.unpark(park::WAKE);
            }
        }
    }

    /// Tries again to create workers where that failed. Not only where work waits for one: a pool whose workers are
    /// all busy needs its standby before the last of them blocks, since nobody asks for one then.
    fn retry(&mut self, now: Nanos) {
        if now < self.service.retry_at.load(Ordering::Relaxed) {
            return;
        }
        self.service.retry_at.store(NEVER, Ordering::Relaxed);
        for pool in self.runtime.pools() {
            let guard = pool.lock_only();
            let (failed, nr_idle) = (guard.core.create_retry_at(), guard.core.nr_idle());
            drop(guard);
            match failed {
                Some(at) if at > now => self.service.retry_at(at),
                Some(_) if nr_idle == 0 => pool.create_worker(Creator::Spare),
                _ => {}
            }
        }
    }

    fn settle(&mut self, now: Nanos) {
        if now < self.service.settle_at.load(Ordering::Relaxed) {
            return;
        }
        self.service.settle_at.store(NEVER, Ordering::Relaxed);
        for pool in self.runtime.pools() {
            for thread in pool.threads() {
                thread.title.settle(self.runtime);
            }
        }
    }
}

/// Said once when a thread could not be had.
pub(crate) fn say_creation_failed(error: &std::io::Error) {
    notice::once(Notice::ThreadCreation, || {
        format!(
            "a worker could not be created ({error}); the existing ones carry on and creation is tried again \
             (raise RLIMIT_NPROC or the pids limit of the cgroup)"
        )
    });
}
