//! What a program asks about its own queues.

use super::workqueue::Workqueue;
use crate::engine::histogram::Times;
use crate::observe::show;
use crate::observe::stats::Stats;

impl Workqueue {
    /// What this queue's items have done so far. Takes the locks of the pools that it uses, one
    /// after the other: for people and tools, not for hot paths. The counters are not of one
    /// instant.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::new("counted")?;
    /// wq.queue(|| ()).join().unwrap();
    /// assert_eq!(wq.stats().started, 1);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        let waiting = self.wq().waiting();
        Stats {
            queued: waiting.queued,
            waiting_for_limit: waiting.for_limit,
            oldest: self.handle().account().and_then(|account| account.oldest()),
            ..Stats::new(self.wq().stats())
        }
    }

    /// How long sampled closures waited and ran. `None`: the queue was not built with
    /// [`sample_times`](crate::Builder::sample_times), which says why reusable items are not among
    /// them. Takes no lock, and copies some 4 KiB.
    #[must_use]
    pub fn times(&self) -> Option<Times> {
        self.handle().account().and_then(|account| account.times())
    }

    /// Whether items that were queued for `cpu`, or from here, wait because as many as `max_active`
    /// allows are in execution. A hint, out of date when it is returned; an item that waits for a
    /// CPU or a worker only is no congestion.
    ///
    /// KERNEL: `workqueue_congested` — same.
    #[must_use]
    #[doc(alias = "workqueue_congested")]
    pub fn is_congested(&self, cpu: Option<u32>) -> bool {
        self.wq().is_congested(cpu)
    }

    /// The queue's attributes as text; see [`sysfs`](crate::observe::sysfs).
    #[must_use]
    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub fn sysfs(&self) -> crate::observe::sysfs::Entry {
        crate::observe::sysfs::Entry(self.handle().shared())
    }
}

/// Writes what one queue is doing to standard error.
pub fn show_one_workqueue(wq: &Workqueue) {
    show::show_one(wq.wq());
}
