//! The service thread: whatever must happen at a time rather than on an event.
//!
//! Timers of delayed items, the adaptive tick of the detectors, culling of idle workers, retries of
//! failed creation, calls for rescuers, names of idle workers. It sleeps without a deadline when
//! there is none of these: a process whose queues are idle wakes nobody.

use std::ptr::NonNull;
use std::time::Duration;

use cmwq_core::consts::CREATE_COOLDOWN_NS;
use cmwq_core::detect::Tick;
use cmwq_core::detect::tick::TICK_FIRST_NS;
use cmwq_core::{Nanos, Retry, Timer, WorkItem};

use crate::detect::ticking::TickList;
use crate::engine::delayed;
use crate::engine::detection;
use crate::engine::plan::{NEVER, Plan};
use crate::engine::pool::{Creator, Pool};
use crate::engine::runtime::Runtime;
use crate::engine::timers::{Armed, Timers};
use crate::engine::wq::{Handle, TimersHandle};
use crate::os::clock;
use crate::os::generation;
use crate::os::notice::{self, Notice};
use crate::os::park;
use crate::os::sense;
use crate::os::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock, without};

const SERVICE_STACK: usize = 256 << 10;

/// The thread has little to do each time, and that at once: the shortest slice there is, 100 µs.
const SLICE_NS: u64 = 100_000;

/// So many timers are moved or taken off the wheel per hold of its lock: a few microseconds.
const FIRE_BATCH: usize = 64;
/// The CPUs are looked at no more often.
const RESCAN_EVERY: Nanos = 1_000_000_000;
/// No timer is due later.
const LATEST: Nanos = 1 << 62;
/// How long after a worker turned to something else its name says so.
const WRITE_COMMS_AFTER: Nanos = 25_000_000;

/// What the service thread shares with everybody else.
#[derive(Debug)]
pub(crate) struct Service {
    /// When the thread will look again; who needs it sooner wakes it.
    plan: Plan,
    /// Lock: timers.
    timers: Mutex<Timers>,
    /// Copy of [`Timers::deferred_at`] for workers. A hint.
    deferred_at: AtomicU64,
    /// Pools that were watched lately.
    ticking: TickList<Pool>,
    cull_at: AtomicU64,
    retry_at: AtomicU64,
    mayday_at: AtomicU64,
    comms_at: AtomicU64,
    /// A worker was found on a CPU that is not its own.
    rescan_at: AtomicU64,
    /// Pools whose next worker no other thread is fit to create.
    to_create_for: Mutex<Vec<&'static Pool>>,
    /// The tick is to come soon again, and often.
    is_wanted_now: AtomicBool,
    /// The next tick is to come soon.
    is_wanted_once: AtomicBool,
    has_to_start_watchdog: AtomicBool,
    is_stopping: AtomicBool,
}

