//! While work waits at capacity the pool is watched: by the tick, and by sentinels, whose alarms
//! wake the standby.
//!
//! [`Locked::watch`] says under the lock whether to begin or to go on with it;
//! [`Pool::begin_watch`] and [`Pool::keep_watch`] do so without.

use cmwq_core::detect::alarms::{self, AfterFalse};
use cmwq_core::{Nanos, Reading};

use super::{Holder, Locked, Pool, PoolKind, Todo};
use crate::detect::method::Detect;
use crate::detect::sentinel::Guarded;
use crate::detect::ticking::Watched;
use crate::os::clock;
use crate::os::park::{self, Parker};
use crate::os::published::Lasting;
use crate::os::sense;
use crate::os::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, acquire, release, without};
use crate::os::topo::CpuSet;

/// Whom the sentinels of a pool's CPUs wake, and what has become of it.
pub(super) struct Alarms {
    /// The worker to send a [`park::CHECK`], if there is one. Read by the sentinel, which takes no
    /// lock; set under the lock.
    standby: Lasting<Parker>,
    /// False alarms came in quick succession, or many in a row: the sentinels wait for the tick.
    are_suppressed: AtomicBool,
    /// When the last false alarm came.
    last_false: AtomicU64,
    /// False alarms since a worker was found blocked.
    nr_false: AtomicU32,
}

// ORDERING (all accesses of `are_suppressed`, `last_false`, `nr_false`): no pairing: hints.
impl Alarms {
    pub(super) fn new() -> Self {
        Self {
            standby: Lasting::nothing(),
            are_suppressed: AtomicBool::new(false),
            last_false: AtomicU64::new(0),
            nr_false: AtomicU32::new(0),
        }
    }

    fn are_suppressed(&self) -> bool {
        self.are_suppressed.load(Ordering::Relaxed)
    }

    fn suppress(&self, are_suppressed: bool) {
        self.are_suppressed.store(are_suppressed, Ordering::Relaxed);
    }

    fn nr_false(&self) -> u32 {
        self.nr_false.load(Ordering::Relaxed)
    }

    /// Counts a false one.
    fn was_false(&self, now: Nanos) -> AfterFalse {
        let last = self.last_false.swap(now, Ordering::Relaxed);
        let in_a_row = self.nr_false.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        alarms::after_false(last, now, in_a_row)
    }

    fn bear_fruit(&self) {
        self.nr_false.store(0, Ordering::Relaxed);
    }
}

impl Pool {
    /// Whether detectors watch this pool. A hint.
    pub(crate) fn is_watched(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `Locked::keep_watch`, for the standby.
        self.watched.load(acquire("is_watched"))
    }

    /// Wakes the standby, to look for blocked workers. Lock-free: all that the sentinel does.
    pub(crate) fn alarm(&self) {
        if let Some(standby) = self.alarms.standby.get() {
            standby.unpark(park::CHECK);
        }
    }

    /// Arms the sentinels of all running workers' CPUs, and has the tick come.
    pub(super) fn begin_watch(&'static self) {
        if let PoolKind::Bh(cpu) = self.kind {
            return self.runtime.bh.raise(self.runtime, cpu);
        }
        if self.uses_sentinels() {
            self.arm_all_sentinels();
        }
        if self.runtime.detect != Detect::Inline {
            self.runtime.service.start_ticking(self);
        }
        self.ask_others();
    }

    /// Arms the sentinel of the CPU this thread runs on.
    pub(super) fn keep_watch(&'static self) {
        if self.uses_sentinels()
            && let Some(cpu) = self.lone_cpu.or_else(sense::sched::current_cpu)
        {
            self.runtime.sentinels.arm(cpu);
        }
        self.ask_others();
    }

    /// Whether alarms are to be had, and are of use now.
    fn uses_sentinels(&self) -> bool {
        self.runtime.detect.has_sentinel() && !self.alarms.are_suppressed()
    }

    /// Whether no sentinel is missing that would send it an alarm. Asked by each tick: without
    /// making sets of CPUs where there is one.
    pub(crate) fn is_covered(&'static self) -> bool {
        let sentinels = &self.runtime.sentinels;
        self.lone_cpu.is_some_and(|cpu| sentinels.covers(self, [cpu]))
            || self.guarded_cpus().is_none_or(|cpus| sentinels.covers(self, cpus.iter()))
    }

