//! What a queue's items have done so far.

use std::fmt;
use std::time::Duration;

use cmwq_core::{PwqId, PwqStats};

use crate::api::workqueue::Workqueue;
use crate::engine::pool::{Locked, Pool};

/// Counters of a queue since it was made. They only grow, but for `cpu_time`, see there.
///
/// KERNEL: `PWQ_STAT_*`, summed as `wq_monitor.py` does — same, and `cancelled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Items whose function was entered. `started - completed` are running.
    pub started: u64,
    /// Items whose function has returned.
    pub completed: u64,
    /// CPU time that the items used. Exact, to the microsecond, as far as workers served this queue
    /// alone; where they also served others, divided as a sample per scheduler tick would, and then
    /// it may be corrected downwards by up to a tick. Includes items that still run, except those
    /// lent to another CPU and those of BH queues, which follow later.
    pub cpu_time: Duration,
    /// Items that hogged the CPU and were taken out of concurrency management.
    pub cpu_intensive: u64,
    /// Workers that were woken because a worker running an item of this queue blocked or hogged the
    /// CPU.
    pub cm_wakeup: u64,
    /// Workers that were sent back to their pod.
    pub repatriated: u64,
    /// Calls for the rescuer.
    pub mayday: u64,
    /// Items that the rescuer ran.
    pub rescued: u64,
    /// Items that were taken back before they ran.
    pub cancelled: u64,
}

impl Stats {
    fn new(sum: PwqStats) -> Self {
        Self {
            started: sum.started,
            completed: sum.completed,
            cpu_time: Duration::from_micros(sum.cpu_time),
            cpu_intensive: sum.cpu_intensive,
            cm_wakeup: sum.cm_wakeup,
            repatriated: sum.repatriated,
            mayday: sum.mayday,
            rescued: sum.rescued,
            cancelled: sum.cancelled,
        }
    }
}

impl Stats {
    /// Adds the counters of a part, which may be anything.
    pub(crate) fn add(&mut self, part: &Self) {
        let sum = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        sum(&mut self.started, part.started);
        sum(&mut self.completed, part.completed);
        self.cpu_time = self.cpu_time.saturating_add(part.cpu_time);
        sum(&mut self.cpu_intensive, part.cpu_intensive);
        sum(&mut self.cm_wakeup, part.cm_wakeup);
        sum(&mut self.repatriated, part.repatriated);
        sum(&mut self.mayday, part.mayday);
        sum(&mut self.rescued, part.rescued);
        sum(&mut self.cancelled, part.cancelled);
    }
}

/// One line: `started 3 completed 2 cpu_time 0.017s …`.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { started, completed, cpu_time, cpu_intensive, cm_wakeup, .. } = self;
        let Self { repatriated, mayday, rescued, cancelled, .. } = self;
        write!(
            f,
            "started {started} completed {completed} cpu_time {:.3}s cpu_intensive {cpu_intensive} \
             cm_wakeup {cm_wakeup} repatriated {repatriated} mayday {mayday} rescued {rescued} \
             cancelled {cancelled}",
            cpu_time.as_secs_f64()
        )
    }
}

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
        Stats::new(self.wq().stats())
    }

    /// Whether items that were queued for `cpu`, or from here, wait because as many as `max_active`
    /// allows are in execution. A hint, out of date when it is returned; an item that waits for a
    /// CPU or a worker only is no congestion.
    ///
    /// KERNEL: `workqueue_congested` — same.
    #[must_use]
    #[doc(alias = "workqueue_congested")]
    pub fn is_congested(&self, cpu: Option<usize>) -> bool {
        self.wq().is_congested(cpu.map(|cpu| u32::try_from(cpu).unwrap_or(u32::MAX)))
    }
}

impl Pool {
    /// Counters of a pwq, with what its workers have not settled yet.
    pub(crate) fn stats_of(&self, pwq: PwqId) -> PwqStats {
        let guard = self.lock_only();
        let mut stats = guard.core.pwq_stats(pwq).unwrap_or_default();
        stats.cpu_time +=
            guard.threads.iter().flatten().map(|thread| thread.pending_time(pwq)).sum::<u64>();
        stats
    }

    /// Removes a pwq; its final counters. `None`: not now, see `PoolState::remove_pwq`.
    pub(crate) fn remove_pwq(&self, pwq: PwqId) -> Option<PwqStats> {
        let mut guard = self.lock_only();
        let Locked { core, threads, mirror, .. } = &mut *guard;
        // Or their time would be that of the next pwq of this number.
        threads.iter().flatten().for_each(|thread| thread.forget_pwq(pwq, core));
        let removed = core.remove_pwq(pwq);
        if removed.is_some() {
            mirror.remove_pwq(pwq);
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_all_counters() {
        let sum = PwqStats::default();
        let text = Stats { cpu_time: Duration::from_micros(17_400), ..Stats::new(sum) }.to_string();
        assert_eq!(
            text,
            "started 0 completed 0 cpu_time 0.017s cpu_intensive 0 cm_wakeup 0 repatriated 0 \
             mayday 0 rescued 0 \
             cancelled 0"
        );
    }
}
