//! CPU hogs: finding items that use the CPU for long without sleeping, and naming them.
//!
//! Such an item keeps the others of its CPU waiting although it never blocks. Once it has used the CPU
//! for the threshold it is taken for CPU-intensive: it does not count as running any more, and the
//! next item starts beside it. The look is made by the tick, which comes only while work waits: running
//! items costs nothing, and neither does idling. So the measured time begins with the first tick of a
//! run, and an item is found at most one tick late.
//!
//! On a per-CPU queue a hog is a mistake, and named. A managed queue is made for computing: there at most
//! as many hogs as the pod has CPUs are taken out of the count, so that a short item waits for one long
//! one only, and a load of long items does not end in a thread for each.
//!
//! *Kernel*: `wq_worker_tick`, `wq_cpu_intensive_report`, `wq_cpu_intensive_thresh_init`.

use std::fs;

use cmwq_core::{Nanos, WorkFn};

use crate::notice;
use crate::params::Params;
use crate::symbol;
use crate::sync::{AtomicU64, OnceLock, Ordering, PlainMutex};

/// Threshold on a machine that is not slow: 10 ms.
const THRESH_US: u64 = 10_000;
/// LIMIT: on no machine more: 1 s.
const MAX_THRESH_US: u64 = 1_000_000;
/// Machines of fewer BogoMIPS are slow.
const FAST_BOGOMIPS: u64 = 4_000;
/// LIMIT: functions that are counted. KERNEL: `WCI_MAX_ENTS` — same: further ones are not reported.
const MAX_FUNCTIONS: usize = 128;
/// Looks for sleeps are made whenever this part of the threshold was used.
const PARTS: Nanos = 8;

/// The threshold unless the user set one. KERNEL: `wq_cpu_intensive_thresh_init` — same.
pub(crate) fn default_thresh_us() -> u64 {
    static THRESH_US_HERE: OnceLock<u64> = OnceLock::new();
    *THRESH_US_HERE.get_or_init(|| {
        let bogomips = fs::File::open("/proc/cpuinfo").ok().and_then(first_bogomips);
        bogomips.map_or(THRESH_US, scaled)
    })
}

fn scaled(bogomips: u64) -> u64 {
    if bogomips >= FAST_BOGOMIPS {
        return THRESH_US;
    }
    (THRESH_US * FAST_BOGOMIPS / bogomips.max(1)).min(MAX_THRESH_US)
}

/// The whole BogoMIPS of the first CPU.
fn first_bogomips(mut cpuinfo: impl std::io::Read) -> Option<u64> {
    // One read: the rest is about the other CPUs, and takes the kernel long to write.
    let mut text = [0; 4096];
    let len = cpuinfo.read(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text[..len]);
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(name, _)| name.trim().eq_ignore_ascii_case("bogomips"))?;
    value.trim().split('.').next()?.parse().ok()
}

/// How long a worker has been using the CPU since it last slept, as far as ticks can tell. Kept in its
/// thread's record, looked at by the service thread.
#[derive(Debug, Default)]
pub(crate) struct HogWatch {
    // ORDERING (all accesses): no pairing: the service thread's own notes. `run` is reset by others; one
    // that is missed is made up for by the count of sleeps.
    /// The run that is measured.
    run: AtomicU64,
    /// When the measure began: CPU time of the thread, and of day.
    since: AtomicU64,
    since_when: AtomicU64,
    /// CPU time at the last look for sleeps, and how many there had been.
    looked_at: AtomicU64,
    sleeps: AtomicU64,
}

/// Not counted yet.
const UNKNOWN: u64 = u64::MAX;

impl HogWatch {
    /// It was seen asleep: what it used before does not matter.
    pub(crate) fn slept(&self) {
        self.run.store(0, Ordering::Relaxed);
    }