    /// Arms the sentinels of the CPUs on which this pool's running workers entered their functions.
    fn arm_all_sentinels(&'static self) {
        if let Some(cpu) = self.lone_cpu {
            return self.runtime.sentinels.arm(cpu);
        }
        let (mut cpus, has_process) = self.read(cpus_in_use);
        if has_process && let Some(all) = self.guarded_cpus() {
            // Where the process is nobody knows.
            cpus = cpus.or(&all);
        }
        for cpu in cpus.iter() {
            self.runtime.sentinels.arm(cpu);
        }
    }

    /// A sentinel ran although no worker was blocked.
    pub(crate) fn false_alarm(&'static self) {
        match self.alarms.was_false(clock::now()) {
            AfterFalse::Arm => self.arm_all_sentinels(),
            AfterFalse::WaitForTick => {
                self.alarms.suppress(true);
                self.runtime.service.wake_now();
            }
            AfterFalse::Rest => self.alarms.suppress(true),
        }
    }

    /// The tick has come, and goes on: sentinels may give alarms again.
    pub(crate) fn resume_alarms(&'static self) {
        self.alarms.suppress(false);
        self.arm_all_sentinels();
    }

    /// A worker was found blocked, so alarms are useful.
    pub(crate) fn alarms_bear_fruit(&self) {
        self.alarms.bear_fruit();
    }
}

impl Locked {
    /// Work waits at capacity: detectors must watch the pool.
    #[inline(always)]
    pub(crate) fn watch(&mut self, pool: &Pool, by: Holder) -> Todo {
        if !self.watched {
            self.begin_watch(pool);
            return Todo::BeginWatch;
        }
        // Where nobody detects, there is no sentinel to arm, and nobody who wakes the standby.
        let arms_sentinel = by == Holder::Claimer && pool.has_tick;
        if !arms_sentinel && !pool.may_be_helped() {
            return Todo::Nothing;
        }
        self.keep_watch(pool);
        Todo::KeepWatch
    }

    /// See [`watch`](Self::watch): nobody was watching.
    #[inline(never)]
    fn begin_watch(&mut self, pool: &Pool) {
        clock::refresh_coarse();
        if pool.has_short_items() {
            let now = self.progress_now();
            self.set_short(pool, !self.measured.is_old(now), now);
            self.post_entry(pool);
        }
        self.watched = true;
        self.keep_watch(pool);
    }

    /// See [`watch`](Self::watch): the standby may be another worker now.
    #[inline(never)]
    fn keep_watch(&mut self, pool: &Pool) {
        self.refresh_standby(pool);
        // ORDERING: Release pairs with the Acquire in `is_watched`.
        pool.watched.store(true, release("watch"));
    }

    /// The idle workers have changed: tells the sentinel the new standby, if the pool is watched.
    pub(crate) fn refresh_standby(&mut self, pool: &Pool) {
        if self.watched {
            let standby = self.core.standby().and_then(|id| self.thread(id)).map(|t| t.parker);
            pool.alarms.standby.follow(standby);
        }
    }

    /// No work waits: detectors may rest. To be followed by [`todo`](Self::todo), for the inbox.
    pub(crate) fn unwatch(&mut self, pool: &Pool) {
        if self.watched {
            self.watched = false;
            // ORDERING: no pairing: detectors that miss it look once more for nothing.
            pool.watched.store(false, Ordering::Relaxed);
        }
    }
}

/// The CPUs on which running workers entered their functions; and whether one of them stands for a
/// process.
fn cpus_in_use(core: Reading<'_>, locked: &Locked) -> (CpuSet, bool) {
    let (mut cpus, mut has_process) = (CpuSet::new(), false);
    for view in core.workers().filter(|view| view.running) {
        if view.stands_for_process {
            has_process = true;
        } else if let Some(thread) = locked.thread(view.id) {
            cpus.insert(thread.cpu());
        }
    }
    (cpus, has_process)
}

impl Guarded for Pool {
    fn yields_first(&self) -> bool {
        // ORDERING: no pairing: a hint.
        let is_tick_first = self.runtime.service.is_tick_first.load(Ordering::Relaxed);
        alarms::yields_first(self.alarms.nr_false(), is_tick_first) && self.is_watched()
    }

    fn cpu_idles(&'static self) {
        if !without("caller_computes.end") {
            self.set_caller_computes(false);
        }
        if self.is_watched() {
            self.alarm();
        }
    }
}

impl Watched for Pool {
    fn is_watched(&self) -> bool {
        self.is_watched()
    }

    fn is_listed(&self) -> &AtomicBool {
        &self.is_ticking
    }
}
