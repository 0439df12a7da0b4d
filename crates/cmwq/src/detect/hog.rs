//! CPU hogs: the evidence about workers, and the report of those that are found.
//!
//! [`cmwq_core::detect::hogs`] decides which workers are hogs, how many a pool may have, and which
//! are reported. Here are the marks that are kept from look to look, the machine's speed, and the
//! functions that were found.
//!
//! KERNEL: `wq_worker_tick`, `wq_cpu_intensive_report`, `wq_cpu_intensive_thresh_init`.

use std::fs;

use cmwq_core::detect::hogs::{self, Evidence, HogWatch, MAX_HOG_FUNCTIONS};
use cmwq_core::{Nanos, WorkFn};

use crate::os::notice;
use crate::os::sync::{AtomicU64, OnceLock, Ordering, PlainMutex, lock_plain};

/// The threshold unless the user set one. KERNEL: `wq_cpu_intensive_thresh_init` — same.
pub(crate) fn default_thresh_us() -> u64 {
    static THRESH_US_HERE: OnceLock<u64> = OnceLock::new();
    *THRESH_US_HERE.get_or_init(|| {
        let bogomips = fs::File::open("/proc/cpuinfo").ok().and_then(first_bogomips);
        hogs::default_thresh(bogomips) / 1_000
    })
}

/// The BogoMIPS of the first CPU, without the fraction.
fn first_bogomips(mut cpuinfo: impl std::io::Read) -> Option<u64> {
    // One read: the rest is about the other CPUs, and takes the kernel long to write.
    let mut text = [0; 4096];
    let len = cpuinfo.read(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text[..len]);
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(name, _)| name.trim().eq_ignore_ascii_case("bogomips"))?;
    value.trim().split('.').next()?.parse().ok()
}

/// A [`hogs::HogWatch`] in a thread's record, looked at by the service thread.
#[derive(Debug, Default)]
pub(crate) struct HogMarks {
    // ORDERING (all accesses): no pairing: the service thread's own marks. Other threads reset
    // `run`; a reset that is missed does no harm, since sleeps are counted, too.
    run: AtomicU64,
    since: AtomicU64,
    since_when: AtomicU64,
    looked_at: AtomicU64,
    sleeps: AtomicU64,
}

impl HogMarks {
    /// See [`HogWatch::slept`].
    pub(crate) fn slept(&self) {
        self.run.store(0, Ordering::Relaxed);
    }

    /// See [`HogWatch::judge`]. To be asked by one thread.
    pub(crate) fn judge(
        &self,
        seen: Evidence,
        thresh: Nanos,
        sleeps: impl FnOnce() -> Option<u64>,
    ) -> bool {
        let load = |mark: &AtomicU64| mark.load(Ordering::Relaxed);
        let mut watch = HogWatch {
            // Swapped at once, so that a sleep that is seen meanwhile is not overwritten.
            run: self.run.swap(seen.seq, Ordering::Relaxed),
            since: load(&self.since),
            since_when: load(&self.since_when),
            looked_at: load(&self.looked_at),
            sleeps: load(&self.sleeps),
        };
        let is_hog = watch.judge(seen, thresh, sleeps);
        let store = |mark: &AtomicU64, value| mark.store(value, Ordering::Relaxed);
        store(&self.since, watch.since);
        store(&self.since_when, watch.since_when);
        store(&self.looked_at, watch.looked_at);
        store(&self.sleeps, watch.sleeps);
        is_hog
    }
}

/// The hogs found so far, and when they are reported.
#[derive(Debug)]
pub(crate) struct Hogs {
    /// 0: no item is a hog.
    pub(crate) thresh_ns: Nanos,
    /// 0: none is reported.
    warning_thresh: u64,
    functions: PlainMutex<Vec<Entry>>,
    /// Those that are to be told of, as they were counted then.
    untold: PlainMutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    func: usize,
    /// All closures of one kind, and all reusable items, share a function: their queues tell them
    /// apart.
    queue: String,
    count: u64,
}

impl Hogs {
    /// `thresh_us`: the threshold, if the user has set one; `warning_thresh`: the first hog of a
    /// function that is reported, or 0.
    pub(crate) fn new(thresh_us: Option<u64>, warning_thresh: u32) -> Self {
        let thresh_us = thresh_us.unwrap_or_else(default_thresh_us);
        Self {
            thresh_ns: thresh_us.saturating_mul(1_000),
            warning_thresh: u64::from(warning_thresh),
            functions: PlainMutex::new(Vec::new()),
            untold: PlainMutex::new(Vec::new()),
        }
    }

    /// An item with this function, of this queue, was found to be a hog. Counts it. `true`: it is
    /// to be [told of](Self::tell), as now and then one is.
    #[cold]
    pub(crate) fn report(&self, func: WorkFn, queue: &str) -> bool {
        let func = func as usize;
        let Some(count) = self.count(func, queue) else { return false };
        let is_reported = hogs::is_reported(count, self.warning_thresh);
        if is_reported {
            lock_plain(&self.untold).push(Entry { func, queue: queue.to_owned(), count });
        }
        is_reported
    }

    /// Tells of those that are to be told of; `name_of`: the name of a function. That may take as
    /// long as somebody loads a library, and until somebody reads what is written.
    pub(crate) fn tell(&self, name_of: fn(usize) -> String) {
        let untold = std::mem::take(&mut *lock_plain(&self.untold));
        for Entry { func, queue, count } in untold {
            notice::always(format!(
                "workqueue '{queue}': {} hogged the CPU for more than {} us {count} times \
                 (consider an unbound or \
                 managed queue)",
                name_of(func),
                self.thresh_ns / 1_000
            ));
        }
    }

    /// Counts the hog. `None`: there is no room for another function.
    fn count(&self, func: usize, queue: &str) -> Option<u64> {
        let mut functions = self.functions.lock().ok()?;
        let known = functions.iter_mut().find(|entry| entry.func == func && entry.queue == queue);
        if let Some(entry) = known {
            entry.count += 1;
            return Some(entry.count);
        }
        if functions.len() >= MAX_HOG_FUNCTIONS {
            return None;
        }
        functions.push(Entry { func, queue: queue.to_owned(), count: 1 });
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn functions_are_counted_apart_until_there_are_too_many() {
        let hogs = Hogs::new(None, 4);
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

    #[test]
    fn marks_are_kept_from_look_to_look() {
        let marks = HogMarks::default();
        let look = |cpu: Nanos| {
            let (cpu, now) = (cpu * 1_000_000, cpu * 1_000_000);
            marks.judge(Evidence { seq: 1, cpu, now }, 10_000_000, || Some(3))
        };
        assert_eq!([0, 5, 9, 10].map(look), [false, false, false, true]);
        marks.slept();
        assert_eq!([11, 20, 21].map(look), [false, false, true], "from the sleep on");
    }
}