    /// Whether the worker, whose thread has used `cpu` nanoseconds at `now` and is in run `seq`, is a
    /// hog. `sleeps` counts how often the thread has slept, which is dear.
    pub(crate) fn look(
        &self,
        seq: u64,
        (cpu, now): (Nanos, Nanos),
        thresh: Nanos,
        sleeps: impl FnOnce() -> Option<u64>,
    ) -> bool {
        if self.run.swap(seq, Ordering::Relaxed) != seq {
            self.sleeps.store(UNKNOWN, Ordering::Relaxed);
            self.begin(cpu, now);
            return false;
        }
        let since = |then: &AtomicU64| cpu.saturating_sub(then.load(Ordering::Relaxed));
        let is_long = since(&self.since) >= thresh;
        if !is_long && since(&self.looked_at) < thresh / PARTS {
            return false;
        }
        self.looked_at.store(cpu, Ordering::Relaxed);
        if self.has_slept(cpu, now, sleeps()) {
            self.begin(cpu, now);
            return false;
        }
        is_long
    }

    fn begin(&self, cpu: Nanos, now: Nanos) {
        self.since.store(cpu, Ordering::Relaxed);
        self.since_when.store(now, Ordering::Relaxed);
        self.looked_at.store(cpu, Ordering::Relaxed);
    }

    /// Whether it slept since the last count; if this is the first, since the beginning.
    fn has_slept(&self, cpu: Nanos, now: Nanos, sleeps: Option<u64>) -> bool {
        let Some(sleeps) = sleeps else { return false };
        let before = self.sleeps.swap(sleeps, Ordering::Relaxed);
        if before != UNKNOWN {
            return sleeps != before;
        }
        // Who had the CPU nearly all the time had none left to sleep.
        let used = cpu.saturating_sub(self.since.load(Ordering::Relaxed));
        let passed = now.saturating_sub(self.since_when.load(Ordering::Relaxed));
        used < passed - passed / 8
    }
}

/// What is known of hogs, and when they are named.
#[derive(Debug)]
pub(crate) struct Hogs {
    /// 0: nobody is one.
    pub(crate) thresh_ns: Nanos,
    /// 0: nobody is named.
    warning_thresh: u64,
    functions: PlainMutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    func: usize,
    /// All closures of one kind, and all reusable items, share a function: their queues tell them apart.
    queue: String,
    count: u64,
}

impl Hogs {
    pub(crate) fn new(params: &Params) -> Self {
        let thresh_us = params.cpu_intensive_thresh_us.unwrap_or_else(default_thresh_us);
        Self {
            thresh_ns: thresh_us.saturating_mul(1_000),
            warning_thresh: u64::from(params.cpu_intensive_warning_thresh),
            functions: PlainMutex::new(Vec::new()),
        }
    }

    /// An item with this function, of this queue, was found to be a hog. Names it now and then.
    #[cold]
    pub(crate) fn report(&self, func: WorkFn, queue: &str) {
        let addr = func as usize;
        if let Some(count) = self.count(addr, queue)
            && is_worth_saying(count, self.warning_thresh)
        {
            notice::always(format!(
                "workqueue '{queue}': {} hogged the CPU for more than {} us {count} times (consider an unbound or \
                 managed queue)",
                symbol::name_of(addr),
                self.thresh_ns / 1_000
            ));
        }
    }

    /// Counts it; `None`: there is no room for another function.
    fn count(&self, func: usize, queue: &str) -> Option<u64> {
        let mut functions = self.functions.lock().ok()?;
        let known = functions.iter_mut().find(|entry| entry.func == func && entry.queue == queue);
        if let Some(entry) = known {
            entry.count += 1;
            return Some(entry.count);
        }
        if functions.len() >= MAX_FUNCTIONS {
            return None;
        }
        functions.push(Entry { func, queue: queue.to_owned(), count: 1 });
        Some(1)
    }
}