impl Service {
    pub(crate) fn new() -> Self {
        Self {
            plan: Plan::new(),
            timers: Mutex::new(Timers::new(clock::now(), generation::current())),
            deferred_at: AtomicU64::new(NEVER),
            ticking: TickList::new(),
            cull_at: AtomicU64::new(NEVER),
            retry_at: AtomicU64::new(NEVER),
            mayday_at: AtomicU64::new(NEVER),
            comms_at: AtomicU64::new(NEVER),
            rescan_at: AtomicU64::new(NEVER),
            to_create_for: Mutex::new(Vec::new()),
            is_wanted_now: AtomicBool::new(false),
            is_wanted_once: AtomicBool::new(false),
            has_to_start_watchdog: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// Starts the thread.
    pub(crate) fn start(runtime: &'static Runtime) -> std::io::Result<()> {
        runtime.threads.spawn("cmwq/service", SERVICE_STACK, move || Loop::new(runtime).run())
    }

    /// The watchdog is needed, and has no thread.
    #[cold]
    pub(crate) fn start_watchdog(&self) {
        // ORDERING: no pairing of its own: who takes the token of the wake-up sees it.
        self.has_to_start_watchdog.store(true, Ordering::Relaxed);
        self.plan.wake();
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

    /// Work waits that nobody comes for; see at `at` whether rescuers have to be called.
    pub(crate) fn mayday_at(&self, at: Nanos) {
        self.plan.lower(&self.mayday_at, at);
    }

    /// A worker's name is wrong.
    #[inline]
    pub(crate) fn write_comms_soon(&self) {
        // ORDERING: no pairing: only a short cut.
        if self.comms_at.load(Ordering::Relaxed) == NEVER {
            self.plan.lower(&self.comms_at, clock::now() + WRITE_COMMS_AFTER);
        }
    }

    /// The pool wants a worker, and the caller's scheduling policy is one that it must not inherit.
    #[cold]
    pub(crate) fn create_for(&self, pool: &'static Pool) {
        let mut to_create_for = lock(&self.to_create_for);
        if !to_create_for.iter().any(|known| std::ptr::eq(*known, pool)) {
            to_create_for.push(pool);
        }
        drop(to_create_for);
        self.plan.wake();
    }

    /// A worker is not where it belongs: look which CPUs there are, and put it back.
    #[cold]
    pub(crate) fn rescan_soon(&self) {
        // ORDERING: no pairing: only a short cut.
        if self.rescan_at.load(Ordering::Relaxed) == NEVER {
            self.plan.lower(&self.rescan_at, clock::now());
        }
    }

    #[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
    pub(crate) fn is_to_rescan(&self) -> bool {
        self.rescan_at.load(Ordering::Relaxed) != NEVER
    }

    /// The pool's work waits at capacity: look at its workers at intervals.
    pub(crate) fn start_ticking(&self, pool: &'static Pool) {
        if self.ticking.add(pool) {
            self.plan.need_by(clock::now() + TICK_FIRST_NS);
        }
    }

    /// Something relies on the tick: let it come soon, and often.
    pub(crate) fn wake_now(&self) {
        // ORDERING: no pairing of its own: see `Plan`.
        if !self.is_wanted_now.swap(true, Ordering::Relaxed) {
            self.plan.need_by_unlocked(clock::now() + TICK_FIRST_NS);
        }
    }

    /// Sentinels wait for the next tick: let it come soon. Those after it come as they would have.
    pub(crate) fn wake_once(&self) {
        // ORDERING: no pairing of its own: see `Plan`.
        if !self.is_wanted_once.swap(true, Ordering::Relaxed) {
            self.plan.need_by_unlocked(clock::now() + TICK_FIRST_NS);
        }
    }

    // ---- timers

    /// Arms a timer for an item that is going to `wq`, which is kept in being until then.
    ///
    /// # Safety
    /// As for [`Wheel::arm`](cmwq_core::Wheel::arm) and [`TimersHandle::add`], for a timer of a
    /// delayed item with that route.
    #[inline]
    pub(crate) unsafe fn arm(&self, timer: NonNull<Timer>, delay: Duration, wq: TimersHandle) {
        let delay = delay
            .as_secs()
            .saturating_mul(1_000_000_000)
            .saturating_add(delay.subsec_nanos().into());
        let now = clock::now();
        let at = now.saturating_add(delay).min(LATEST);
        let mut timers = lock(&self.timers);
        // SAFETY: passed on to the caller.
        let armed = unsafe {
            wq.add();
            timers.arm(timer, at, now)
        };
        match armed {
            Armed::Prompt(deadline) => {
                drop(timers);
                // Whoever held the timers' lock second knows of the other: we of the plan, or the
                // service of the timer.
                self.plan.need_by(deadline);
            }
            Armed::Deferred => self.note_deferred(&timers),
        }
    }

    /// Disarms a timer, and calls `then` under the timers' lock; `None`: it was not armed.
    ///
    /// # Safety
    /// As for [`Wheel::cancel`](cmwq_core::Wheel::cancel).
    #[inline]
    pub(crate) unsafe fn disarm<T>(
        &self,
        timer: NonNull<Timer>,
        then: impl FnOnce() -> T,
    ) -> Option<T> {
        let mut timers = lock(&self.timers);
        // SAFETY: passed on to the caller.
        unsafe { timers.cancel(timer) }.then(then)
    }

    /// Whether a timer was armed in the process that this one is the child of; it is disarmed then.
    ///
    /// # Safety
    /// `timer` must be valid.
    pub(crate) unsafe fn is_foreign(&self, timer: NonNull<Timer>) -> bool {
        let timers = lock(&self.timers);
        // SAFETY: passed on to the caller.
        unsafe { timers.forget_foreign(timer) }
    }

    /// See [`Wheel::has_at`](cmwq_core::Wheel::has_at).
    pub(crate) fn has_timer_at(&self, timer: usize) -> bool {
        lock(&self.timers).has_at(timer)
    }

    /// See [`TimersHandle::sub`].
    ///
    /// # Safety
    /// As there, but for the lock.
    #[must_use]
    pub(crate) unsafe fn forget_timers(&self, wq: TimersHandle, count: u64) -> Option<Handle> {
        let _timers = (!without("forget_timers.lock")).then(|| lock(&self.timers));
        // SAFETY: under the lock; the rest is passed on to the caller.
        unsafe { wq.sub(count) }
    }

    /// Disarms all timers: their items go to their queues, which refuse them.
    pub(crate) fn discard_timers(&self) {
        let (mut due, mut items) = (Vec::new(), Vec::new());
        loop {
            let mut budget = FIRE_BATCH;
            let mut timers = lock(&self.timers);
            while let Some(timer) = timers.expire_some(LATEST, &mut budget) {
                due.push(timer);
            }
            drop(timers);
            // SAFETY: armed timers are members of delayed items that own PENDING and are alive.
            unsafe { delayed::expired(self, &due, &mut items) };
            if due.is_empty() && budget > 0 {
                return;
            }
            due.clear();
        }
    }

    /// A worker is about to sleep, so the process is not idle: deferrable timers that are due may
    /// come.
    #[inline]
    pub(crate) fn wake_for_deferred(&self) {
        // ORDERING: no pairing: a hint, and there is no hurry.
        let at = self.deferred_at.load(Ordering::Relaxed);
        if at != NEVER && at <= clock::now() {
            self.plan.wake();
        }
    }

    fn note_deferred(&self, timers: &Timers) {
        // ORDERING: no pairing: a hint.
        self.deferred_at.store(timers.deferred_at(), Ordering::Relaxed);
    }
}

/// The thread's own state.
struct Loop {
    runtime: &'static Runtime,
    service: &'static Service,
    tick_at: Nanos,
    tick: Tick,
    nr_ticks: usize,
    /// There were more timers to handle than are handled at once.
    is_behind: bool,
    /// When to look at the CPUs again, if the thread is awake then.
    rescan_due: Nanos,
    /// When to try to start the watchdog, if it is wanted.
    watchdog_due: Nanos,
    due: Vec<NonNull<Timer>>,
    /// Scratch space of [`delayed::expired`].
    items: Vec<NonNull<WorkItem>>,
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
            is_behind: false,
            due: Vec::with_capacity(FIRE_BATCH),
            items: Vec::with_capacity(FIRE_BATCH),
            rescan_due: clock::now() + RESCAN_EVERY,
            watchdog_due: 0,
            pools: Vec::new(),
        }
    }

    fn run(mut self) {
        if cfg!(not(any(cmwq_loom, cmwq_shuttle))) {
            sense::sched::set_timer_slack_ns(1);
            // Only a hint: without it, what is due waits for the slices of our own workers.
            let _ = sense::sched::set_slice_ns_current(SLICE_NS);
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
            self.retry(now);
            self.mayday(now);
            self.create();
            self.start_watchdog(now);
            self.write_comms(now);
            self.rescan(now);
            self.service.plan.sleep(|| self.deadline());
        }
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
        if service.is_wanted_once.swap(false, Ordering::Relaxed) && self.tick_at != NEVER {
            self.tick_at = self.tick_at.min(clock::now() + TICK_FIRST_NS);
        }
        if self.is_behind {
            return clock::now();
        }
        let timer = lock(&service.timers).next_deadline().unwrap_or(NEVER);
        // A worker that is displaced again and again waits for its turn.
        let rescan = service.rescan_at.load(Ordering::Relaxed);
        let rescan = if rescan == NEVER { NEVER } else { rescan.max(self.rescan_due) };
        let is_wanted = service.has_to_start_watchdog.load(Ordering::Relaxed);
        let watchdog = if is_wanted { self.watchdog_due } else { NEVER };
        [&service.cull_at, &service.retry_at, &service.mayday_at, &service.comms_at]
            .map(|at| at.load(Ordering::Relaxed))
            .into_iter()
            .chain([self.tick_at, timer, rescan, watchdog])
            .min()
            .unwrap_or(NEVER)
    }

    /// Queues items whose time has come. Some of them: where there are more, this thread comes back
    /// after a look at its other duties.
    fn fire(&mut self, now: Nanos) {
        let service = self.service;
        let mut budget = FIRE_BATCH;
        let mut timers = lock(&service.timers);
        while let Some(timer) = timers.expire_some(now, &mut budget) {
            self.due.push(timer);
        }
        // ORDERING: no pairing: a hint, and written under the lock.
        if service.deferred_at.load(Ordering::Relaxed) <= now {
            service.note_deferred(&timers);
        }
        drop(timers);
        self.is_behind = budget == 0;
        // SAFETY: armed timers are members of delayed items that own PENDING and are alive.
        unsafe { delayed::expired(service, &self.due, &mut self.items) };
        self.due.clear();
    }

    /// Looks at the running workers of pools whose work waits.
    fn tick(&mut self, now: Nanos) {
        if now < self.tick_at {
            return;
        }
        clock::look();
        self.nr_ticks = self.nr_ticks.wrapping_add(1);
        self.service.ticking.collect(&mut self.pools);
        let mut has_woken = false;
        for pool in &self.pools {
            if self.runtime.detect.has_sentinel() {
                self.runtime.sentinels.cover(pool, &self.runtime.threads, || pool.guarded_cpus());
            }
            has_woken |= self.tick_pool(pool);
        }
        self.service.ticking.drop_quiet();
        if self.runtime.sentinels.is_one_astray() {
            self.service.rescan_soon();
        }
        let interval = self.tick.after(has_woken);
        self.tick_at =
            if self.service.ticking.is_empty() { NEVER } else { clock::now() + interval };
    }

    /// Whether it found somebody blocked, and that let somebody else start.
    fn tick_pool(&self, pool: &'static Pool) -> bool {
        if !pool.is_watched() {
            return false;
        }
        pool.detect_short_items();
        let found = detection::look(pool, None, true);
        if found.has_to_watch && self.runtime.detect.has_sentinel() {
            // ORDERING: no pairing: a hint.
            pool.is_suppressed.store(false, Ordering::Relaxed);
            pool.arm_all_sentinels();
        }
        if found.has_backlog && !pool.has_short_items() {
            self.runtime.call_for_help(pool);
            self.runtime.watch_other_pods(pool, self.nr_ticks);
        }
        found.has_woken
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
                if leaving.is_some() {
                    guard.mirror.culled();
                    guard.settle_mirror();
                }
                let parker = leaving.and_then(|id| guard.thread(id)).map(|thread| thread.parker);
                let next = guard.core.cull_at();
                drop(guard);
                let Some(parker) = parker else {
                    self.service.cull_at(next);
                    break;
                };
                parker.unpark(park::WAKE);
            }
        }
    }

    /// Tries again to create workers where that failed.
    fn retry(&mut self, now: Nanos) {
        if now < self.service.retry_at.load(Ordering::Relaxed) {
            return;
        }
        self.service.retry_at.store(NEVER, Ordering::Relaxed);
        self.runtime.bh.retry(self.runtime);
        for pool in self.runtime.pools() {
            let guard = pool.lock_only();
            let retry = guard.core.retry(now);
            drop(guard);
            match retry {
                Retry::Nothing => {}
                Retry::At(at) => self.service.retry_at(at),
                Retry::Create => pool.create_worker(Creator::Spare),
            }
        }
    }

    /// Calls rescuers to pools whose work nobody comes for.
    fn mayday(&mut self, now: Nanos) {
        if now < self.service.mayday_at.load(Ordering::Relaxed) {
            return;
        }
        self.service.mayday_at.store(NEVER, Ordering::Relaxed);
        for pool in self.runtime.pools() {
            self.service.mayday_at(pool.send_maydays(now));
        }
    }

    /// Creates workers for others; this thread has the process's own policy.
    fn create(&self) {
        let to_create_for = std::mem::take(&mut *lock(&self.service.to_create_for));
        for pool in to_create_for {
            pool.create_worker(Creator::Spare);
        }
    }

    fn start_watchdog(&mut self, now: Nanos) {
        let wanted = &self.service.has_to_start_watchdog;
        if !wanted.load(Ordering::Relaxed) || now < self.watchdog_due {
            return;
        }
        wanted.store(false, Ordering::Relaxed);
        if let Err(error) = crate::OBSERVERS.start_watchdog(self.runtime) {
            wanted.store(true, Ordering::Relaxed);
            self.watchdog_due = now + CREATE_COOLDOWN_NS;
            notice::once(Notice::Watchdog, || {
                format!(
                    "the watchdog has no thread ({error}); stalls are not reported until it gets \
                     one"
                )
            });
        }
    }

    /// Looks which CPUs the process has: once a second at most, and never only for that.
    fn rescan(&mut self, now: Nanos) {
        if now < self.rescan_due {
            return;
        }
        self.rescan_due = now + RESCAN_EVERY;
        let displaced = self.service.rescan_at.swap(NEVER, Ordering::Relaxed);
        self.runtime.rescan(displaced != NEVER);
    }

    fn write_comms(&mut self, now: Nanos) {
        if now < self.service.comms_at.load(Ordering::Relaxed) {
            return;
        }
        self.service.comms_at.store(NEVER, Ordering::Relaxed);
        for pool in self.runtime.pools() {
            for thread in pool.threads() {
                thread.comm.write(|wq| self.runtime.wq_name(wq));
            }
        }
    }
}

/// Said once when a thread could not be had.
pub(crate) fn say_creation_failed(error: &std::io::Error) {
    notice::once(Notice::ThreadCreation, || {
        format!(
            "a worker could not be created ({error}); the existing ones carry on and creation is \
             tried again \
             (raise RLIMIT_NPROC or the pids limit of the cgroup)"
        )
    });
}
