//! CPU hogs: which items are, how many a pool may have, and which are reported.
//!
//! An item that uses the CPU for long without sleeping keeps the others of its CPU waiting although
//! it never blocks. Once it has used the CPU for the threshold it is taken for CPU-intensive
//! ([`PoolState::worker_cpu_intensive`](crate::PoolState::worker_cpu_intensive)), and the next item
//! starts beside it. The tick looks for hogs, and it comes only while work waits. So items that run
//! alone cost nothing, the measure begins with the first tick of a run, and a hog is found at most
//! one tick late.
//!
//! On a per-CPU queue a hog is a mistake, and reported. A managed queue is made for computing:
//! there at most as many hogs as the pod has CPUs are taken out of the count. So a short item waits
//! for one long item only, and many long items do not get a thread each.
//!
//! KERNEL: `wq_worker_tick`, `wq_cpu_intensive_report`, `wq_cpu_intensive_thresh_init`. Differs:
//! there the scheduler's tick looks at every CPU, and a pool may have any number of hogs.
//!
//! Why: docs/decisions/hogs-by-the-tick.md

use crate::ids::Nanos;
use crate::place::PoolKind;

/// The threshold on a machine that is not slow: 10 ms of CPU time.
pub const HOG_THRESH_NS: Nanos = 10_000_000;
/// LIMIT: the threshold on the slowest machine: 1 s.
const MAX_THRESH_NS: Nanos = 1_000_000_000;
/// Machines of fewer BogoMIPS are slow.
const FAST_BOGOMIPS: u64 = 4_000;
/// LIMIT: functions whose hogs are counted. KERNEL: `WCI_MAX_ENTS` — same: further ones are not
/// reported.
pub const MAX_HOG_FUNCTIONS: usize = 128;
/// A worker's sleeps are read each time it has used one of so many parts of the threshold.
const PARTS: Nanos = 8;

/// The threshold, in nanoseconds of CPU time, of a machine whose first CPU has so many BogoMIPS;
/// `None`: unknown. KERNEL: `wq_cpu_intensive_thresh_init` — same.
#[must_use]
pub const fn default_thresh(bogomips: Option<u64>) -> Nanos {
    match bogomips {
        Some(slow) if slow < FAST_BOGOMIPS => {
            let thresh_us =
                HOG_THRESH_NS / 1_000 * FAST_BOGOMIPS / if slow == 0 { 1 } else { slow };
            if thresh_us < MAX_THRESH_NS / 1_000 { thresh_us * 1_000 } else { MAX_THRESH_NS }
        }
        _ => HOG_THRESH_NS,
    }
}

/// How many more hogs are taken out of the count in a pool of this kind that may run `concurrency`
/// workers. `nr_hogs`: how many it has; called only where it matters.
#[must_use]
pub fn room(kind: PoolKind, concurrency: u32, nr_hogs: impl FnOnce() -> u32) -> u32 {
    match kind {
        PoolKind::Managed => concurrency.saturating_sub(nr_hogs()),
        PoolKind::Percpu | PoolKind::Unbound | PoolKind::Bh => u32::MAX,
    }
}

/// Whether a hog in a pool of this kind is a programmer's mistake.
#[must_use]
pub const fn is_mistake(kind: PoolKind) -> bool {
    !matches!(kind, PoolKind::Managed)
}

/// Whether the hog that is the `count`th of its function is reported: from the threshold on, each
/// time twice as rarely; with a threshold of 0 never. KERNEL: `wq_cpu_intensive_report` — same.
#[must_use]
pub const fn is_reported(count: u64, warning_thresh: u64) -> bool {
    warning_thresh != 0 && count >= warning_thresh && (count + 1 - warning_thresh).is_power_of_two()
}

/// What a look saw of a running worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The number of its run.
    pub seq: u64,
    /// CPU time of its thread, in nanoseconds.
    pub cpu: Nanos,
    /// The time of the look, in nanoseconds.
    pub now: Nanos,
}

/// How long a worker has been using the CPU since it last slept, as far as looks can tell. One
/// thread looks, at intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HogWatch {
    /// The run that is measured.
    pub run: u64,
    /// When the measure began: CPU time of the thread, and time of day.
    pub since: Nanos,
    /// See [`since`](Self::since).
    pub since_when: Nanos,
    /// CPU time at the last look for sleeps.
    pub looked_at: Nanos,
    /// How often the thread had slept by then, or [`UNKNOWN`](Self::UNKNOWN).
    pub sleeps: u64,
}

impl Default for HogWatch {
    fn default() -> Self {
        Self { run: 0, since: 0, since_when: 0, looked_at: 0, sleeps: Self::UNKNOWN }
    }
}

impl HogWatch {
    /// Sleeps that were not counted yet.
    pub const UNKNOWN: u64 = u64::MAX;

    /// The worker was seen asleep: the CPU time before that does not matter.
    #[inline]
    pub const fn slept(&mut self) {
        self.run = 0;
    }

    /// Whether the worker, which runs, has used the CPU for `thresh` nanoseconds without a sleep.
    /// `sleeps`: how often its thread has slept, if that is known; a dear call.
    #[must_use]
    pub fn judge(
        &mut self,
        seen: Evidence,
        thresh: Nanos,
        sleeps: impl FnOnce() -> Option<u64>,
    ) -> bool {
        if self.run != seen.seq {
            (self.run, self.sleeps) = (seen.seq, Self::UNKNOWN);
            self.begin(seen);
            return false;
        }
        let is_long = seen.cpu.saturating_sub(self.since) >= thresh;
        if !is_long && seen.cpu.saturating_sub(self.looked_at) < thresh / PARTS {
            return false;
        }
        self.looked_at = seen.cpu;
        let sleeps = sleeps();
        let before = core::mem::replace(&mut self.sleeps, sleeps.unwrap_or(Self::UNKNOWN));
        let may_have_slept = match sleeps {
            // Unknown: the CPU time has to do.
            None => false,
            Some(sleeps) if before != Self::UNKNOWN => sleeps != before,
            // The looks came too late to tell: the measure begins with this count.
            Some(_) if is_long => true,
            // A thread that had the CPU nearly all the time had no time to sleep.
            Some(_) => {
                let passed = seen.now.saturating_sub(self.since_when);
                seen.cpu.saturating_sub(self.since) < passed - passed / 8
            }
        };
        if may_have_slept {
            self.begin(seen);
        }
        is_long && !may_have_slept
    }

    const fn begin(&mut self, seen: Evidence) {
        (self.since, self.since_when, self.looked_at) = (seen.cpu, seen.now, seen.cpu);
    }
}
