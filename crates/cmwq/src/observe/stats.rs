//! What a queue's items have done so far.

use std::fmt;
use std::time::Duration;

use cmwq_core::PwqStats;

/// Counters of a queue since it was made. They only grow, but for `cpu_time`, see there; and what
/// waits there now.
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
    /// Items that were cancelled before they ran.
    pub cancelled: u64,
    /// Items that wait now: queued, and their function not yet entered. Not those with an armed
    /// timer. 0 where another process is looked at.
    pub queued: u64,
    /// Of those, the items that wait for another one to finish because as many are in execution as
    /// [`max_active`](crate::Builder::max_active) allows.
    pub waiting_for_limit: u64,
    /// How long the oldest waiting closure has waited, of those sampled
    /// ([`Builder::sample_times`](crate::Builder::sample_times)). Of these, 16 that wait are kept
    /// with their times. While more wait, the time of the sampled closure that began last stands
    /// for the oldest one without a place; the result may then be too long, or too short if
    /// closures do not begin in the order of queueing. `None`: no sampled closure waits.
    pub oldest: Option<Duration>,
}

impl Stats {
    pub(crate) fn new(sum: PwqStats) -> Self {
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
            ..Self::default()
        }
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
