//! What a program asks about its own queues, and says of its items.

use super::workqueue::Workqueue;
use crate::engine::threads::current;
use crate::engine::tools::histogram::Times;
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
        let waiting = self.handle().waiting();
        Stats {
            queued: waiting.queued,
            waiting_for_limit: waiting.for_limit,
            oldest: self.handle().account().and_then(|account| account.oldest()),
            ..Stats::new(self.handle().stats())
        }
    }

    /// How long sampled closures waited and ran, since the queue was made; of the last minutes
    /// [`Histogram::since`](crate::Histogram::since) tells. `None`: the queue was not built with
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
        self.handle().is_congested(cpu)
    }

    /// The queue's attributes as text; see [`sysfs`](crate::observe::sysfs).
    #[must_use]
    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub fn sysfs(&self) -> crate::observe::sysfs::Entry {
        crate::observe::sysfs::Entry(self.handle().shared())
    }
}

/// Longest description, in bytes. KERNEL: `WORKER_DESC_LEN` less the terminating null — same.
const MAX_DESC: usize = 31;

/// Says what the running item is doing: shown behind the worker's name, `kworker/0:1+desc`, in
/// place of the queue's name, until the worker starts its next item. At most 31 bytes are kept, of
/// which Linux shows what fits the 15 of a thread's name. Outside of a work function, and in items
/// of BH queues, it does nothing.
///
/// The name is changed by another thread, a few milliseconds later. May be called at any rate;
/// takes a lock that nobody holds for long.
///
/// KERNEL: `set_worker_desc` — same, with a string in place of a format.
///
/// ```
/// let wq = cmwq::Workqueue::new("flush")?;
/// wq.queue(|| cmwq::set_worker_desc("flush-8:0")).join().unwrap();
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn set_worker_desc(desc: &str) {
    let end = (0..=MAX_DESC.min(desc.len())).rev().find(|&end| desc.is_char_boundary(end));
    let desc = &desc[..end.unwrap_or(0)];
    current::with_running(|runtime, thread| {
        thread.comm.say(desc);
        runtime.service.write_comms_soon();
    });
}

/// Writes what one queue is doing to standard error.
pub fn show_one_workqueue(wq: &Workqueue) {
    show::show_one(wq.handle());
}