/// KERNEL: `wq_cpu_intensive_report` — same: from the threshold on, each time twice as rarely.
fn is_worth_saying(count: u64, warning_thresh: u64) -> bool {
    warning_thresh != 0 && count >= warning_thresh && (count + 1 - warning_thresh).is_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_scaled_on_slow_machines() {
        assert_eq!(scaled(5_000), 10_000);
        assert_eq!(scaled(4_000), 10_000);
        // As a kernel of 1750 BogoMIPS was seen to do.
        assert_eq!(scaled(1_750), 22_857);
        assert_eq!(scaled(40), 1_000_000);
        assert_eq!(scaled(39), 1_000_000);
        assert_eq!(scaled(0), 1_000_000);
    }

    #[test]
    fn bogomips_are_read_as_each_architecture_writes_them() {
        let x86 = "processor\t: 0\nbogomips\t: 5187.80\nclflush size\t: 64\nbogomips\t: 1.00\n";
        assert_eq!(first_bogomips(x86.as_bytes()), Some(5_187));
        let arm = "processor\t: 0\nBogoMIPS\t: 50.00\n";
        assert_eq!(first_bogomips(arm.as_bytes()), Some(50));
        assert_eq!(first_bogomips(&b"processor\t: 0\n"[..]), None);
        assert_eq!(first_bogomips(&b"bogomips\t: fast\n"[..]), None);
    }

    #[test]
    fn reports_back_off() {
        let said = |thresh| (1..=40).filter(|&n| is_worth_saying(n, thresh)).collect::<Vec<_>>();
        assert_eq!(said(4), [4, 5, 7, 11, 19, 35]);
        assert_eq!(said(1), [1, 2, 4, 8, 16, 32]);
        assert_eq!(said(0), [0; 0]);
    }

    #[test]
    fn functions_are_counted_apart_until_there_are_too_many() {
        let hogs = Hogs::new(&Params::default());
        assert_eq!(
            (hogs.count(1, "a"), hogs.count(1, "b"), hogs.count(1, "a")),
            (Some(1), Some(1), Some(2))
        );
        for func in 2..128 {
            assert_eq!(hogs.count(func, "a"), Some(1));
        }
        assert_eq!(hogs.count(128, "a"), None);
        assert_eq!(hogs.count(127, "a"), Some(2));
    }

    const MS: Nanos = 1_000_000;

    /// Ticks of one run: CPU time and time in ms, sleeps so far; which of them says "hog".
    fn ticks(watch: &HogWatch, seq: u64, ticks: &[(u64, u64, u64)]) -> Vec<bool> {
        let look = |&(cpu, now, sleeps): &(u64, u64, u64)| {
            watch.look(seq, (cpu * MS, now * MS), 10 * MS, || Some(sleeps))
        };
        ticks.iter().map(look).collect()
    }

    #[test]
    fn the_threshold_counts_from_the_first_look() {
        let watch = HogWatch::default();
        let run = [(100, 0, 5), (104, 4, 5), (108, 8, 5), (109, 9, 5), (111, 11, 5)];
        assert_eq!(ticks(&watch, 1, &run), [false, false, false, false, true]);
        assert_eq!(ticks(&watch, 2, &[(120, 20, 6), (125, 25, 6)]), [false, false], "a new run");
    }

    #[test]
    fn time_without_the_cpu_does_not_count() {
        let watch = HogWatch::default();
        let run = [(0, 0, 1), (2, 2, 1), (4, 20, 1), (9, 80, 1), (11, 120, 1)];
        assert_eq!(ticks(&watch, 1, &run), [false, false, false, false, true]);
    }

    #[test]
    fn a_sleep_starts_it_anew() {
        let watch = HogWatch::default();
        let run = [(0, 0, 1), (4, 4, 1), (8, 9, 2), (12, 13, 2), (17, 18, 2), (18, 19, 2)];
        assert_eq!(ticks(&watch, 1, &run), [false, false, false, false, false, true]);
        watch.slept();
        assert_eq!(ticks(&watch, 1, &[(30, 40, 2), (41, 51, 2)]), [false, true]);
    }

    #[test]
    fn a_sleep_before_the_first_count_is_told_by_the_clock() {
        let watch = HogWatch::default();
        let run = [(0, 0, 1), (2, 6, 2), (11, 15, 2), (12, 16, 2)];
        assert_eq!(ticks(&watch, 1, &run), [false, false, false, true]);
    }

    #[test]
    fn without_a_count_of_sleeps_time_has_to_do() {
        let watch = HogWatch::default();
        let look = |cpu| watch.look(1, (cpu * MS, cpu * MS), 10 * MS, || None);
        assert_eq!([0, 5, 10].map(look), [false, false, true]);
    }
}
